#include "cli/commands.h"

#include <CLI/CLI.hpp>

namespace salus::cli {

void add_commands(CLI::App& program, Action& action) {
    program.set_version_flag("--version", version_text());
    program.require_subcommand(1);
    add_run_command(program, action);
    add_env_command(program, action);
    add_control_commands(program, action);
    add_trace_command(program, action);
    add_wait_command(program, action);
    add_report_command(program, action);
    add_history_command(program, action);
    add_profiles_command(program, action);
    add_usage_command(program, action);
    add_web_command(program, action);
    add_forecast_command(program, action);
    add_kernel_command(program, action);
    add_doctor_command(program, action);
    add_slurm_command(program, action);
    add_bench_command(program, action);
    add_sim_command(program, action);
    add_completion_command(program, action);
    add_help_command(program, action);
}

}  // namespace salus::cli
