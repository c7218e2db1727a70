// Who is attached and what it has mapped, on disk: so that the next service, if this one is killed, charges what clients
// still hold until each has attached again or is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace salus::service {

struct RosterEntry {
    int pid = 0;
    std::uint64_t start_time = 0;  ///< start_time_of(pid)
    std::uint32_t lane = 0;
    Bytes lane_size;  ///< 0: none
    Bytes persistent;

    bool operator==(const RosterEntry&) const = default;
};

/// The old roster stays whole until the new one is. False if it could not be written, which is logged.
bool write_roster(const std::string& path, const std::vector<RosterEntry>& entries);
/// Lines that make no sense are skipped: a roster only ever makes the service more careful.
std::vector<RosterEntry> read_roster(const std::string& path);

/// Whether that very process still runs.
bool is_alive(const RosterEntry& entry);
/// What these processes hold: each one's P, and each lane once.
Bytes held_by(const std::vector<RosterEntry>& entries);

}  // namespace salus::service
