// Runs a list of jobs with real processes: its own service, and for each job its command or a salus-job. Returns the
// results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/policy.h"
#include "sim/answering.h"
#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::cli {

struct RealRunOptions {
    Bytes capacity;
    unsigned lanes = 0;
    bool paging = true;
    bool overlap = false;
    std::string device = "host";
    std::optional<Duration> min_turn;  ///< nothing: as the device needs
};

struct RealRun {
    sim::SimulationResult result;  ///< of jobs[i]
    std::vector<sim::Segment> segments;
    sim::Answering answering;
    std::string replay_difference;  ///< empty: the recorded trace replays to identical decisions
};

/// The cost of an iteration of a job on this machine: units of work, and its time alone.
struct Calibration {
    std::uint64_t work = 0;
    Duration iteration_time;
};

/// One for each job. REQUIRES: nothing else runs meanwhile.
Result<std::vector<Calibration>> calibrate(const std::vector<sim::SimulatedJob>& jobs,
                                           const std::function<void(double)>& progress);

/// Calls `progress` from time to time with the share of iterations done.
Result<RealRun> run_for_real(const std::vector<sim::SimulatedJob>& jobs, const std::vector<Calibration>& calibrations,
                             const Policy& policy, const RealRunOptions& options,
                             const std::function<void(double)>& progress);

}  // namespace salus::cli
