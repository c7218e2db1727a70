// The figures of a run, for the table and the JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::sim {

struct Figures {
    std::string policy;
    double makespan_s = 0;         ///< first arrival to last end
    double mean_queue_s = 0;       ///< arrival to first iteration
    double mean_completion_s = 0;  ///< arrival to end
    double p95_completion_s = 0;
    double busy_share = 0;         ///< share of the makespan with at least one iteration running
    double memory_peak_mib = 0;    ///< most reserved at once
    double memory_static_mib = 0;  ///< what static partitioning would have needed: sum of P + T of the jobs present
    double switches = 0;
    double paged_mib = 0;        ///< both directions
    double fairness = 0;         ///< Jain's index over jobs of (time alone / completion time)
    double memory_fairness = 0;  ///< Jain's index over jobs of (memory time / completion time)
    double batch_progress = 0;   ///< mean over batch jobs of (time alone / completion time); 0: there are none
    double request_mean_ms = 0;  ///< from the time at which a request comes to its answer; 0: there are none
    double request_p50_ms = 0;
    double request_p99_ms = 0;
};

Figures figures_of(std::string_view policy, std::span<const SimulatedJob> jobs, const SimulationResult& result);

/// Field by field. REQUIRES: not empty, all of the same policy.
Figures mean_of(std::span<const Figures> runs);

/// Jain's index: 1 when all are equal, 1/n when one has everything. 1 for nothing at all.
double jain_index(std::span<const double> shares);

/// One line per policy, with right-aligned columns under a header. With several policies, the mean completion time is also
/// given as a ratio to the first.
std::string format_table(std::span<const Figures> rows);

}  // namespace salus::sim
