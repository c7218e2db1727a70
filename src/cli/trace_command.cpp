// salus trace: writes the trace of the service as a timeline, or replays it.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/visible_devices.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/service_link.h"
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
    std::string gpu;
    bool replays = false;
};

/// The trace of one device.
struct DeviceTrace {
    std::string name;  ///< empty: the service has no other
    std::string text;
};

/// Those of all devices of the service that runs, or of the one that --gpu names; or that of an older file.
std::vector<DeviceTrace> traces_for(const TraceArguments& a) {
    const Result<Status> status = a.from.empty() ? ask_status() : Result<Status>(Status{});
    const std::span<const DeviceStatus> devices =
        status ? devices_of(status.value().service) : std::span<const DeviceStatus>();
    if (!a.from.empty() || !status || (devices.size() < 2 && a.gpu.empty())) return {{"", read_trace(a.from)}};
    std::vector<DeviceNames> names;
    for (const DeviceStatus& device : devices) names.push_back({device.number, device.gpu});
    const std::vector<std::size_t> chosen = devices_in(a.gpu, names);
    if (!a.gpu.empty() && (chosen.empty() || !first_unknown_in(a.gpu, names).empty()))
        throw UsageError{fmt::format("--gpu: the service has no GPU '{}'", a.gpu)};
    std::vector<DeviceTrace> traces;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!a.gpu.empty() && std::ranges::find(chosen, i) == chosen.end()) continue;
        traces.push_back({fmt::format("gpu {} {}", devices[i].number, devices[i].label()),
                          read_trace("", static_cast<std::uint32_t>(i))});
    }
    return traces;
}

int replay(const std::vector<DeviceTrace>& traces) {
    for (const DeviceTrace& trace : traces) {
        const std::string prefix = trace.name.empty() ? "" : trace.name + ": ";
        const auto run = sim::read_recorded_run(trace.text, find_policy, fallback_policy());
        if (!run) throw Failure{prefix + run.error()};
        const Replay& result = run.value().replay;
        if (!result.difference.empty()) throw Failure{prefix + result.difference};
        fmt::print("{}{} events, {} actions: identical\n", prefix, result.events, result.actions);
    }
    return 0;
}

sim::Panel panel_of(const sim::RecordedRun& run, const std::string& device) {
    sim::Panel panel{device.empty() ? "salusd" : device, run.segments, run.answering, {}};
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

/// Its jobs come behind so many others.
void renumber(sim::Panel& panel, std::size_t others) {
    for (sim::Segment& segment : panel.segments)
        segment.client = ClientId{static_cast<std::uint32_t>(index_of(segment.client) + others)};
    for (sim::Answering::Request& request : panel.answering.requests) request.job += others;
    for (sim::Presence& presence : panel.presences) presence.job += others;
}

int export_trace(const TraceArguments& a) {
    const bool svg = a.file.ends_with(".svg");
    if (!svg && !a.file.ends_with(".json")) throw UsageError{fmt::format("'{}' ends in neither .json nor .svg", a.file)};
    if (a.by != "job" && a.by != "lane") throw UsageError{fmt::format("--by: '{}' is neither 'job' nor 'lane'", a.by)};
    const double last_s = parse_span_s(a.last).value_or(0);
    if (!a.last.empty() && !(last_s > 0 && last_s <= 1e9))
        throw UsageError{fmt::format("--last must be a time such as 60s or 2h; got '{}'", a.last)};
    std::vector<sim::RecordedRun> runs;
    std::vector<sim::Panel> all;
    for (const DeviceTrace& trace : traces_for(a)) {
        auto run = sim::read_recorded_run(trace.text, find_policy, fallback_policy());
        if (!run) throw Failure{run.error()};
        if (run.value().segments.empty()) continue;
        all.push_back(panel_of(run.value(), trace.name));
        runs.push_back(std::move(run).value());
    }
    if (runs.empty()) throw Failure{"nothing has run yet"};
    // Times from the first attachment on.
    Instant start = runs.front().result.jobs.front().arrival, end{};
    for (const sim::RecordedRun& run : runs) {
        start = std::min(start, run.result.jobs.front().arrival);
        end = std::max(end, run.end);
    }
    if (last_s > 0) start = std::max(start, end - seconds_of(last_s));
    std::vector<sim::SimulatedJob> jobs;
    std::vector<sim::Panel> panels;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        sim::Panel panel = since(all[i], start);
        renumber(panel, jobs.size());
        if (!panel.segments.empty()) panels.push_back(std::move(panel));
        for (sim::SimulatedJob& job : named_jobs(runs[i])) jobs.push_back(std::move(job));
    }
    if (panels.empty()) throw Failure{fmt::format("nothing has run in the last {}", a.last)};
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
    trace->add_option("--gpu", a->gpu, "Only these of several GPUs, by number or UUID")->type_name("N|UUID");
    trace->add_flag("--replay", a->replays, "Replay the recorded events; fail if the engine's decisions differ");
    trace->callback([a, &action] {
        action = [a] {
            if (a->replays == !a->file.empty()) throw UsageError{"trace: give either a file or --replay"};
            return a->replays ? replay(traces_for(*a)) : export_trace(*a);
        };
    });
}

}  // namespace salus::cli
