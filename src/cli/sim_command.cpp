// salus sim: runs a workload under one or more policies and prints a line each.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "os/file.h"
#include "policies/table.h"
#include "sim/job_file.h"
#include "sim/report.h"
#include "sim/simulation.h"
#include "sim/timeline.h"
#include "sim/trace_recorder.h"
#include "sim/workloads.h"

namespace salus::cli {
namespace {

struct SimArguments {
    std::string jobs_file;
    std::string workload;
    std::string policies = "all";
    std::string capacity = "16GiB";
    std::string lanes = "auto";
    std::string share_by = "job";
    std::string paging = "on";
    std::string overlap = "off";
    std::string page_gbps = "12";
    std::string switch_us = "145";
    std::string slice_us;
    std::string seconds;
    std::string profile = "learned";
    std::string occupancy = "model";
    std::string think_ms = "job";
    std::string gates = "off";
    std::string seeds = "1";
    std::string timeline;
    std::string record;
    bool json = false;
};

double number(const std::string& option, const std::string& text, double least, bool least_allowed, double most) {
    const auto value = parse_number(text);
    if (!value) throw UsageError{fmt::format("{}: '{}' is not a number", option, text)};
    if (*value < least || (!least_allowed && *value == least) || *value > most) {
        throw UsageError{fmt::format("{}: {} is out of range: it must be {} {} and at most {}", option, text,
                                     least_allowed ? "at least" : "more than", least, most)};
    }
    return *value;
}

bool one_of(const std::string& option, const std::string& text, std::string_view yes, std::string_view no) {
    if (text != yes && text != no) throw UsageError{fmt::format("{}: '{}' is neither '{}' nor '{}'", option, text, yes, no)};
    return text == yes;
}

sim::SimulationOptions options_of(const SimArguments& a) {
    sim::SimulationOptions options;
    const auto capacity = parse_bytes(a.capacity);
    if (!capacity) throw UsageError{fmt::format("--capacity: '{}' is not a size such as 16GiB", a.capacity)};
    options.engine.capacity = *capacity;
    if (a.lanes != "auto") {
        const auto lanes = parse_integer(a.lanes);
        if (!lanes || *lanes < 1 || *lanes > 1000)
            throw UsageError{fmt::format("--lanes: '{}' is neither 'auto' nor a number from 1 to 1000", a.lanes)};
        options.engine.lanes_max = static_cast<unsigned>(*lanes);
    }
    options.engine.overlap = one_of("--overlap", a.overlap, "measure", "off");
    options.engine.paging = one_of("--paging", a.paging, "on", "off");
    options.engine.page_bytes_per_s = 1e9 * number("--page-gbps", a.page_gbps, 1e-3, true, 1e6);
    options.switch_cost = seconds_of(1e-6 * number("--switch-us", a.switch_us, 0, true, 1e9));
    options.engine.min_turn = options.switch_cost * 100;  // so that switching costs at most 1 %
    if (!a.slice_us.empty()) {
        options.slice = seconds_of(1e-6 * number("--slice-us", a.slice_us, 1, true, 1e9));
        if (options.switch_cost.ns == 0) throw UsageError{"--slice-us: slices need a --switch-us of more than 0"};
    }
    if (!a.seconds.empty()) options.lasts = seconds_of(number("--seconds", a.seconds, 0, false, 1e9));
    options.profiles_known = one_of("--profile", a.profile, "known", "learned");
    options.asynchronous = one_of("--gates", a.gates, "on", "off");
    options.engine.strict = true;
    options.engine.share_by_user = one_of("--share-by", a.share_by, "user", "job");
    if (a.occupancy != "model") options.occupancy = number("--occupancy", a.occupancy, 0, false, 1);
    return options;
}

std::vector<sim::SimulatedJob> jobs_of(const SimArguments& a, const std::string& job_file, std::uint64_t seed) {
    Result<std::vector<sim::SimulatedJob>> jobs =
        a.jobs_file.empty() ? sim::make_workload(a.workload, seed) : sim::parse_job_file(job_file, a.jobs_file);
    if (!jobs) throw UsageError{jobs.error()};
    if (a.think_ms != "job") {
        const Duration think = seconds_of(1e-3 * number("--think-ms", a.think_ms, 0, true, 1e6));
        for (sim::SimulatedJob& job : jobs.value()) job.think = think;
    }
    return std::move(jobs).value();
}

/// Each job must fit alone, and the jobs one after another must fit into the simulator's time.
void check_jobs(const std::vector<sim::SimulatedJob>& jobs, Bytes capacity) {
    double whole_s = 0;
    for (const sim::SimulatedJob& job : jobs) {
        whole_s += job.arrival.seconds() + job.startup.seconds() +
                   static_cast<double>(job.iterations) * (job.iteration_time + job.think).seconds();
        if (job.persistent + job.ephemeral <= capacity) continue;
        throw UsageError{fmt::format("job '{}' could never fit: it needs {} (P {} + T {}), the capacity is {}", job.name,
                                     format_bytes(job.persistent + job.ephemeral), format_bytes(job.persistent),
                                     format_bytes(job.ephemeral), format_bytes(capacity))};
    }
    if (whole_s > 1e9) throw UsageError{"the jobs together last more than 1000000000 s"};
}

int run_simulations(const SimArguments& a) {
    if (a.jobs_file.empty() == a.workload.empty())
        throw UsageError{"sim needs either --jobs FILE.csv or --workload NAME, and not both (salus sim --help lists them)"};
    const std::vector<const Policy*> policies = parse_policies(a.policies);
    sim::SimulationOptions options = options_of(a);
    const SeedRange seeds = parse_seed_range(a.seeds);
    const bool one_seed = seeds.first == seeds.last;
    const bool svg = a.timeline.ends_with(".svg");
    if (!a.timeline.empty() && !svg && !a.timeline.ends_with(".json"))
        throw UsageError{fmt::format("--timeline: '{}' ends in neither .svg nor .json", a.timeline)};
    if (!a.timeline.empty() && !one_seed) throw UsageError{"--timeline draws one run: give one seed"};
    if (!a.record.empty() && (!one_seed || policies.size() != 1))
        throw UsageError{"--record keeps one run: give one seed and one policy"};
    for (const std::string& file : {a.timeline, a.record}) {
        if (!file.empty()) check_writable(file);
    }

    std::string job_file;
    if (!a.jobs_file.empty()) {
        Result<std::string> text = os::read_file(a.jobs_file);
        if (!text) throw UsageError{text.error()};
        job_file = std::move(text).value();
    }
    std::vector<sim::Figures> rows;
    std::vector<std::string> not_done;
    std::vector<sim::Panel> panels;
    std::vector<sim::SimulatedJob> jobs;
    std::string recorded;
    {
        ProgressBar bar;
        const double runs = static_cast<double>(policies.size()) * static_cast<double>(seeds.last - seeds.first + 1);
        double done = 0;
        for (const Policy* policy : policies) {
            std::vector<sim::Figures> figures;
            for (unsigned long long seed = seeds.first; seed <= seeds.last; ++seed, ++done) {
                jobs = jobs_of(a, job_file, seed);
                check_jobs(jobs, options.engine.capacity);
                options.seed = seed;
                sim::Simulation simulation(options, jobs, *policy, fallback_policy());
                sim::TimelineRecorder timeline;
                sim::TraceRecorder recorder;
                if (!a.timeline.empty()) simulation.observe(timeline);
                if (!a.record.empty()) simulation.observe(recorder);
                const sim::SimulationResult result =
                    simulation.run([&](double share) { bar.show(policy->info.name, (done + share) / runs); });
                SALUS_CHECK(result.finished, "every simulated job finishes");
                figures.push_back(sim::figures_of(policy->info.name, jobs, result));
                const auto lost = std::count_if(result.jobs.begin(), result.jobs.end(), [](const sim::JobResult& job) {
                    return job.outcome != sim::Outcome::kDone;
                });
                if (lost > 0) {
                    not_done.push_back(fmt::format(
                        "{} of {} jobs ran out of memory under {} (seed {}); the figures are those of the others", lost,
                        jobs.size(), policy->info.name, seed));
                }
                if (!a.timeline.empty()) {
                    const std::string title(policy->info.name);
                    panels.push_back({title, timeline.segments(), timeline.answering(result.end)});
                }
                if (!a.record.empty()) recorded = recorder.text();
            }
            rows.push_back(sim::mean_of(figures));
        }
    }
    if (a.json) {
        nlohmann::ordered_json out = {{"policies", nlohmann::ordered_json::array()}};
        for (const sim::Figures& row : rows) out["policies"].push_back(figures_json(row));
        fmt::print("{}", json_text(out));
    } else {
        fmt::print("{}", sim::format_table(rows));
    }
    for (const std::string& line : not_done) fmt::print(stderr, "salus: {}\n", line);
    if (!a.record.empty()) write_or_complain(a.record, recorded);
    if (!a.timeline.empty())
        write_or_complain(a.timeline, svg ? sim::timeline_svg(panels, jobs) : sim::timeline_chrome_json(panels, jobs));
    return not_done.empty() ? 0 : 1;
}

std::string help_footer() {
    std::string text = "Workloads:\n";
    for (const sim::WorkloadInfo& w : sim::all_workloads()) text += fmt::format("  {:<20} {}\n", w.name, w.what);
    text += "\nPolicies:\n";
    for (const Policy* p : all_policies()) text += fmt::format("  {:<20} {}\n", p->info.name, p->info.good_for);
    return text;
}

}  // namespace

void add_sim_command(CLI::App& program, Action& action) {
    CLI::App* sim = program.add_subcommand("sim", "Simulate a workload under scheduling policies");
    auto a = std::make_shared<SimArguments>();
    sim->add_option("--jobs", a->jobs_file, "CSV of jobs; its header names the columns (docs/simulator.md)")
        ->type_name("FILE");
    sim->add_option("--workload", a->workload, "Built-in workload, with N jobs")->type_name("NAME[:N]");
    sim->add_option("--policy", a->policies, "Policies, separated by commas, or 'all'")
        ->type_name("NAMES")
        ->capture_default_str();
    sim->add_option("--capacity", a->capacity, "Memory of the device")->type_name("SIZE")->capture_default_str();
    sim->add_option("--lanes", a->lanes, "Lanes that may run at once, or 'auto': as the policy wants")
        ->type_name("N")
        ->capture_default_str();
    sim->add_option("--share-by", a->share_by, "user or job: share time between users first, or between all jobs")
        ->type_name("user|job")
        ->capture_default_str();
    sim->add_option("--overlap", a->overlap,
                    "off or measure: let batch jobs run at once where that is measured to be faster")
        ->type_name("off|measure")
        ->capture_default_str();
    sim->add_option("--paging", a->paging, "on or off: page out waiting jobs to admit others")
        ->type_name("on|off")
        ->capture_default_str();
    sim->add_option("--page-gbps", a->page_gbps, "Speed of paging in GB/s, each direction")
        ->type_name("N")
        ->capture_default_str();
    sim->add_option("--switch-us", a->switch_us, "Cost of a switch in microseconds; a turn lasts at least 100 of them")
        ->type_name("N")
        ->capture_default_str();
    sim->add_option("--slice-us", a->slice_us, "The device works for one job at a time, in slices of so many microseconds")
        ->type_name("N");
    sim->add_option("--seconds", a->seconds, "End each job at its first boundary after so many seconds")->type_name("N");
    sim->add_option("--profile", a->profile, "known or learned: whether P and T are known on arrival")
        ->type_name("known|learned")
        ->capture_default_str();
    sim->add_option("--occupancy", a->occupancy, "Share of the device that each job can use alone; 'model': as the job says")
        ->type_name("N")
        ->capture_default_str();
    sim->add_option("--think-ms", a->think_ms, "Host time between iterations, for all jobs; 'job': as the job says")
        ->type_name("N")
        ->capture_default_str();
    sim->add_option("--gates", a->gates, "on or off: batch jobs stand still while interactive jobs answer, as on a GPU")
        ->type_name("on|off")
        ->capture_default_str();
    sim->add_option("--seed", a->seeds, "Seed, or a range A..B to average over")->type_name("N")->capture_default_str();
    sim->add_option("--timeline", a->timeline, "Draw lanes over time: .svg, or .json for Perfetto")->type_name("FILE");
    sim->add_option("--record", a->record, "Write every event and action, for 'salus sim replay'")->type_name("FILE");
    sim->add_flag("--json", a->json, "Print JSON instead of a table");
    sim->footer(help_footer());
    add_swarm_command(*sim, action);
    add_replay_command(*sim, action);
    sim->callback([a, sim, &action] {
        const auto options = sim->get_options();
        const bool any =
            std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
        if (sim->get_subcommands().empty()) action = [a] { return run_simulations(*a); };
        else if (any) throw UsageError{"options of sim cannot be combined with its subcommands"};
    });
}

}  // namespace salus::cli
