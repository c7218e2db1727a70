#include "cli/report_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/text.h"
#include "cli/history_view.h"
#include "cli/status_view.h"

namespace salus::cli {
namespace {

std::string_view text_for(WaitReason reason) {
    switch (reason) {
        case WaitReason::kTurn: return "for its turn";
        case WaitReason::kMemory: return "for memory";
        case WaitReason::kReservation: return "for memory kept for another";
        case WaitReason::kProfiling: return "for first iterations";
        case WaitReason::kPaging: return "for paging";
        case WaitReason::kMapping: return "for its lane to be mapped";
        case WaitReason::kStoppedHolder: return "for a job that did nothing in mid-iteration";
        case WaitReason::kOrder: return "because the policy let others go first";
        case WaitReason::kPaused: return "paused, suspended or stopped";
        case WaitReason::kUserMemory: return "for memory of its user";
        case WaitReason::kUserJobs: return "for other jobs of its user";
        default: return "";
    }
}

/// Being paused is its user's doing, and no cost of sharing.
bool is_cost(WaitReason reason) { return reason != WaitReason::kPaused && reason != WaitReason::kRefused; }

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }
std::string time_text(Duration time) { return format_seconds(time.seconds()); }

std::string gib_h(double gib_s) { return fmt::format("{:.3g} GiB·h", gib_s / 3600); }

std::string state_text(const JobReport& report) {
    if (report.exit_status) return fmt::format("ended with status {}", *report.exit_status);
    return report.state == JobState::kUnknown ? "ended" : std::string(name_of(report.state));
}

const JobStatus* ended_row(std::uint32_t job, const Status& status) {
    const auto row = std::ranges::find(status.ended, job, &JobStatus::job);
    return row == status.ended.end() ? nullptr : &*row;
}

/// "▁▁▄▇█▅▁ 64 MiB to 1.2 GiB in use, in 12.5 ms": from the least to the most.
std::string curve_text(const IterationMemory& memory) {
    constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const Bytes least = memory.least, most = std::ranges::max(memory.most, {}, &Bytes::count);
    std::string text;
    for (const Bytes bytes : memory.most) {
        const double height = most > least ? std::clamp((bytes - least).mib() / (most - least).mib(), 0.0, 1.0) : 0;
        text += kBlocks[static_cast<std::size_t>(height * 7.999)];
    }
    const double length_ms = memory.step.seconds() * static_cast<double>(memory.most.size()) * 1e3;
    return fmt::format("{} {} to {} in use, over {:.3g} ms", text, format_bytes(least), format_bytes(most), length_ms);
}

std::string waits_text(const JobReport& report) {
    std::vector<std::pair<WaitReason, Duration>> waits(report.waits.begin(), report.waits.end());
    std::ranges::stable_sort(waits, std::greater{}, &std::pair<WaitReason, Duration>::second);
    std::string text;
    for (const auto& [reason, time] : waits) {
        if (time >= milliseconds(50))
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", time_text(time), text_for(reason));
    }
    return text.empty() ? "none" : text;
}

}  // namespace

Duration JobReport::waited() const {
    Duration sum;
    for (const auto& [reason, time] : waits) sum += is_cost(reason) ? time : Duration{};
    return sum;
}

std::optional<double> JobReport::of_alone() const {
    const auto paused = waits.find(WaitReason::kPaused);
    const Duration counted = wall - (paused == waits.end() ? Duration{} : paused->second);
    if (counted.ns <= 0) return std::nullopt;
    return std::clamp(1 - waited().seconds() / counted.seconds(), 0.0, 1.0);
}

std::optional<double> JobReport::iterations_per_s() const {
    return wall.ns > 0 ? std::optional(static_cast<double>(iterations) / wall.seconds()) : std::nullopt;
}

std::uint32_t number_of_job(const std::string& text, const Status& status, const sim::RecordedRun& run) {
    const auto number = parse_integer(text).value_or(0);
    const auto is_meant = [&](std::uint32_t job, const std::string& name) {
        return number > 0 ? job == number : name == text;
    };
    for (const auto* rows : {&status.jobs, &status.ended}) {
        const auto row =
            std::find_if(rows->rbegin(), rows->rend(), [&](const JobStatus& job) { return is_meant(job.job, job.name); });
        if (row != rows->rend()) return row->job;
    }
    for (std::size_t i = run.jobs.size(); i-- > 0;) {
        if (is_meant(run.numbers[i], run.jobs[i].name)) return run.numbers[i];
    }
    return 0;
}

JobReport report_of(std::uint32_t job, const Status& status, const sim::RecordedRun& run) {
    JobReport report;
    report.job = job;
    Instant first = kNever;
    Instant last{};
    std::size_t clients = 0;
    for (std::size_t i = 0; i < run.jobs.size(); ++i) {
        if (run.numbers[i] != job) continue;
        ++clients;
        const sim::JobResult& result = run.result.jobs[i];
        const Instant end = std::min(result.end, run.end);
        report.name = run.jobs[i].name;
        report.iterations += result.iterations;
        report.persistent = std::max(report.persistent, run.jobs[i].persistent);
        report.ephemeral = std::max(report.ephemeral, run.jobs[i].ephemeral);
        report.memory_time_gib_s += result.memory_time_gib_s;
        report.memory_time_alone_gib_s +=
            (run.jobs[i].persistent + run.jobs[i].ephemeral).mib() / 1024 * (end - result.arrival).seconds();
        for (const auto& [reason, time] : run.waits[i]) report.waits[reason] += time;
        for (const sim::Segment& segment : run.segments) {
            if (index_of(segment.client) != i) continue;
            report.device += segment.end - segment.start;
            ++report.turns;
        }
        first = std::min(first, result.arrival);
        last = std::max(last, end);
    }
    if (clients > 0) report.wall = last - first;

    std::uint64_t iterations = 0;
    for (const JobStatus& row : status.jobs) {
        if (row.job != job) continue;
        report.name = row.name;
        report.command = row.command;
        report.state = row.state;
        if (!row.activity) continue;
        report.length = row.activity->length;
        report.iteration_memory = row.activity->iteration_memory;
        iterations += row.activity->iterations;  // the engine, and so the trace, hears of them late
    }
    report.iterations = std::max(report.iterations, iterations);
    if (const JobStatus* ended = ended_row(job, status)) {
        report.name = ended->name;
        report.command = ended->command;
        report.state = JobState::kEnded;
        if (ended->end) report.exit_status = ended->end->exit_status;
    }
    return report;
}

std::string format_report(const JobReport& r) {
    std::string out = fmt::format("{}, {}\n", job_text(r.name, r.job), state_text(r));
    const auto add = [&](const char* label, const std::string& text) { out += fmt::format("{:<12}{}\n", label, text); };
    if (!r.command.empty()) add("command", shortened_command(printable(r.command)));
    if (r.wall.ns <= 0) {
        add("time", "it has not attached, so it has used no device time");
        return out;
    }
    std::string iterations = std::to_string(r.iterations);
    if (r.length) iterations += fmt::format(" of {}{}", r.length->is_past ? "about " : "", r.length->iterations);
    if (const auto rate = r.iterations_per_s()) iterations += fmt::format(", {}/s", format_rate(*rate));
    if (const auto share = r.of_alone()) iterations += fmt::format(", {} of its speed alone", percent(*share));
    add("iterations", iterations);
    add("time",
        fmt::format("{}, of which {} on the device ({}, {} turns) and {} waiting", time_text(r.wall), time_text(r.device),
                    percent(std::min(r.device.seconds() / r.wall.seconds(), 1.0)), r.turns, time_text(r.waited())));
    add("waits", waits_text(r));
    add("memory", fmt::format("P {}, T {}", format_bytes(r.persistent), format_bytes(r.ephemeral)));
    if (!r.iteration_memory.most.empty()) add("iteration", curve_text(r.iteration_memory));
    if (r.memory_time_alone_gib_s > 0) {
        const double saved = 1 - r.memory_time_gib_s / r.memory_time_alone_gib_s;
        const std::string difference = saved >= 0 ? "saved " + percent(saved) : "took " + percent(-saved) + " more";
        add("memory time",
            fmt::format("{}; P and T of its own would have taken {}: sharing {}", gib_h(r.memory_time_gib_s),
                        gib_h(r.memory_time_alone_gib_s), std::fabs(saved) < 0.005 ? "saved nothing" : difference));
    }
    return out;
}

nlohmann::json report_json(const JobReport& r) {
    nlohmann::json document = {{"schema_version", 1},
                               {"job", r.job},
                               {"name", r.name},
                               {"command", r.command},
                               {"state", r.state == JobState::kUnknown ? "ended" : name_of(r.state)},
                               {"wall_s", r.wall.seconds()},
                               {"device_s", r.device.seconds()},
                               {"turns", r.turns},
                               {"waited_s", r.waited().seconds()},
                               {"waits_s", nlohmann::json::object()},
                               {"iterations", r.iterations},
                               {"persistent_bytes", r.persistent.count},
                               {"ephemeral_bytes", r.ephemeral.count},
                               {"memory_time_gib_s", r.memory_time_gib_s},
                               {"memory_time_alone_gib_s", r.memory_time_alone_gib_s}};
    for (const auto& [reason, time] : r.waits) document["waits_s"][std::string(name_of(reason))] = time.seconds();
    if (!r.iteration_memory.most.empty()) {
        nlohmann::json& curve = document["iteration_memory"];
        curve["least_bytes"] = r.iteration_memory.least.count;
        curve["step_ms"] = r.iteration_memory.step.seconds() * 1e3;
        for (const Bytes bytes : r.iteration_memory.most) curve["most_bytes"].push_back(bytes.count);
    }
    if (r.exit_status) document["exit_status"] = *r.exit_status;
    if (r.length) document["iterations_total"] = r.length->iterations;
    if (const auto rate = r.iterations_per_s()) document["iterations_per_s"] = *rate;
    if (const auto share = r.of_alone()) document["of_alone"] = *share;
    return document;
}

}  // namespace salus::cli
