#include "sim/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"

namespace salus::sim {
namespace {

double mean(std::span<const double> values) {
    return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The smallest value such that at least `share` of all values do not exceed it.
double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
}

constexpr auto kNumbers = std::to_array<double Figures::*>(
    {&Figures::makespan_s, &Figures::mean_queue_s, &Figures::mean_completion_s, &Figures::p95_completion_s,
     &Figures::busy_share, &Figures::memory_peak_mib, &Figures::memory_static_mib, &Figures::switches, &Figures::paged_mib,
     &Figures::fairness, &Figures::memory_fairness, &Figures::batch_progress, &Figures::request_mean_ms,
     &Figures::request_p50_ms, &Figures::request_p99_ms});

std::string format_seconds(double s) {
    if (s < 100) return fmt::format("{:.2f} s", s);
    if (s < 600) return fmt::format("{:.1f} s", s);
    return fmt::format("{:.1f} min", s / 60);
}

std::string format_mib(double mib) {
    return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

}  // namespace

double jain_index(std::span<const double> shares) {
    double sum = 0;
    double squares = 0;
    for (double x : shares) {
        sum += x;
        squares += x * x;
    }
    return squares == 0 ? 1.0 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

Figures figures_of(std::string_view policy, std::span<const SimulatedJob> jobs, const SimulationResult& result) {
    std::vector<double> queue, completion, progress, batch_progress, memory, latencies_ms;
    Instant first = kNever;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const JobResult& job = result.jobs[i];
        first = std::min(first, job.arrival);
        if (job.outcome != Outcome::kDone) continue;
        const double took_s = (job.end - job.arrival).seconds();
        queue.push_back((job.first_run - job.arrival).seconds());
        completion.push_back(took_s);
        const auto iterations = static_cast<std::int64_t>(job.iterations);
        const Duration alone = jobs[i].iteration_time * iterations + jobs[i].startup + jobs[i].think * (iterations - 1);
        progress.push_back(took_s > 0 ? alone.seconds() / took_s : 1.0);
        if (!jobs[i].interactive) batch_progress.push_back(progress.back());
        memory.push_back(took_s > 0 ? job.memory_time_gib_s / took_s : 0.0);
    }
    Figures f;
    f.policy = policy;
    f.makespan_s = first == kNever ? 0 : (result.end - first).seconds();
    f.mean_queue_s = mean(queue);
    f.mean_completion_s = mean(completion);
    f.p95_completion_s = quantile(completion, 0.95);
    f.busy_share = f.makespan_s > 0 ? result.busy.seconds() / f.makespan_s : 0;
    f.memory_peak_mib = result.memory_peak.mib();
    f.memory_static_mib = result.static_peak.mib();
    f.switches = static_cast<double>(result.statistics.switches);
    f.paged_mib = result.statistics.paged.mib();
    f.fairness = jain_index(progress);
    f.memory_fairness = jain_index(memory);
    for (Duration latency : result.latencies) latencies_ms.push_back(1e3 * latency.seconds());
    f.batch_progress = mean(batch_progress);
    f.request_mean_ms = mean(latencies_ms);
    f.request_p50_ms = quantile(latencies_ms, 0.5);
    f.request_p99_ms = quantile(latencies_ms, 0.99);
    return f;
}

Figures mean_of(std::span<const Figures> runs) {
    SALUS_CHECK(!runs.empty(), "a mean of nothing");
    Figures sum;
    sum.policy = runs.front().policy;
    for (const Figures& run : runs) {
        for (auto number : kNumbers) sum.*number += run.*number / static_cast<double>(runs.size());
    }
    return sum;
}

std::string format_table(std::span<const Figures> rows) {
    std::vector<std::array<std::string, 12>> cells;
    cells.push_back({"policy", "makespan", "queueing", "completion", "p95", fmt::format("against {}", rows.front().policy),
                     "busy", "memory", "static", "switches", "paged", "fairness"});
    for (const Figures& f : rows) {
        cells.push_back(
            {f.policy, format_seconds(f.makespan_s), format_seconds(f.mean_queue_s), format_seconds(f.mean_completion_s),
             format_seconds(f.p95_completion_s),
             f.mean_completion_s > 0 ? fmt::format("{:.2f}x", rows.front().mean_completion_s / f.mean_completion_s) : "-",
             fmt::format("{:.1f} %", 100 * f.busy_share), format_mib(f.memory_peak_mib), format_mib(f.memory_static_mib),
             fmt::format("{:.0f}", f.switches), format_mib(f.paged_mib), fmt::format("{:.3f}", f.fairness)});
    }
    std::array<std::size_t, 12> width{};
    for (const auto& row : cells) {
        for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    }
    std::string out;
    for (const auto& row : cells) {
        std::string line = fmt::format("{:<{}}", row[0], width[0]);
        for (std::size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], width[i]);
        out += line + "\n";
    }
    return out;
}

}  // namespace salus::sim
