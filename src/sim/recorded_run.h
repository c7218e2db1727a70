// A recorded trace as a run: who ran when, and the same figures as a simulation has.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/trace.h"
#include "sim/answering.h"
#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::sim {

struct RecordedRun {
    Replay replay;
    std::vector<SimulatedJob> jobs;      ///< one for each attachment, with name, arrival, and the last known P and T
    std::vector<std::uint32_t> numbers;  ///< the jobs' numbers, as users know them
    std::vector<Segment> segments;       ///< client i is jobs[i]
    std::vector<std::map<WaitReason, Duration>> waits;  ///< of jobs[i]: how long it did not run, and why
    Instant end;                                        ///< of the trace
    Answering answering;                                ///< job i is jobs[i]
    SimulationResult result;                            ///< its jobs[i] is for jobs[i]
};

/// Replays the trace and records the run. An error if it is not a trace. The run ends at the first difference, which is in
/// `replay`.
Result<RecordedRun> read_recorded_run(std::string_view trace, PolicyFinder find_policy, const Policy& fallback);

}  // namespace salus::sim
