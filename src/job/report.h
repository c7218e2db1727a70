// What the job says: a line when it fails, a line when it is done, and JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "job/options.h"
#include "salus/salus.h"

namespace salus::job {

enum Status : int {
    kFailed = 1,  ///< the job could not go on
    kUsage = 2,
    kCorrupt = 3,  ///< memory changed that nobody else should reach
};

/// What a run came to.
struct Run {
    std::uint64_t iterations = 0;
    Instant start;            ///< of the process
    Instant first_iteration;  ///< when its first turn had come
    Instant end;
    Duration inside;                   ///< of all iterations together: from their turn to their boundary
    std::vector<double> iteration_ms;  ///< each of them
    std::vector<double> latency_ms;    ///< of inference: from a request's arrival to the end of its iteration
    std::uint64_t digest = 0;          ///< of the persistent state
    salus_counters counters{};         ///< zeros if alone
};

/// Prints one line and ends the process, whatever its other threads do.
[[noreturn]] void fail(Status status, const std::string& message);

/// The smallest value that `percent` of all do not exceed; 0 if there are none.
double percentile(std::vector<double> values, double percent);

std::string summary(const Options& options, const Run& run);
std::string report(const Options& options, const Run& run);

}  // namespace salus::job
