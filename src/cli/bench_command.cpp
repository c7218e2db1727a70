// salus bench: runs a job file with real processes under policies and prints the simulator's table; with --simulate, both.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/real_run.h"
#include "os/file.h"
#include "policies/table.h"
#include "sim/job_file.h"
#include "sim/report.h"
#include "sim/timeline.h"

namespace salus::cli {
namespace {

struct BenchArguments {
    std::string jobs_file;
    std::string policies = "fifo,srtf,fair,pack";
    std::string capacity = "4GiB";
    std::string paging = "on";
    std::string overlap = "off";
    std::string device = "host";
    unsigned lanes = 0;
    std::optional<double> min_turn_ms;
    bool simulate = false;
    std::string timeline;
    bool json = false;
};

/// The simulator's model of the host device, as measured: a hand-over, and mapping a lane's pages.
sim::SimulationOptions simulation_options(const RealRunOptions& real) {
    sim::SimulationOptions options;
    options.engine.capacity = real.capacity;
    options.engine.lanes_max = real.lanes;
    options.engine.paging = real.paging;
    options.engine.overlap = real.overlap;
    options.engine.min_turn = real.min_turn.value_or(milliseconds(5));
    options.engine.page_bytes_per_s = 1e9;
    options.engine.review_every = milliseconds(100);
    options.switch_cost = microseconds(300);  // refilling caches and page tables; the wake-ups are a tenth of it
    options.map_us_per_mib = 300;
    return options;
}

int run_bench(const BenchArguments& a) {
    Result<std::string> text = os::read_file(a.jobs_file);
    if (!text) throw UsageError{text.error()};
    Result<std::vector<sim::SimulatedJob>> parsed = sim::parse_job_file(text.value(), a.jobs_file);
    if (!parsed) throw UsageError{parsed.error()};
    std::vector<sim::SimulatedJob> jobs = std::move(parsed).value();
    const std::vector<const Policy*> policies = parse_policies(a.policies);
    RealRunOptions options;
    const auto capacity = parse_bytes(a.capacity);
    if (!capacity) throw UsageError{fmt::format("--capacity: '{}' is not a size such as 4GiB", a.capacity)};
    if (*capacity < mebibytes(1)) throw UsageError{fmt::format("--capacity must be at least 1MiB; got '{}'", a.capacity)};
    options.capacity = *capacity;
    options.lanes = a.lanes;
    options.device = a.device;
    if (a.paging != "on" && a.paging != "off")
        throw UsageError{fmt::format("--paging: '{}' is neither 'on' nor 'off'", a.paging)};
    options.paging = a.paging == "on";
    if (a.overlap != "measure" && a.overlap != "off")
        throw UsageError{fmt::format("--overlap: '{}' is neither 'measure' nor 'off'", a.overlap)};
    options.overlap = a.overlap == "measure";
    if (a.min_turn_ms && !(*a.min_turn_ms >= 0 && *a.min_turn_ms <= 60'000))
        throw UsageError{"--min-turn-ms must be from 0 to 60000"};
    if (a.min_turn_ms) options.min_turn = seconds_of(*a.min_turn_ms / 1e3);
    if (!a.timeline.empty() && !a.timeline.ends_with(".svg") && !a.timeline.ends_with(".json"))
        throw UsageError{fmt::format("--timeline: '{}' ends in neither .svg nor .json", a.timeline)};
    if (!a.timeline.empty()) check_writable(a.timeline);

    std::vector<sim::Figures> real;
    std::vector<sim::Figures> simulated;
    std::vector<sim::Panel> panels;
    std::vector<std::string> differences;
    {
        ProgressBar bar;
        const Result<std::vector<Calibration>> calibrations =
            calibrate(jobs, [&](double share) { bar.show("calibrating", share); });
        if (!calibrations) throw Failure{calibrations.error()};
        for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].iteration_time = calibrations.value()[i].iteration_time;
        for (const Policy* policy : policies) {
            const std::string label(policy->info.name);
            Result<RealRun> ran = run_for_real(jobs, calibrations.value(), *policy, options,
                                               [&](double share) { bar.show(label, std::min(share, 1.0)); });
            if (!ran) throw Failure{fmt::format("{}: {}", label, ran.error())};
            real.push_back(sim::figures_of(label, jobs, ran.value().result));
            panels.push_back({label, ran.value().segments, ran.value().answering});
            if (!ran.value().replay_difference.empty()) differences.push_back(label + ": " + ran.value().replay_difference);
            if (!a.simulate) continue;
            sim::Simulation simulation(simulation_options(options), jobs, *policy, fallback_policy());
            simulated.push_back(sim::figures_of(label, jobs, simulation.run()));
        }
    }
    if (a.json) {
        nlohmann::ordered_json out = {{"policies", nlohmann::ordered_json::array()}};
        for (std::size_t i = 0; i < real.size(); ++i) {
            nlohmann::ordered_json row = figures_json(real[i]);
            if (a.simulate) row["simulated"] = figures_json(simulated[i]);
            out["policies"].push_back(row);
        }
        fmt::print("{}", json_text(out));
    } else {
        fmt::print("{}", sim::format_table(real));
        if (a.simulate) {
            fmt::print("\nsimulated:\n{}\n", sim::format_table(simulated));
            for (std::size_t i = 0; i < real.size(); ++i) {
                fmt::print("{:<9} mean completion, real over simulated: {:.3f}\n", real[i].policy,
                           real[i].mean_completion_s / simulated[i].mean_completion_s);
            }
        }
    }
    for (const std::string& difference : differences)
        fmt::print(stderr, "salus: the trace replays differently: {}\n", difference);
    if (!a.timeline.empty()) {
        write_or_complain(a.timeline, a.timeline.ends_with(".svg") ? sim::timeline_svg(panels, jobs)
                                                                   : sim::timeline_chrome_json(panels, jobs));
    }
    return differences.empty() ? 0 : 1;
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
    CLI::App* bench =
        program.add_subcommand("bench", "Run a job file with real processes: each job's command, or a stand-in");
    auto a = std::make_shared<BenchArguments>();
    bench->add_option("file", a->jobs_file, "CSV of jobs, as for `salus sim --jobs`; its column `command` says what to run")
        ->required()
        ->type_name("FILE");
    bench->add_option("--policy", a->policies, "Policies, separated by commas, or 'all'")
        ->type_name("NAMES")
        ->capture_default_str();
    bench->add_option("--capacity", a->capacity, "Memory that the jobs may use")->type_name("SIZE")->capture_default_str();
    bench->add_option("--lanes", a->lanes, "Lanes that may run at once; 0: as the policy wants")->capture_default_str();
    bench->add_option("--device", a->device, "The device that the jobs share, as for salusd")
        ->type_name("auto|cuda|host")
        ->capture_default_str();
    bench->add_option("--paging", a->paging, "Page out waiting jobs to admit others")
        ->type_name("on|off")
        ->capture_default_str();
    bench
        ->add_option("--overlap", a->overlap,
                     "off or measure: let batch jobs run at once where that is measured to be faster")
        ->type_name("off|measure")
        ->capture_default_str();
    bench->add_option("--min-turn-ms", a->min_turn_ms, "Minimum length of a turn (default: as for salusd)");
    bench->add_flag("--simulate", a->simulate, "Simulate the same jobs as well, and compare");
    bench->add_option("--timeline", a->timeline, "Draw lanes over time: .svg, or .json for Perfetto")->type_name("FILE");
    bench->add_flag("--json", a->json, "Print JSON instead of a table");
    bench->callback([a, &action] { action = [a] { return run_bench(*a); }; });
}

}  // namespace salus::cli
