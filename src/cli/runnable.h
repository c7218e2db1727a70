// Whether a command can be run at all, found out before a job is announced or goes to the background.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"

namespace salus::cli {

/// Why the program cannot be executed, and what may have been meant, with the shell's exit status: 127 not found, 126 not
/// executable. Nothing: it can be, as far as one can tell.
std::optional<Failure> why_not_runnable(const std::string& program);

}  // namespace salus::cli
