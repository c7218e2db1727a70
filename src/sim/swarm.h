// The swarm: random systems with random faults, one per seed, with the checkers on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/policy.h"
#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::sim {

/// Everything that a seed determines.
struct Scenario {
    std::vector<SimulatedJob> jobs;
    SimulationOptions options;
    const Policy* policy = nullptr;
};

Scenario draw_scenario(std::uint64_t seed);

/// Something deliberately broken: a policy, or a part of the protocol. The swarm must catch each of them.
struct Canary {
    std::string_view name;
    const Policy* policy = nullptr;
    Fault fault = Fault::kNone;
};
std::span<const Canary> all_canaries();

struct SwarmResult {
    std::optional<std::string> failure;
    SimulationResult run;
};

/// Runs one seed. If the canary is a policy, the whole run uses it. The first failed check ends the run. If not `strict`, a
/// misbehaving policy is not a failed check: the engine falls back. REQUIRES: the check handler is throw_check_failure.
SwarmResult run_seed(std::uint64_t seed, const Canary* canary = nullptr, Observer* observer = nullptr, bool strict = true);

}  // namespace salus::sim
