// The roster on disk: shell/roster.h.
#pragma once

#include <string>
#include <vector>

#include "shell/roster.h"

namespace salus::service {

using shell::RosterEntry;

/// `device`: its UUID, or the like; empty: it has none. The old roster stays in place until the new one is complete. If it
/// cannot be written, logs it and returns false.
bool write_roster(const std::string& path, const std::string& device, const std::vector<RosterEntry>& entries);
/// Empty if the roster is another device's: the service's files are called by the device's position, which another one may
/// have by now. Skips lines that make no sense: a roster only makes the service more careful.
std::vector<RosterEntry> read_roster(const std::string& path, const std::string& device);

}  // namespace salus::service
