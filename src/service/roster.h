// The roster on disk: shell/roster.h.
#pragma once

#include <string>
#include <vector>

#include "shell/roster.h"

namespace salus::service {

using shell::RosterEntry;

/// The old roster stays in place until the new one is complete. If it cannot be written, logs it and returns false.
bool write_roster(const std::string& path, const std::vector<RosterEntry>& entries);
/// Skips lines that make no sense: a roster only makes the service more careful.
std::vector<RosterEntry> read_roster(const std::string& path);

}  // namespace salus::service
