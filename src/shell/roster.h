// The roster: which clients are attached and what they have mapped. It outlives the service. If the service is killed, the
// next one charges the memory that each client still holds, until the client has attached again or is gone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/bytes.h"

namespace salus::shell {

/// A process. A pid may be reused, this pair is not.
struct ProcessId {
    int pid = 0;
    std::uint64_t start_time = 0;  ///< in clock ticks since boot

    bool operator==(const ProcessId&) const = default;
};

struct RosterEntry {
    ProcessId process;
    std::uint32_t lane = 0;
    Bytes lane_size;  ///< 0: none
    Bytes persistent;

    bool operator==(const RosterEntry&) const = default;
};

/// The memory that these processes hold: the P of each, and each lane once.
inline Bytes held_by(const std::vector<RosterEntry>& entries) {
    Bytes sum;
    std::map<std::uint32_t, Bytes> lanes;
    for (const RosterEntry& entry : entries) {
        sum += entry.persistent;
        Bytes& size = lanes[entry.lane];
        size = std::max(size, entry.lane_size);
    }
    for (const auto& [lane, size] : lanes) sum += size;
    return sum;
}

}  // namespace salus::shell
