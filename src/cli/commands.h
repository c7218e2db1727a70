// The subcommands of `salus`. Each adds itself to the program and, when called, returns the exit status.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace salus::cli {

/// The command line is wrong: one line on standard error, exit status 2.
struct UsageError {
    std::string message;
};

/// The command failed: one line on standard error, and this exit status.
struct Failure {
    std::string message;
    int status = 1;
};

/// "salus 1.2.3".
std::string version_text();

/// Set by the subcommand that was named.
using Action = std::function<int()>;

/// All of them. When `program` has parsed its arguments, `action` does what they say.
void add_commands(CLI::App& program, Action& action);

void add_run_command(CLI::App& program, Action& action);
void add_env_command(CLI::App& program, Action& action);
void add_slurm_command(CLI::App& program, Action& action);
void add_control_commands(CLI::App& program, Action& action);
void add_wait_command(CLI::App& program, Action& action);
void add_history_command(CLI::App& program, Action& action);
void add_profiles_command(CLI::App& program, Action& action);
void add_usage_command(CLI::App& program, Action& action);
void add_web_command(CLI::App& program, Action& action);
void add_trace_command(CLI::App& program, Action& action);
void add_report_command(CLI::App& program, Action& action);
void add_forecast_command(CLI::App& program, Action& action);
void add_kernel_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);
void add_help_command(CLI::App& program, Action& action);
void add_completion_command(CLI::App& program, Action& action);
void add_sim_command(CLI::App& program, Action& action);
/// Below `sim`.
void add_swarm_command(CLI::App& sim, Action& action);
void add_replay_command(CLI::App& sim, Action& action);

}  // namespace salus::cli
