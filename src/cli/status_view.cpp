#include "cli/status_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"

namespace salus::cli {
namespace {

using nlohmann::json;

constexpr const char* kMissing = "-";

const json* find(const json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::string count_in(const json& object, const char* key) {
    const auto number = number_in(object, key);
    return number && std::fabs(*number) < 1e15 ? fmt::format("{:.0f}", *number) : kMissing;
}

std::string size_in(const json& object, const char* key) {
    const auto size = bytes_in(object, key);
    return size ? format_bytes(*size) : kMissing;
}

std::string or_missing(std::string text) { return text.empty() ? kMissing : std::move(text); }

}  // namespace

// ------------------------------------------------------------------------------------------------------------ fields

std::optional<double> number_in(const json& object, const char* key) {
    const json* found = find(object, key);
    return found && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<Bytes> bytes_in(const json& object, const char* key) {
    const json* found = find(object, key);
    if (!found || !found->is_number_integer()) return std::nullopt;
    const auto count = found->get<std::int64_t>();
    return count >= 0 ? std::optional(Bytes{count}) : std::nullopt;
}

std::string text_in(const json& object, const char* key) {
    const json* found = find(object, key);
    return found && found->is_string() ? printable(found->get_ref<const std::string&>()) : std::string();
}

bool flag_in(const json& object, const char* key) {
    const json* found = find(object, key);
    return found && found->is_boolean() && found->get<bool>();
}

const json& part_of(const json& object, const char* key) {
    static const json nothing;
    const json* found = find(object, key);
    return found && found->is_structured() ? *found : nothing;
}

std::string job_text(const std::string& name, std::optional<double> job) {
    const bool named = !name.empty() && name != "?";
    if (!job) return named ? name : "another job";
    return named ? fmt::format("{} (job {:.0f})", name, *job) : fmt::format("job {:.0f}", *job);
}

std::string holder_text(const json& status, const json& lane) {
    const auto holder = number_in(lane, "holder");
    if (!holder) return {};
    for (const json& job : part_of(status, "jobs")) {
        if (number_in(job, "client") == holder) return job_text(text_in(job, "name"), number_in(job, "job"));
    }
    return job_text("", std::nullopt);
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

/// A client's own counts (iterations, busy_s) outlive a service, and are up to date; what the service counts (attained_s)
/// starts anew when the client is attached anew, and is late in a long turn.
Rate average_rate(const json& job) {
    const auto attached_s = number_in(job, "attached_s");
    const auto iterations = number_in(job, "iterations");
    const auto attained_s = number_in(job, "attained_s");
    if (!attached_s || *attached_s <= 0 || !iterations) return {};
    const auto before = number_in(job, "iterations_before");
    const double news = std::max(*iterations - before.value_or(0), 0.0);
    double busy_s = number_in(job, "busy_s").value_or(0);
    if (before && *iterations > 0) busy_s *= news / *iterations;
    const bool older = busy_s > *attached_s + 1;  // than its attachment
    Rate rate;
    if (!older) rate.iterations_per_s = news / *attached_s;
    const double used_s = std::max(attained_s.value_or(0), older ? 0.0 : busy_s);
    rate.share = std::clamp(used_s / *attached_s, 0.0, 1.0);
    return rate;
}

Rates::Key Rates::key_of(const json& job) {
    const auto whole = [&](const char* key) {
        const auto number = number_in(job, key);
        return number && std::fabs(*number) < 1e15 ? static_cast<std::int64_t>(*number) : std::int64_t{-1};
    };
    return {whole("job"), whole("client"), whole("pid")};  // numbers of clients are used again
}

/// `late`: the count may have grown without our knowing, so that no news is no news.
void Rates::Gauge::read(double now_s, double now_value, bool late) {
    if (now_s <= at_s || (late && now_value == value)) return;
    per_s = std::max(now_value - value, 0.0) / (now_s - at_s);
    at_s = now_s;
    value = now_value;
}

// Note [Figures that come late]
// A job's iterations and its attained time are counted at the ends of iterations and turns. If those are longer than the
// time between two snapshots, the figures stand still and then leap. So while a job runs they are measured from one change
// to the next, not from one snapshot to the next; an iteration that takes longer than the last ones shows all the same.
void Rates::update(const json& status) {
    const json& service = part_of(status, "service");
    const auto now_s = number_in(service, "uptime_s");
    if (!now_s || (last_s_ && *now_s < *last_s_)) *this = {};  // another service: nothing can be compared
    if (!now_s || last_s_ == now_s) return;
    const bool first = !last_s_;
    last_s_ = now_s;
    const json& statistics = part_of(service, "statistics");
    for (const auto& [gauge, key] : {std::pair{&turns_, "turns"}, std::pair{&switches_, "switches"}}) {
        const double value = number_in(statistics, key).value_or(0);
        if (first) *gauge = {*now_s, value, std::nullopt};
        else gauge->read(*now_s, value);
    }

    std::map<Key, Job> jobs;
    for (const json& job : part_of(status, "jobs")) {
        const auto iterations = number_in(job, "iterations");
        const auto busy_s = number_in(job, "busy_s");
        if (!iterations || !busy_s) continue;
        const auto before = jobs_.find(key_of(job));
        Job& now = jobs[key_of(job)];
        if (before == jobs_.end()) {
            const Rate average = average_rate(job);
            now = {{*now_s, *iterations, average.iterations_per_s}, {*now_s, *busy_s, average.share}};
            continue;
        }
        now = before->second;
        const bool runs = text_in(job, "state") == "running";
        now.iterations.read(*now_s, *iterations, runs);
        now.busy.read(*now_s, *busy_s, runs);
        if (const double since = *now_s - now.iterations.at_s; since > 0 && now.iterations.per_s)
            now.iterations.per_s = std::min(*now.iterations.per_s, 1 / since);
        if (now.busy.per_s) now.busy.per_s = std::min(*now.busy.per_s, 1.0);
    }
    jobs_ = std::move(jobs);
}

Rate Rates::of(const json& job) const {
    const auto found = jobs_.find(key_of(job));
    if (found == jobs_.end()) return {};
    return {found->second.iterations.per_s, found->second.busy.per_s};
}

// -------------------------------------------------------------------------------------------------------------- jobs

/// The names are those of WaitReason (core/types.cpp).
std::string wait_text(const json& job) {
    const std::string state = text_in(job, "state");
    const std::string reason = text_in(job, "waits_for");
    if (reason == "refused" || state == "refused") return "is refused: it could never fit on the device";
    if (state == "paused") return "is paused: salus resume lets it go on";
    if (state == "asleep") return "does nothing in the middle of an iteration";
    if (state == "stopped" || reason == "paused") return "is stopped, by a signal or a debugger";
    const bool behind_known = find(job, "behind") || find(job, "behind_job");
    const std::string behind = job_text(text_in(job, "behind"), number_in(job, "behind_job"));
    if (reason == "turn") return "waits for its turn" + (behind_known ? ", after " + behind : "");
    if (reason == "memory") return "waits for memory";
    if (reason == "reservation") return "waits for memory: the room is kept for " + behind + ", which has waited longer";
    if (reason == "profiling") {
        return behind_known ? "waits for the first iterations of " + behind : "waits for room for its first iterations";
    }
    if (reason == "paging") return "waits while its memory is paged";
    if (reason == "mapping") return "waits while its lane is mapped";
    if (reason == "stopped-holder")
        return "waits: its lane is held by " + behind + ", which does nothing inside an iteration";
    if (reason == "order") return "waits: the policy lets others go first";
    if (!reason.empty() && reason != "nothing") return "waits for " + reason;
    if (state == "growing") return "waits in mid-iteration for more memory";
    if (state == "starting") return "has not asked for the device yet";
    return {};
}

JobCells cells_of(const json& job, const Rate& rate) {
    JobCells cells;
    cells.job = count_in(job, "job");
    cells.name = or_missing(text_in(job, "name"));
    cells.state = or_missing(text_in(job, "state"));
    cells.lane = count_in(job, "lane");
    cells.iterations = count_in(job, "iterations");
    const bool guessed = text_in(job, "estimate") == "history";
    if (number_in(job, "iterations_total")) cells.iterations += (guessed ? "/~" : "/") + count_in(job, "iterations_total");
    cells.rate = rate.iterations_per_s ? format_rate(*rate.iterations_per_s) : kMissing;
    const auto left_s = number_in(job, "left_s");
    cells.left = left_s ? format_seconds(*left_s) : kMissing;
    cells.share = rate.share ? fmt::format("{:.0f} %", 100 * *rate.share) : kMissing;
    cells.persistent = size_in(job, "persistent");
    cells.ephemeral = size_in(job, "ephemeral");
    const auto waited_s = number_in(job, "waited_s");
    cells.waited = waited_s ? format_seconds(*waited_s) : kMissing;
    cells.pid = count_in(job, "pid");
    cells.why = wait_text(job);
    const double waiting_s = number_in(job, "waiting_now_s").value_or(0);
    if (cells.why.starts_with("waits") && waiting_s >= 1)
        cells.why += ", for " + (waiting_s < 99.5 ? fmt::format("{:.0f} s", waiting_s) : format_seconds(waiting_s));
    return cells;
}

// ------------------------------------------------------------------------------------------------------------- texts

std::string format_ps(const json& status) {
    std::vector<std::vector<std::string>> rows;
    for (const json& job : part_of(status, "jobs")) {
        const JobCells c = cells_of(job, average_rate(job));
        rows.push_back({c.job, c.name, c.state, c.lane, c.iterations, c.rate, c.left, c.share, c.persistent, c.ephemeral,
                        c.waited, c.pid, c.why});
    }
    if (rows.empty()) return "no jobs\n";
    using enum Align;
    return format_table(
        {"JOB", "NAME", "STATE", "LANE", "ITERATIONS", "IT/S", "LEFT", "SHARE", "P", "T", "WAITED", "PID", "WHY"},
        {kRight, kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kLeft}, rows);
}

namespace {

class Lines {
public:
    /// A label is written once for all the lines that follow it.
    void add(const char* label, const std::string& text) {
        text_ += fmt::format("{:<10}{}\n", label == last_ ? "" : label, text);
        last_ = label;
    }
    std::string take() && { return std::move(text_); }

private:
    std::string text_;
    std::string last_;
};

void add_lanes(Lines& lines, const json& status) {
    const json& lanes = part_of(part_of(status, "service"), "lanes");
    if (lanes.empty()) lines.add("lanes", "none");
    for (const json& lane : lanes) {
        const std::string holder = holder_text(status, lane);
        const auto size = bytes_in(lane, "size"), charge = bytes_in(lane, "charge");
        std::string text = fmt::format("{}: {}", count_in(lane, "lane"), size_in(lane, "size"));
        if (size && charge && *charge > *size) text += fmt::format(" ({} until all have let go)", format_bytes(*charge));
        lines.add("lanes", text + (holder.empty() ? ", free" : ", held by " + holder));
    }
}

void add_events(Lines& lines, const json& statistics) {
    lines.add("turns",
              fmt::format("{}, with {} switches of job", count_in(statistics, "turns"), count_in(statistics, "switches")));
    lines.add("paging", fmt::format("{} page-outs, {} page-ins, {} moved", count_in(statistics, "page_outs"),
                                    count_in(statistics, "page_ins"), size_in(statistics, "paged_bytes")));
    const auto some = [&](const char* key) { return number_in(statistics, key).value_or(0) > 0; };
    if (some("refusals")) lines.add("refused", count_in(statistics, "refusals") + " jobs that could never fit");
    if (some("denials")) lines.add("denied", count_in(statistics, "denials") + " times memory in mid-iteration");
    if (some("fallbacks")) lines.add("fallback", "the policy misbehaved, and fifo took over");
}

}  // namespace

std::string format_status(const json& status) {
    const json& service = part_of(status, "service");
    Lines lines;
    const auto uptime_s = number_in(service, "uptime_s");
    lines.add("service", fmt::format("salusd {}, pid {}, up {}", or_missing(text_in(service, "version")),
                                     count_in(service, "pid"), uptime_s ? format_seconds(*uptime_s) : kMissing));
    lines.add("socket", or_missing(text_in(service, "socket")));
    const auto min_turn_ms = number_in(service, "min_turn_ms");
    const char* paging = text_in(service, "device") == "cuda" ? "no paging on a GPU"
                         : flag_in(service, "paging")         ? "paging on"
                                                              : "paging off";
    lines.add("policy", fmt::format("{}, turns of {} ms or more, {}", or_missing(text_in(service, "policy")),
                                    min_turn_ms ? fmt::format("{:g}", *min_turn_ms) : kMissing, paging));
    lines.add("device", or_missing(text_in(service, "device")));
    const json& statistics = part_of(service, "statistics");
    lines.add("memory", fmt::format("{} of {} reserved, {} at the most so far", size_in(service, "reserved"),
                                    size_in(service, "capacity"), size_in(statistics, "reserved_peak")));
    if (const auto held = bytes_in(service, "held_by_orphans"); held && held->count > 0)
        lines.add("memory", format_bytes(*held) + " still held by jobs of an earlier service");
    add_lanes(lines, status);
    lines.add("jobs", std::to_string(part_of(status, "jobs").size()));
    add_events(lines, statistics);
    const json& trace = part_of(service, "trace");
    const double trace_kib = number_in(trace, "bytes").value_or(0) / 1024;
    const std::string trace_size = trace_kib < 1000 ? fmt::format("{:.0f} KiB", trace_kib) : size_in(trace, "bytes");
    lines.add("trace", fmt::format("{}, {}, {}", or_missing(text_in(trace, "path")), trace_size,
                                   flag_in(trace, "recording") ? "being recorded" : "no longer recorded"));
    return std::move(lines).take();
}

}  // namespace salus::cli
