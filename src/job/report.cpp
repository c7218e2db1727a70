#include "job/report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

namespace salus::job {
namespace {

nlohmann::ordered_json json_of(const salus_counters& c) {
    return {{"iterations", c.iterations},
            {"turns", c.turns},
            {"busy_ns", c.busy_ns},
            {"waited_ns", c.waited_ns},
            {"lane_bytes", c.lane_bytes},
            {"missed_bytes", c.missed_bytes},
            {"lane_peak", c.lane_peak},
            {"private_bytes", c.private_bytes},
            {"evacuations", c.evacuations},
            {"evacuated_bytes", c.evacuated_bytes},
            {"page_outs", c.page_outs},
            {"attachments", c.attachments},
            {"shared", c.shared}};
}

template <typename... Values>
std::string formatted(const char* format, Values... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

}  // namespace

void fail(Status status, const std::string& message) {
    std::fprintf(stderr, "salus-job: %s\n", message.c_str());
    std::_Exit(status);
}

double percentile(std::vector<double> values, double percent) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

std::string summary(const Options& options, const Run& run) {
    const double seconds = (run.end - run.start).seconds();
    std::string line = options.shown_name() + ": " + std::to_string(run.iterations) + " iterations in ";
    line += formatted("%.1f s, %.1f/s, waited %.1f s", seconds, static_cast<double>(run.iterations) / seconds,
                      static_cast<double>(run.counters.waited_ns) * 1e-9);
    if (options.inference())
        line += formatted(", p50 %.1f ms, p99 %.1f ms", percentile(run.latency_ms, 50), percentile(run.latency_ms, 99));
    return line;
}

std::string report(const Options& options, const Run& run) {
    nlohmann::ordered_json json = {
        {"name", options.shown_name()},
        {"pid", ::getpid()},
        {"iterations", run.iterations},
        {"seconds", (run.end - run.start).seconds()},
        {"iteration_seconds_median", percentile(run.iteration_ms, 50) / 1e3},
        {"iteration_seconds_mean", run.inside.seconds() / static_cast<double>(run.iterations)},
        {"start_ns", run.start.ns},
        {"first_iteration_ns", run.first_iteration.ns},
        {"end_ns", run.end.ns},
        {"corrupt", false},  // a job that finds a change writes no report
        {"digest", formatted("%016llx", static_cast<unsigned long long>(run.digest))},
    };
    if (options.inference()) {
        json["latency_p50_ms"] = percentile(run.latency_ms, 50);
        json["latency_p99_ms"] = percentile(run.latency_ms, 99);
    }
    json["counters"] = json_of(run.counters);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace salus::job
