// Built-in workloads. docs/simulator.md says where their figures come from, and what we assume.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/simulated_job.h"

namespace salus::sim {

struct WorkloadInfo {
    std::string_view name;
    std::string_view what;
    std::size_t jobs_default;
    std::vector<SimulatedJob> (*make)(std::size_t jobs, std::uint64_t seed);
};

std::span<const WorkloadInfo> all_workloads();

/// `spec` is "NAME" or "NAME:N"; N is the number of jobs.
Result<std::vector<SimulatedJob>> make_workload(std::string_view spec, std::uint64_t seed);

}  // namespace salus::sim
