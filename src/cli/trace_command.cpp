// salus trace: writes the trace of the service as a timeline, or replays it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/trace_pieces.h"
#include "cli/usage_table.h"
#include "os/calendar.h"
#include "os/clock.h"
#include "policies/table.h"
#include "sim/recorded_run.h"
#include "sim/timeline.h"

namespace salus::cli {
namespace {

struct TraceArguments {
    std::string file;
    std::string from;
    std::string last;
    std::string by = "job";
    bool replays = false;
};

int replay(const std::string& text) {
    const auto run = sim::read_recorded_run(text, find_policy, fallback_policy());
    if (!run) throw Failure{run.error()};
    const Replay& result = run.value().replay;
    if (!result.difference.empty()) throw Failure{result.difference};
    fmt::print("{} events, {} actions: identical\n", result.events, result.actions);
    return 0;
}

sim::Panel panel_of(const sim::RecordedRun& run) {
    sim::Panel panel{"salusd", run.segments, run.answering, {}};
    for (std::size_t i = 0; i < run.jobs.size(); ++i) {
        const sim::JobResult& job = run.result.jobs[i];
        panel.presences.push_back({i, job.arrival, std::min(job.end, run.end)});
    }
    return panel;
}

/// The names of jobs, with their numbers where several have one name.
std::vector<sim::SimulatedJob> named_jobs(const sim::RecordedRun& run) {
    std::vector<sim::SimulatedJob> jobs = run.jobs;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const auto same = std::ranges::count(run.jobs, run.jobs[i].name, &sim::SimulatedJob::name);
        if (same > 1 && run.numbers[i] > 0) jobs[i].name = fmt::format("{} {}", run.numbers[i], run.jobs[i].name);
    }
    return jobs;
}

int export_trace(const TraceArguments& a) {
    const bool svg = a.file.ends_with(".svg");
    if (!svg && !a.file.ends_with(".json")) throw UsageError{fmt::format("'{}' ends in neither .json nor .svg", a.file)};
    if (a.by != "job" && a.by != "lane") throw UsageError{fmt::format("--by: '{}' is neither 'job' nor 'lane'", a.by)};
    const double last_s = parse_span_s(a.last).value_or(0);
    if (!a.last.empty() && !(last_s > 0 && last_s <= 1e9))
        throw UsageError{fmt::format("--last must be a time such as 60s or 2h; got '{}'", a.last)};
    auto run = sim::read_recorded_run(read_trace(a.from), find_policy, fallback_policy());
    if (!run) throw Failure{run.error()};
    if (run.value().segments.empty()) throw Failure{"nothing has run yet"};
    // Times from the first attachment on.
    Instant start = run.value().result.jobs.front().arrival;
    if (last_s > 0) start = std::max(start, run.value().end - seconds_of(last_s));
    const std::vector<sim::Panel> panels = {since(panel_of(run.value()), start)};
    if (panels.front().segments.empty()) throw Failure{fmt::format("nothing has run in the last {}", a.last)};
    const std::vector<sim::SimulatedJob> jobs = named_jobs(run.value());
    if (!svg) return write_or_complain(a.file, sim::timeline_chrome_json(panels, jobs)), 0;
    sim::TimelineOptions options{.by_job = a.by == "job"};
    // An older trace may be of an earlier boot, when the clock of its times began anew.
    if (a.from.empty()) options.starts_at_s = os::local_time_of_day_s(os::unix_time_s() - (os::now() - start).seconds());
    write_or_complain(a.file, sim::timeline_svg(panels, jobs, options));
    return 0;
}

}  // namespace

void add_trace_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<TraceArguments>();
    CLI::App* trace =
        program.add_subcommand("trace", "Write the trace as a timeline (.json for Perfetto, or .svg), or replay it");
    trace->add_option("file", a->file, "File to write");
    trace->add_option("--from", a->from, "An older trace, such as trace.1, that of the last service")->type_name("TRACE");
    trace->add_option("--last", a->last, "Only the last so long, such as 60s or 2h")->type_name("TIME");
    trace->add_option("--by", a->by, "What has a row in the .svg: job or lane")
        ->type_name("job|lane")
        ->capture_default_str();
    trace->add_flag("--replay", a->replays, "Replay the recorded events; fail if the engine's decisions differ");
    trace->callback([a, &action] {
        action = [a] {
            if (a->replays == !a->file.empty()) throw UsageError{"trace: give either a file or --replay"};
            return a->replays ? replay(read_trace(a->from)) : export_trace(*a);
        };
    });
}

}  // namespace salus::cli
