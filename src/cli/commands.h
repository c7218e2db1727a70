// The subcommands of `salus`. Each adds itself to the program and, when called, returns the exit status.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace salus::cli {

/// What the user got wrong: one line on standard error, exit status 2.
struct UsageError {
    std::string message;
};

/// Set by the subcommand that was named.
using Action = std::function<int()>;

void add_sim_command(CLI::App& program, Action& action);
/// Below `sim`.
void add_swarm_command(CLI::App& sim, Action& action);
void add_replay_command(CLI::App& sim, Action& action);

/// "A..B" or "N".
struct SeedRange {
    unsigned long long first = 1;
    unsigned long long last = 1;
};
SeedRange parse_seed_range(const std::string& text);

}  // namespace salus::cli
