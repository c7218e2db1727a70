// The roster on disk: shell/roster.h.
#pragma once

#include <string>
#include <vector>

#include "shell/roster.h"

namespace salus::service {

using shell::RosterEntry;

/// The old roster stays whole until the new one is. False if it could not be written, which is logged.
bool write_roster(const std::string& path, const std::vector<RosterEntry>& entries);
/// Lines that make no sense are skipped: a roster only ever makes the service more careful.
std::vector<RosterEntry> read_roster(const std::string& path);

}  // namespace salus::service
