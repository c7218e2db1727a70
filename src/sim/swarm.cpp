#include "sim/swarm.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "policies/table.h"
#include "sim/checkers.h"

namespace salus::sim {
namespace {

/// Claims that nobody starves, and lets whoever came first run to its end.
class Starver final : public Policy {
public:
    Starver()
        : Policy({.name = "starver",
                  .good_for = "the tests",
                  .bad_at = "everything",
                  .time_sliced = true,
                  .starvation_free = true}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {0, static_cast<double>(client.sequence)};
    }
};

/// Now and then chooses a client that is not among the candidates.
class Dreamer final : public Policy {
public:
    Dreamer() : Policy({.name = "dreamer", .good_for = "the tests", .bad_at = "everything"}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {0, static_cast<double>(client.sequence)};
    }
    ClientId choose(Candidates candidates, const Situation& now) const override {
        return now.now.ns % 7 == 0 ? ClientId(index_of(candidates.front()->id) + 1000) : candidates.front()->id;
    }
};

/// Ranks a client that has run for a while as no number at all.
class Divider final : public Policy {
public:
    Divider() : Policy({.name = "divider", .good_for = "the tests", .bad_at = "everything", .time_sliced = true}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {0, client.iterations_done > 3 ? std::numeric_limits<double>::quiet_NaN() : client.attained.seconds()};
    }
};

const Policy& draw_policy(Random& random) {
    const auto policies = all_policies();
    return *policies[random.below(policies.size())];
}

Job draw_job(Random& random, Bytes capacity, std::size_t index) {
    Job job;
    job.name = fmt::format("{}", index);
    job.arrival = seconds_of(random.chance(0.3) ? 0.0 : random.between(0.0, 20.0));
    job.iterations = static_cast<std::uint64_t>(random.chance(0.1) ? random.integer(200, 1500) : random.integer(1, 60));
    job.iteration_time = seconds_of(random.between(0.001, 0.3));
    const double capacity_mib = capacity.mib();
    job.persistent = mebibytes_of(random.chance(0.1) ? 0.0 : random.between(1.0, capacity_mib * 0.2));
    job.ephemeral = mebibytes_of(random.chance(0.1) ? 0.0 : random.between(1.0, capacity_mib * 0.7));
    if (random.chance(0.03)) job.ephemeral = capacity;  // can never fit
    job.priority = static_cast<int>(random.integer(-1, 2));
    job.weight = random.chance(0.5) ? 1.0 : random.between(0.5, 4.0);
    job.user = UserId(random.chance(0.8) ? 0 : random.below(3));
    if (random.chance(0.4)) job.think = seconds_of(random.between(0.0001, 0.5));
    job.random_think = random.chance(0.5);
    job.startup = seconds_of(random.chance(0.5) ? 0.0 : random.between(0.0, 3.0));
    job.occupancy = random.chance(0.5) ? 1.0 : random.between(0.1, 1.0);
    job.pageable = random.chance(0.85);
    job.states_length = random.chance(0.7);
    if (random.chance(0.3)) job.stated_share = random.between(0.5, 1.2);
    for (std::uint64_t from = random.below(30); random.chance(0.25) && from < job.iterations; from += 1 + random.below(20)) {
        const Growth& before = job.growth.empty() ? Growth{0, job.persistent, job.ephemeral} : job.growth.back();
        const auto more = [&](Bytes bytes) {
            return Bytes{static_cast<std::int64_t>(static_cast<double>(bytes.count) * random.between(1.0, 1.6))};
        };
        job.growth.push_back({from, random.chance(0.5) ? more(before.persistent) : before.persistent, more(before.ephemeral),
                              random.chance(0.5)});
    }
    return job;
}

void draw_disturbances(Random& random, Scenario& scenario) {
    const std::size_t clients = scenario.jobs.size();
    const std::uint64_t horizon = 20 + random.below(clients * 120);
    const auto somewhere = [&] { return random.below(horizon); };
    auto& list = scenario.options.disturbances;
    using Kind = Disturbance::Kind;
    for (std::uint64_t n = random.below(4); n > 0; --n)
        list.push_back({somewhere(), Kind::kKill, ClientId(random.below(clients)), nullptr, {}});
    for (std::uint64_t n = random.below(4); n > 0; --n) {
        const ClientId client{static_cast<std::uint32_t>(random.below(clients))};
        const std::uint64_t at = somewhere();
        list.push_back({at, Kind::kStop, client, nullptr, {}});
        list.push_back({at + 1 + random.below(80), Kind::kContinue, client, nullptr, {}});
    }
    for (std::uint64_t n = random.below(4); n > 0; --n)
        list.push_back({somewhere(), Kind::kPolicy, kNoClient, &draw_policy(random), {}});
    if (random.chance(0.25)) {
        const Bytes capacity = scenario.options.engine.capacity;
        const std::uint64_t at = somewhere();
        const Bytes less{static_cast<std::int64_t>(static_cast<double>(capacity.count) * random.between(0.5, 1.0))};
        list.push_back({at, Kind::kCapacity, kNoClient, nullptr, less});
        list.push_back({at + 1 + random.below(200), Kind::kCapacity, kNoClient, nullptr, capacity});
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
}

}  // namespace

std::span<const Policy* const> all_canaries() {
    static const Starver starver;
    static const Dreamer dreamer;
    static const Divider divider;
    static const std::array<const Policy*, 3> canaries{&starver, &dreamer, &divider};
    return canaries;
}

Scenario draw_scenario(std::uint64_t seed) {
    Random random(seed * 0x2545f4914f6cdd1dull + 1);
    Scenario scenario;
    SimulationOptions& options = scenario.options;
    options.seed = seed;
    options.events_max = 300'000;
    options.profiles_known = random.chance(0.4);
    options.engine.strict = true;
    options.engine.capacity = gibibytes(random.integer(2, 16));
    options.engine.lanes_max = random.chance(0.5) ? 0 : static_cast<unsigned>(random.integer(1, 3));
    options.engine.paging = random.chance(0.75);
    constexpr std::array<Duration, 4> kMinTurns{Duration{}, milliseconds(1), microseconds(14500), milliseconds(100)};
    options.engine.min_turn = kMinTurns[random.below(kMinTurns.size())];
    options.engine.page_bytes_per_s = random.chance(0.5) ? 12e9 : 55e9;
    options.engine.reserve_after = seconds_of(random.between(1.0, 60.0));
    options.engine.rehome_after = seconds_of(random.between(0.1, 5.0));
    constexpr std::array<Duration, 3> kDelays{Duration{}, milliseconds(5), milliseconds(200)};
    options.answer_delay_max = kDelays[random.below(kDelays.size())];
    const std::size_t count = 1 + random.below(12);
    for (std::size_t i = 0; i < count; ++i) scenario.jobs.push_back(draw_job(random, options.engine.capacity, i));
    if (random.chance(0.5)) {
        for (Job& job : scenario.jobs) job.pageable = true;
    }
    if (random.chance(0.8)) draw_disturbances(random, scenario);
    scenario.policy = &draw_policy(random);
    options.announces = true;
    if (random.chance(0.5)) options.engine.context = mebibytes_of(random.between(1.0, options.engine.capacity.mib() * 0.3));
    return scenario;
}

SwarmResult run_seed(std::uint64_t seed, const Policy* canary, Observer* observer, bool strict) {
    Scenario scenario = draw_scenario(seed);
    scenario.options.engine.strict = strict;
    if (canary) {
        scenario.policy = canary;
        std::erase_if(scenario.options.disturbances,
                      [](const Disturbance& d) { return d.kind == Disturbance::Kind::kPolicy; });
    }
    SwarmResult result;
    Simulation simulation(scenario.options, scenario.jobs, *scenario.policy, fallback_policy());
    Checkers checkers;
    if (observer) simulation.observe(*observer);
    simulation.observe(checkers);
    try {
        result.run = simulation.run();
        Checkers::check_end(simulation, result.run);
    } catch (const CheckFailure& failure) {
        result.failure =
            fmt::format("{} (policy {}, at {:.6f} s of virtual time)", failure.what(),
                        simulation.engine().policy().info.name, static_cast<double>(simulation.now().ns) * 1e-9);
    }
    return result;
}

}  // namespace salus::sim
