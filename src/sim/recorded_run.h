// A recorded trace read back as a run: who ran when, and the same figures that a simulation has.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/trace.h"
#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::sim {

struct RecordedRun {
    Replay replay;
    std::vector<SimulatedJob> jobs;      ///< one for each attachment, with name, arrival, P and T as last known
    std::vector<std::uint32_t> numbers;  ///< of the jobs, as users know them
    std::vector<Segment> segments;       ///< client i is jobs[i]
    SimulationResult result;             ///< of jobs[i]
};

/// Replays the trace and looks on. An error if it is no trace; a difference in `replay` ends the run there.
Result<RecordedRun> read_recorded_run(std::string_view trace, PolicyFinder find_policy, const Policy& fallback);

}  // namespace salus::sim
