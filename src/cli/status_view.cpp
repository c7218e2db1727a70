#include "cli/status_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/client_class.h"
#include "base/text.h"
#include "cli/columns.h"
#include "cli/history_view.h"

namespace salus::cli {
namespace {

constexpr const char* kMissing = "-";

/// For text that other people chose.
std::string shown(const std::string& text) { return text.empty() ? kMissing : printable(text); }

}  // namespace

// ------------------------------------------------------------------------------------------------------------ pieces

std::string job_text(const std::string& name, std::uint32_t job) {
    const bool named = !name.empty() && name != "?";
    if (job == 0) return named ? printable(name) : "another job";
    return named ? fmt::format("{} (job {})", printable(name), job) : fmt::format("job {}", job);
}

std::string holder_text(const Status& status, const LaneStatus& lane) {
    if (lane.holder == kNoClient) return {};
    for (const JobStatus& job : status.jobs) {
        if (job.client == lane.holder) return job_text(job.name, job.job);
    }
    return job_text("", 0);
}

std::string busy_text(const DeviceStatus& device) {
    return device.busy_share ? fmt::format("{:.0f} % of the last second", 100 * *device.busy_share) : "";
}

std::string gates_text(const ServiceStatus& service) {
    if (service.statistics.gate_closings == 0) return {};
    return fmt::format("closed {} times for requests, {:.0f} % of the last second (at most {:.0f} %)",
                       service.statistics.gate_closings, 100 * service.gates_closed_share,
                       100 * Gates::kBudget.seconds() / Gates::kWindow.seconds());
}

std::string format_seconds(double seconds) {
    if (!(seconds >= 0) || seconds > 1e12) return kMissing;
    if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<std::int64_t>(std::llround(seconds));
    if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
    if (whole < 48 * 3600) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
    return fmt::format("{}d {}h", whole / 86400, whole / 3600 % 24);
}

std::string format_rate(double per_s) {
    if (per_s <= 0) return "0";
    if (per_s < 0.9995) return fmt::format("{:.3f}", per_s);
    if (per_s < 9.995) return fmt::format("{:.2f}", per_s);
    return fmt::format("{:.{}f}", per_s, per_s < 99.95 ? 1 : 0);
}

// ------------------------------------------------------------------------------------------------------------- rates

/// A client's own counts (iterations, busy_s) survive a restart of the service and are up to date. The service's count
/// (attained_s) restarts when the client attaches again, and lags during a long turn.
Rate average_rate(const JobStatus& job) {
    const double attached_s = job.attached.seconds();
    if (attached_s <= 0 || !job.activity) return {};
    const Activity& activity = *job.activity;
    const std::uint64_t news = activity.iterations - std::min(activity.iterations_before, activity.iterations);
    double busy_s = activity.busy.seconds();
    if (activity.iterations > 0) busy_s *= static_cast<double>(news) / static_cast<double>(activity.iterations);
    const bool older = busy_s > attached_s + 1;  // than its attachment
    Rate rate;
    if (!older) rate.iterations_per_s = static_cast<double>(news) / attached_s;
    const double used_s = std::max(activity.attained.seconds(), older ? 0.0 : busy_s);
    rate.share = std::clamp(used_s / attached_s, 0.0, 1.0);
    rate.of_alone = std::clamp(1 - activity.waited.seconds() / attached_s, 0.0, 1.0);
    return rate;
}

Rates::Key Rates::key_of(const JobStatus& job) {
    return {job.job, static_cast<std::int64_t>(index_of(job.client)), job.pid};  // client numbers are reused
}

/// `late`: the count may have grown without our knowing, so an unchanged count means nothing.
void Rates::Gauge::read(double now_s, double now_value, bool late) {
    if (now_s <= at_s || (late && now_value == value)) return;
    per_s = std::max(now_value - value, 0.0) / (now_s - at_s);
    at_s = now_s;
    value = now_value;
}

// Note [Figures that come late]
// A job's iterations and attained time are counted at the ends of iterations and turns. If those are longer than the time
// between two snapshots, the figures stand still and then jump. So while a job runs, rates are measured from one change to
// the next, not from one snapshot to the next. An iteration that takes longer than the last ones still shows.
void Rates::update(const Status& status) {
    const double now_s = status.service.uptime.seconds();
    if (last_s_ && now_s < *last_s_) *this = {};  // a new service: its figures cannot be compared
    if (last_s_ == now_s) return;
    const bool first = !last_s_;
    last_s_ = now_s;
    const Statistics& statistics = status.service.statistics;
    for (const auto& [gauge, count] : {std::pair{&turns_, statistics.turns}, std::pair{&switches_, statistics.switches}}) {
        const auto value = static_cast<double>(count);
        if (first) *gauge = {now_s, value, std::nullopt};
        else gauge->read(now_s, value);
    }

    std::map<Key, Gauges> jobs;
    for (const JobStatus& job : status.jobs) {
        if (!job.activity) continue;
        const auto iterations = static_cast<double>(job.activity->iterations);
        const double busy_s = job.activity->busy.seconds();
        const double waited_s = job.activity->waited.seconds();
        const auto before = jobs_.find(key_of(job));
        Gauges& now = jobs[key_of(job)];
        if (before == jobs_.end()) {
            const Rate average = average_rate(job);
            now = {{now_s, iterations, average.iterations_per_s},
                   {now_s, busy_s, average.share},
                   {now_s, waited_s, average.of_alone ? std::optional(1 - *average.of_alone) : std::nullopt}};
            continue;
        }
        now = before->second;
        const bool runs = job.state == JobState::kRunning;
        now.iterations.read(now_s, iterations, runs);
        now.busy.read(now_s, busy_s, runs);
        now.waited.read(now_s, waited_s);
        if (const double since = now_s - now.iterations.at_s; since > 0 && now.iterations.per_s)
            now.iterations.per_s = std::min(*now.iterations.per_s, 1 / since);
        if (now.busy.per_s) now.busy.per_s = std::min(*now.busy.per_s, 1.0);
    }
    jobs_ = std::move(jobs);
}

Rate Rates::of(const JobStatus& job) const {
    const auto found = jobs_.find(key_of(job));
    if (found == jobs_.end()) return {};
    const auto& [iterations, busy, waited] = found->second;
    const auto of_alone = waited.per_s ? std::optional(std::clamp(1 - *waited.per_s, 0.0, 1.0)) : std::nullopt;
    return {iterations.per_s, busy.per_s, of_alone};
}

// -------------------------------------------------------------------------------------------------------------- jobs

namespace {

std::string in_brackets(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

std::string reason_text(const Wait& wait) {
    const auto& known = wait.behind;
    const std::string behind = known ? job_text(known->name, known->job) : job_text("", 0);
    switch (*wait.reason) {
        case WaitReason::kNothing: return {};
        case WaitReason::kTurn: return "waits for its turn" + (known ? ", after " + behind : "");
        case WaitReason::kMemory: return "waits for memory" + (known ? ", of which " + behind + " holds most" : "");
        case WaitReason::kReservation:
            return "waits for memory: the room is kept for " + behind + ", which has waited longer";
        case WaitReason::kProfiling:
            return known ? "waits for the first iterations of " + behind : "waits for room for its first iterations";
        case WaitReason::kPaging: return "waits while its memory is paged";
        case WaitReason::kMapping: return "waits while its lane is mapped";
        case WaitReason::kStoppedHolder:
            return "waits: its lane is held by " + behind + ", which does nothing inside an iteration";
        case WaitReason::kOrder: return "waits: the policy lets " + (known ? behind : "others") + " go first";
        case WaitReason::kPaused: return "is stopped, by a signal or a debugger";
        case WaitReason::kRefused: return "is refused: it could never fit on the device";
        case WaitReason::kUserMemory:
            return "waits: the jobs of its user have as much memory as that user may have" +
                   in_brackets(wait.user_memory_max == Bytes{} ? "" : format_bytes(wait.user_memory_max));
        case WaitReason::kUserJobs:
            return "waits: as many jobs of its user run as that user may have" +
                   in_brackets(wait.user_jobs_max == 0 ? "" : std::to_string(wait.user_jobs_max));
    }
    return {};
}

}  // namespace

std::string start_wait_text(const StartWait& wait) {
    const bool limited = wait.reason == WaitReason::kUserJobs || wait.reason == WaitReason::kUserMemory;
    if (limited) return reason_text(wait);
    std::string text = "waits for memory on the GPU, to start";
    if (wait.behind) text += "; " + job_text(wait.behind->name, wait.behind->job) + " holds most";
    return text;
}

std::string wait_text(JobState state, const Wait& wait) {
    if (state == JobState::kRefused || wait.reason == WaitReason::kRefused) return reason_text({WaitReason::kRefused, {}});
    if (state == JobState::kPaused) return "is paused; salus resume continues it";
    if (state == JobState::kSuspended) return "is suspended; salus resume brings it back";
    if (state == JobState::kAsleep) return "does nothing in the middle of an iteration";
    if (state == JobState::kStopped) return reason_text({WaitReason::kPaused, {}});
    if (!wait.reason) return "waits, for a reason that only a newer salus knows";
    if (wait.reason != WaitReason::kNothing) return reason_text(wait);
    if (state == JobState::kGrowing) return "waits in mid-iteration for more memory";
    if (state == JobState::kUnshared) return "runs without sharing";
    if (state == JobState::kStarting) return "has not asked for the device yet";
    if (state == JobState::kLost) return "cannot go on: its GPU is lost";
    if (state == JobState::kUnseen) return "uses the GPU without Salus: its calls pass by the shim";
    return {};
}

bool was_placed(const JobStatus& job) {
    return job.placement != PlacementReason::kNone && job.placement != PlacementReason::kOnly;
}

JobCells cells_of(const JobStatus& job, const Rate& rate) {
    JobCells cells;
    cells.gpu = job.gpu_number ? std::to_string(*job.gpu_number) : kMissing;
    cells.placed = was_placed(job) ? std::string(text_of(job.placement)) : kMissing;
    cells.job = std::to_string(job.job);
    cells.name = shown(job.name);
    cells.state = shown(std::string(name_of(job.state)));
    cells.pid = job.pid > 0 ? std::to_string(job.pid) : kMissing;
    cells.user = job.user == kNoUser     ? kMissing
                 : job.user_name.empty() ? std::to_string(static_cast<std::uint32_t>(job.user))
                                         : printable(job.user_name);
    cells.elapsed = format_seconds(job.elapsed.seconds());
    cells.command = job.command.empty() ? kMissing : shortened_command(job.command);
    cells.rate = rate.iterations_per_s ? format_rate(*rate.iterations_per_s) : kMissing;
    // A job that is kept from running by its user, or itself, says nothing about what sharing costs.
    const bool runs_freely =
        job.state == JobState::kRunning || job.state == JobState::kWaiting || job.state == JobState::kIdle;
    cells.of_alone = rate.of_alone && runs_freely ? fmt::format("{:.0f} %", 100 * *rate.of_alone) : kMissing;
    cells.share = rate.share ? fmt::format("{:.0f} %", 100 * *rate.share) : kMissing;
    cells.priority = cells.weight = cells.client_class = cells.lane = cells.iterations = cells.left = cells.persistent =
        cells.ephemeral = cells.waited = kMissing;
    cells.why = wait_text(job.state, job.activity ? job.activity->wait : Wait{});
    if (!job.activity && job.state == JobState::kWaiting) cells.why = start_wait_text(job.start_wait.value_or(StartWait{}));
    const bool unshared = job.state == JobState::kUnshared || job.state == JobState::kUnseen;
    if (job.state == JobState::kLost && !job.why_unshared.empty()) cells.why = printable(job.why_unshared);
    if (unshared && !job.why_unshared.empty()) cells.why = "runs without sharing: " + printable(job.why_unshared);
    if (!job.activity) return cells;
    const Activity& activity = *job.activity;
    if (activity.lane != kNoLane) cells.lane = std::to_string(index_of(activity.lane));
    cells.priority = std::to_string(activity.priority);
    cells.weight = fmt::format("{:g}", activity.weight);
    cells.iterations = std::to_string(activity.iterations);
    const bool by_launches = activity.launches > 0;
    if (by_launches) cells.iterations = "by launches";
    if (const auto& length = activity.length; length && !by_launches)
        cells.iterations += (length->is_past ? "/~" : "/") + std::to_string(length->iterations);
    if (by_launches) cells.rate = kMissing;
    if (activity.left && !by_launches) cells.left = format_seconds(activity.left->seconds());
    cells.client_class = std::string(name_of_class(activity.interactive));
    const double waiting_s = activity.waiting_now.seconds();
    if (cells.why.starts_with("waits") && waiting_s >= 1)
        cells.why += ", for " + (waiting_s < 99.5 ? fmt::format("{:.0f} s", waiting_s) : format_seconds(waiting_s));
    if (cells.why.empty() && activity.interactive && activity.lane != kNoLane && !activity.beside)
        cells.why = "takes turns: there is no memory to run beside the others";
    constexpr Duration kShowsByThen = seconds(10);
    if (cells.why.empty() && job.state == JobState::kIdle && activity.iterations == 0 && job.attached >= kShowsByThen)
        cells.why = "has shown no iteration yet";
    const bool explained = !cells.why.empty();
    const auto add_to_why = [&](const std::string& text) { cells.why += (cells.why.empty() ? "" : "; ") + text; };
    if (const auto& requests = activity.requests; requests.answered > 0) {
        add_to_why(fmt::format("{} requests, p50 {:.1f} ms, p99 {:.1f} ms", requests.answered, requests.p50.seconds() * 1e3,
                               requests.p99.seconds() * 1e3));
    }
    if (const auto& company = activity.company) {
        std::string jobs;
        for (const std::uint32_t number : company->jobs) jobs += (jobs.empty() ? "" : ", ") + std::to_string(number);
        add_to_why(fmt::format("runs with job{} {}", company->jobs.size() > 1 ? "s" : "", jobs));
        if (company->rate > 0) cells.why += fmt::format(", {:.1f} times as fast as in turns", company->rate);
    }
    // Last, because it changes least: a narrow screen may cut it off.
    if (!explained && !activity.class_reason.empty())
        add_to_why(cells.client_class + ": " + printable(activity.class_reason));
    cells.persistent = format_bytes(activity.persistent);
    cells.ephemeral = format_bytes(activity.ephemeral);
    cells.waited = format_seconds(activity.waited.seconds());
    return cells;
}

// ------------------------------------------------------------------------------------------------------------- texts

namespace {

struct PsColumn {
    const char* title;
    Align align;
    std::string JobCells::*cell;
};

/// Those that say the same of every job are left out, because the table is wide enough without them.
std::vector<PsColumn> ps_columns(const std::vector<JobStatus>& jobs, const PsOptions& options) {
    using enum Align;
    const auto any = [&](const auto& has) { return std::ranges::any_of(jobs, has); };
    const auto any_activity = [&](const auto& has) {
        return any([&](const JobStatus& job) { return job.activity && has(*job.activity); });
    };
    std::vector<PsColumn> columns = {{"JOB", kRight, &JobCells::job}, {"NAME", kLeft, &JobCells::name}};
    if (options.viewer && any([&](const JobStatus& job) { return job.user != *options.viewer; }))
        columns.push_back({"USER", kLeft, &JobCells::user});
    const bool several = any([](const JobStatus& job) { return was_placed(job); });
    if (several) columns.push_back({"GPU", kRight, &JobCells::gpu});
    columns.push_back({"CLASS", kLeft, &JobCells::client_class});
    if (any_activity([](const Activity& activity) { return activity.priority != Activity{}.priority; }))
        columns.push_back({"PRIO", kRight, &JobCells::priority});
    if (any_activity([](const Activity& activity) { return activity.weight != Activity{}.weight; }))
        columns.push_back({"WEIGHT", kRight, &JobCells::weight});
    columns.insert(columns.end(), {{"STATE", kLeft, &JobCells::state},
                                   {"LANE", kRight, &JobCells::lane},
                                   {"ITERATIONS", kRight, &JobCells::iterations},
                                   {"IT/S", kRight, &JobCells::rate},
                                   {"LEFT", kRight, &JobCells::left},
                                   {"SHARE", kRight, &JobCells::share},
                                   {"P", kRight, &JobCells::persistent},
                                   {"T", kRight, &JobCells::ephemeral},
                                   {"TIME", kRight, &JobCells::elapsed},
                                   {"WAITED", kRight, &JobCells::waited},
                                   {"PID", kRight, &JobCells::pid},
                                   {"WHY", kLeft, &JobCells::why}});
    if (several) columns.push_back({"PLACED", kLeft, &JobCells::placed});
    // Last, because it is long and says the least: names come from it.
    if (any([](const JobStatus& job) { return !job.command.empty(); }))
        columns.push_back({"COMMAND", kLeft, &JobCells::command});
    return columns;
}

/// "status 0, 12m 05s ago"
std::string end_text(const JobStatus& job, std::int64_t now_unix_s) {
    const JobEnd& end = *job.end;
    const auto ago_s = static_cast<double>(std::max(now_unix_s - end.at_unix_s, std::int64_t{0}));
    return fmt::format("{}, {} ago", end.exit_status ? fmt::format("status {}", *end.exit_status) : "status not known",
                       format_seconds(ago_s));
}

}  // namespace

std::string format_ps(const Status& status, const PsOptions& options) {
    std::vector<JobStatus> jobs = status.jobs;
    if (options.ended_before_unix_s) jobs.insert(jobs.begin(), status.ended.begin(), status.ended.end());
    if (jobs.empty()) return "no jobs\n";
    const std::vector<PsColumn> columns = ps_columns(jobs, options);
    std::vector<std::vector<std::string>> rows;
    for (const JobStatus& job : jobs) {
        JobCells cells = cells_of(job, average_rate(job));
        if (job.end && options.ended_before_unix_s) cells.why = end_text(job, *options.ended_before_unix_s);
        std::vector<std::string>& row = rows.emplace_back();
        for (const PsColumn& column : columns) row.push_back(cells.*column.cell);
    }
    std::vector<std::string> titles;
    std::vector<Align> aligns;
    for (const PsColumn& column : columns) {
        titles.emplace_back(column.title);
        aligns.push_back(column.align);
    }
    return format_table(titles, aligns, rows);
}

nlohmann::json ps_json(const Status& status, bool with_ended) {
    nlohmann::json document = to_json(status);
    document.erase("service");
    if (!with_ended) document.erase("ended");
    return document;
}

namespace {

class Lines {
public:
    /// A label is written once for all the lines that follow it.
    void add(const char* label, const std::string& text) {
        text_ += fmt::format("{:<10}{}\n", label == last_ ? "" : label, text);
        last_ = label;
    }
    void end_paragraph() { text_ += '\n'; }
    std::string take() && { return std::move(text_); }

private:
    std::string text_;
    std::string last_;
};

void add_lanes(Lines& lines, const Status& status) {
    if (status.service.lanes.empty()) lines.add("lanes", "none");
    for (const LaneStatus& lane : status.service.lanes) {
        const std::string holder = holder_text(status, lane);
        std::string text = fmt::format("{}: {}", index_of(lane.lane), format_bytes(lane.size));
        if (lane.charge > lane.size)
            text += fmt::format(" ({} until all clients have unmapped it)", format_bytes(lane.charge));
        lines.add("lanes", text + (holder.empty() ? ", free" : ", held by " + holder));
    }
}

void add_events(Lines& lines, const Statistics& s) {
    lines.add("turns", fmt::format("{}, {} job switches", s.turns, s.switches));
    lines.add("paging", fmt::format("{} page-outs, {} page-ins, {} moved", s.page_outs, s.page_ins, format_bytes(s.paged)));
    if (s.refusals > 0) lines.add("refused", fmt::format("{} jobs that could never fit", s.refusals));
    if (s.denials > 0) lines.add("denied", fmt::format("{} requests for memory in mid-iteration", s.denials));
    if (s.fallbacks > 0) lines.add("fallback", "the policy misbehaved, and fifo took over");
}

}  // namespace

namespace {

void add_device(Lines& lines, const Status& status) {
    const ServiceStatus& device = status.service;
    lines.add("memory", fmt::format("{} of {} reserved, peak {}", format_bytes(device.reserved),
                                    format_bytes(device.capacity), format_bytes(device.statistics.reserved_peak)));
    if (device.held_by_orphans.count > 0)
        lines.add("memory", format_bytes(device.held_by_orphans) + " still held by jobs of an earlier service");
    add_lanes(lines, status);
    if (const std::string busy = busy_text(device); !busy.empty()) lines.add("busy", busy);
    if (const std::string gates = gates_text(device); !gates.empty()) lines.add("gates", gates);
    lines.add("jobs", std::to_string(status.jobs.size()));
    add_events(lines, device.statistics);
    const TraceStatus& trace = device.trace;
    const double trace_kib = trace.bytes.mib() * 1024;
    const std::string trace_size = trace_kib < 1000 ? fmt::format("{:.0f} KiB", trace_kib) : format_bytes(trace.bytes);
    lines.add("trace", fmt::format("{}, {}, {}", shown(trace.path), trace_size,
                                   trace.recording ? "being recorded" : "no longer recorded"));
}

}  // namespace

std::string format_status(const Status& status) {
    const ServiceStatus& service = status.service;
    Lines lines;
    lines.add("service", fmt::format("salusd {}, pid {}, up {}", shown(service.version), service.pid,
                                     format_seconds(service.uptime.seconds())));
    lines.add("socket", shown(service.socket));
    if (!service.metrics.empty()) lines.add("metrics", shown(service.metrics));
    const char* paging = service.paging ? "paging on" : service.device == "cuda" ? "no paging on a GPU" : "paging off";
    lines.add("policy", fmt::format("{}, turns of {:g} ms or more, {}", shown(service.policy),
                                    service.min_turn.seconds() * 1e3, paging));
    if (service.devices.size() < 2) {
        lines.add("device", shown(service.device));
        add_device(lines, status);
        return std::move(lines).take();
    }
    lines.add("placement", fmt::format("{}, {} devices", shown(service.placement), service.devices.size()));
    for (std::size_t i = 0; i < service.devices.size(); ++i) {
        const DeviceStatus& device = service.devices[i];
        lines.end_paragraph();
        lines.add("device", fmt::format("{}: {}{}", device.number, shown(device.label()),
                                        device.lost.empty() ? "" : ", lost: no job goes there any more"));
        add_device(lines, status_of_device(status, i));
    }
    return std::move(lines).take();
}

}  // namespace salus::cli
