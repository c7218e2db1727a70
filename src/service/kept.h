// What a service leaves for the next one with the same state directory: the options of its command line, the policy that was
// set while it ran, and what users have changed about jobs that live on. A small text that people can read; docs/service.md
// explains it under "Restarts".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/run_figures.h"
#include "shell/roster.h"
#include "shell/shell.h"

namespace salus::service {

/// Options by their names, without the dashes.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

struct KeptJob {
    std::uint32_t job = 0;
    unsigned uid = 0;
    /// Its runner and its clients. A job of the same number that has none of them is another one.
    std::vector<shell::ProcessId> processes;
    shell::UserSettings said;
    RunFigures gone;  ///< of its clients that have left

    bool operator==(const KeptJob&) const = default;
};

struct Kept {
    GivenOptions given;
    std::string policy;      ///< as set by `salus policy`; empty: not set
    std::string instead_of;  ///< ... while the options said this one
    std::vector<KeptJob> jobs;

    bool operator==(const Kept&) const = default;
};

std::string text_of(const Kept& kept);
/// Skips lines that make no sense.
Kept kept_in(std::string_view text);

/// The file in a state directory.
std::string kept_path(const std::string& state);
/// Nothing is kept if there is no file, or another user could have written it.
Kept read_kept(const std::string& state);

}  // namespace salus::service
