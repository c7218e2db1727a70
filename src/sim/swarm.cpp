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

/// Claims that nobody starves, but lets the first client run to its end.
class Starver final : public Policy {
public:
    Starver()
        : Policy({.name = "starver",
                  .good_for = "the tests",
                  .bad_at = "everything",
                  .time_sliced = true,
                  .starvation_free = true}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.order = static_cast<double>(client.sequence)};
    }
};

/// Now and then chooses a client that is not among the candidates.
class Dreamer final : public Policy {
public:
    Dreamer() : Policy({.name = "dreamer", .good_for = "the tests", .bad_at = "everything"}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.order = static_cast<double>(client.sequence)};
    }
    ClientId choose(Candidates candidates, const Situation& now) const override {
        return now.now.ns % 7 == 0 ? ClientId(index_of(candidates.front()->id) + 1000) : candidates.front()->id;
    }
};

/// Ranks a client that has run for a while as NaN.
class Divider final : public Policy {
public:
    Divider() : Policy({.name = "divider", .good_for = "the tests", .bad_at = "everything", .time_sliced = true}) {}
    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.order = client.iterations_done > 3 ? std::numeric_limits<double>::quiet_NaN() : client.attained.seconds()};
    }
};

const Policy& draw_policy(Random& random) {
    const auto policies = all_policies();
    return *policies[random.below(policies.size())];
}

SimulatedJob draw_job(Random& random, Bytes capacity, std::size_t index) {
    SimulatedJob job;
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
    job.interactive = random.chance(0.25);
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

/// Processes have contexts, large or small, as on a GPU. None knows its P and T when it arrives: of two clients that do know
/// them, neither may fit beside the other's context.
void draw_contexts(Random& random, Scenario& scenario) {
    scenario.options.profiles_known = false;
    for (SimulatedJob& job : scenario.jobs) {
        job.context = mebibytes_of(scenario.options.engine.context.mib() * random.between(0.1, 1.2));
        job.pageable = false;
    }
}

/// Clients on a GPU can be paged out, too, and there a part of P stays. Draws from its own source, so that the rest of a
/// scenario does not depend on it.
void draw_rests(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0xd6e8feb86659fd93ull + 7);
    const bool all = random.chance(0.5);
    if (random.chance(0.4)) return;
    if (random.chance(0.5)) scenario.options.page_speed = random.between(0.3, 3.0);
    for (SimulatedJob& job : scenario.jobs) {
        if (job.context > Bytes{}) job.pageable = all || random.chance(0.8);
        if (random.chance(0.5)) job.fixed = mebibytes_of(job.persistent.mib() * random.between(0.0, 1.2));
    }
}

void take_t_away(SimulatedJob& job) {
    job.ephemeral = {};
    for (Growth& growth : job.growth) growth.ephemeral = {};
}

/// Some of the clients of a user belong to one crew, from the start or later. Draws from its own source, so that the rest of
/// a scenario does not depend on it.
void draw_crew(std::uint64_t seed, std::uint32_t crew, Scenario& scenario) {
    Random random(seed * 0x9e3779b97f4a7c15ull + crew);
    if (random.chance(0.7)) return;
    const UserId user = scenario.jobs[random.below(scenario.jobs.size())].user;
    std::vector<Disturbance>& disturbances = scenario.options.disturbances;
    for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
        SimulatedJob& job = scenario.jobs[i];
        if (job.user != user || job.crew != 0 || random.chance(0.5)) continue;
        job.crew = crew;
        take_t_away(job);
        job.joins_late = random.chance(0.3);
        if (!job.joins_late) continue;
        const std::uint64_t at = random.below(20 + scenario.jobs.size() * 60);
        disturbances.push_back({.at_event = at, .kind = Disturbance::Kind::kCrew, .client = ClientId(i)});
    }
    std::stable_sort(disturbances.begin(), disturbances.end(),
                     [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
}

/// An administrator changes limits while jobs run. Draws from its own source, as above.
void draw_limits(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0xd1342543de82ef95ull + 1);
    if (random.chance(0.7)) return;
    std::vector<Disturbance>& disturbances = scenario.options.disturbances;
    Disturbance change{.at_event = random.below(20 + scenario.jobs.size() * 60), .kind = Disturbance::Kind::kLimits};
    change.lanes_max = static_cast<unsigned>(random.below(4));
    change.paging = random.chance(0.75);
    change.time = seconds_of(random.between(0.1, 5.0));
    disturbances.push_back(change);
    std::stable_sort(disturbances.begin(), disturbances.end(),
                     [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
}

/// Time is shared by user, or a user has limits. From its own source, too.
void draw_users(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0x9e3779b97f4a7c15ull + 0x5851f42d);
    EngineOptions& engine = scenario.options.engine;
    engine.share_by_user = random.chance(0.4);
    if (random.chance(0.2)) engine.user_jobs_max = 1 + static_cast<unsigned>(random.below(3));
    if (random.chance(0.2)) engine.user_memory_max = mebibytes_of(engine.capacity.mib() * random.between(0.3, 0.9));
}

/// Who runs at once is measured; then some jobs are small, and go on for long enough. From its own source, too.
void draw_overlap(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0x94d049bb133111ebull + 5);
    if (random.chance(0.7)) return;
    scenario.options.engine.overlap = true;
    for (SimulatedJob& job : scenario.jobs) {
        if (job.interactive || random.chance(0.5)) continue;
        job.iterations = 500 + random.below(2000);
        job.iteration_time = seconds_of(random.between(0.002, 0.02));
        job.ephemeral = {job.ephemeral.count / 8};
        for (Growth& growth : job.growth) growth.ephemeral = {growth.ephemeral.count / 8};
        if (random.chance(0.5)) job.occupancy = random.between(0.1, 0.5);
        if (random.chance(0.5)) job.think = {};
        if (job.crew != 0 || random.chance(0.8)) continue;
        job.launches = 1 + random.below(50);
        take_t_away(job);
    }
    if (random.chance(0.5)) return;
    for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (random.chance(0.4)) scenario.options.recalled.push_back({ClientId(j), ClientId(i), random.between(0.5, 3)});
        }
    }
}

/// An administrator changes the limits of users while their jobs run. From its own source, too.
void draw_user_limits(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0xbf58476d1ce4e5b9ull + 3);
    std::vector<ClientId> limited;  // root has no limits
    for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
        if (scenario.jobs[i].user != kRoot) limited.push_back(ClientId(i));
    }
    if (limited.empty() || random.chance(0.5)) return;
    std::vector<Disturbance>& disturbances = scenario.options.disturbances;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
        Disturbance change{.at_event = random.below(20 + scenario.jobs.size() * 60), .kind = Disturbance::Kind::kUserLimits};
        change.client = limited[random.below(limited.size())];
        change.jobs_max = static_cast<unsigned>(random.below(4));
        if (random.chance(0.6))
            change.capacity = mebibytes_of(scenario.options.engine.capacity.mib() * random.between(0.2, 1.0));
        disturbances.push_back(change);
    }
    std::stable_sort(disturbances.begin(), disturbances.end(),
                     [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
}

/// Users suspend jobs and page out what idles. From its own source, too.
void draw_suspensions(std::uint64_t seed, Scenario& scenario) {
    Random random(seed * 0xa0761d6478bd642full + 9);
    if (random.chance(0.6)) return;
    using Kind = Disturbance::Kind;
    std::vector<Disturbance>& disturbances = scenario.options.disturbances;
    const std::uint64_t horizon = 20 + scenario.jobs.size() * 60;
    const auto somebody = [&] { return ClientId(random.below(scenario.jobs.size())); };
    for (SimulatedJob& job : scenario.jobs) job.pages_idle = random.chance(0.5);
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
        const ClientId client = somebody();
        const std::uint64_t at = random.below(horizon);
        disturbances.push_back({.at_event = at, .kind = Kind::kSuspend, .client = client});
        disturbances.push_back({.at_event = at + 1 + random.below(200), .kind = Kind::kBringBack, .client = client});
    }
    for (std::uint64_t n = random.below(4); n > 0; --n)
        disturbances.push_back({.at_event = random.below(horizon), .kind = Kind::kPageIdle, .client = somebody()});
    if (random.chance(0.3)) {
        const Duration after = seconds_of(random.between(0.05, 5.0));
        scenario.options.engine.page_idle_after = after;
        for (Disturbance& d : disturbances) {
            if (d.kind == Kind::kLimits && random.chance(0.7)) d.page_idle_after = after;
        }
    }
    std::stable_sort(disturbances.begin(), disturbances.end(),
                     [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
}

/// Draws the disturbances and their times.
class DisturbanceDrawer {
public:
    DisturbanceDrawer(Random& random, Scenario& scenario)
        : random_(random), scenario_(scenario), horizon_(20 + random.below(scenario.jobs.size() * 120)) {}

    void draw() {
        using Kind = Disturbance::Kind;
        for (std::uint64_t n = random_.below(4); n > 0; --n) add({.kind = Kind::kKill, .client = somebody()});
        for (std::uint64_t n = random_.below(4); n > 0; --n) add_for_a_while(Kind::kStop, Kind::kContinue, 80, somebody());
        for (std::uint64_t n = random_.below(3); n > 0; --n) add_for_a_while(Kind::kPause, Kind::kResume, 80, somebody());
        for (std::uint64_t n = random_.below(4); n > 0; --n) add({.kind = Kind::kPolicy, .policy = &draw_policy(random_)});
        for (std::uint64_t n = random_.below(3); n > 0; --n) {
            add({.kind = Kind::kAdjust,
                 .client = somebody(),
                 .priority = static_cast<int>(random_.integer(-1, 2)),
                 .weight = random_.between(0.5, 4.0)});
        }
        for (std::uint64_t n = random_.below(3); n > 0; --n) add({.kind = Kind::kKillRunner, .client = somebody()});
        for (std::uint64_t n = contexts() ? random_.below(3) : 0; n > 0; --n) {
            add({.kind = Kind::kContext, .client = somebody(), .capacity = mebibytes(random_.integer(1, 64))});
        }
        if (random_.chance(0.2)) add({.kind = Kind::kNeverPage, .client = somebody()});
        for (std::uint64_t n = random_.below(4); n > 0; --n) add({.kind = Kind::kClass, .client = somebody()});
        for (std::uint64_t n = scenario_.options.min_turn_is_fixed ? 0 : random_.below(6); n > 0; --n) {
            add({.kind = Kind::kTurnCost, .client = somebody(), .time = seconds_of(random_.between(0.00001, 0.002))});
        }
        if (random_.chance(0.25)) draw_capacity();
        if (random_.chance(0.1)) add_for_a_while(Kind::kNoLaneMemory, Kind::kLaneMemory, 40, kNoClient);
        for (std::uint64_t n = random_.chance(0.2) ? 1 + random_.below(2) : 0; n > 0; --n) {
            add({.kind = Kind::kServiceDies, .time = seconds_of(random_.between(0.0, 2.0))});
        }
        std::stable_sort(list().begin(), list().end(),
                         [](const Disturbance& a, const Disturbance& b) { return a.at_event < b.at_event; });
    }

private:
    std::vector<Disturbance>& list() { return scenario_.options.disturbances; }
    bool contexts() const { return scenario_.jobs.front().context > Bytes{}; }
    ClientId somebody() { return ClientId(random_.below(scenario_.jobs.size())); }
    std::uint64_t somewhen() { return random_.below(horizon_); }

    void add(Disturbance disturbance) {
        disturbance.at_event = somewhen();
        list().push_back(disturbance);
    }
    void add_for_a_while(Disturbance::Kind begins, Disturbance::Kind ends, std::uint64_t events_most, ClientId client) {
        const std::uint64_t at = somewhen();
        list().push_back({.at_event = at, .kind = begins, .client = client});
        list().push_back({.at_event = at + 1 + random_.below(events_most), .kind = ends, .client = client});
    }
    void draw_capacity() {
        const Bytes all = scenario_.options.engine.capacity;
        const std::uint64_t at = somewhen();
        const Bytes less{static_cast<std::int64_t>(static_cast<double>(all.count) * random_.between(0.5, 1.0))};
        using Kind = Disturbance::Kind;
        list().push_back({.at_event = at, .kind = Kind::kCapacity, .capacity = less});
        list().push_back({.at_event = at + 1 + random_.below(200), .kind = Kind::kCapacity, .capacity = all});
    }

    Random& random_;
    Scenario& scenario_;
    const std::uint64_t horizon_;
};

}  // namespace

std::span<const Canary> all_canaries() {
    static const Starver starver;
    static const Dreamer dreamer;
    static const Divider divider;
    static const std::array canaries{Canary{starver.info.name, &starver},
                                     Canary{dreamer.info.name, &dreamer},
                                     Canary{divider.info.name, &divider},
                                     Canary{"loses-acknowledge", nullptr, Fault::kLosesAcknowledge},
                                     Canary{"acknowledges-early", nullptr, Fault::kAcknowledgesEarly},
                                     Canary{"loses-paged-in", nullptr, Fault::kLosesPagedIn},
                                     Canary{"forgets-rest", nullptr, Fault::kForgetsRest},
                                     Canary{"loses-notice", nullptr, Fault::kLosesNotice},
                                     Canary{"loses-wake", nullptr, Fault::kLosesWake},
                                     Canary{"keeps-grant", nullptr, Fault::kKeepsGrant},
                                     Canary{"grants-twice", nullptr, Fault::kGrantsTwice},
                                     Canary{"counts-twice", nullptr, Fault::kCountsTwice},
                                     Canary{"forgets-memory", nullptr, Fault::kForgetsMemory},
                                     Canary{"forgets-wish", nullptr, Fault::kForgetsWish},
                                     Canary{"forgets-class", nullptr, Fault::kForgetsClass},
                                     Canary{"stays-beside", nullptr, Fault::kStaysBeside},
                                     Canary{"keeps-gate-closed", nullptr, Fault::kKeepsGateClosed},
                                     Canary{"closes-every-gate", nullptr, Fault::kClosesEveryGate},
                                     Canary{"forgets-budget", nullptr, Fault::kForgetsBudget},
                                     Canary{"loses-answer", nullptr, Fault::kLosesAnswer},
                                     Canary{"forgets-users", nullptr, Fault::kForgetsUsers},
                                     Canary{"forgets-suspension", nullptr, Fault::kForgetsSuspension},
                                     Canary{"keeps-suspended", nullptr, Fault::kKeepsSuspended},
                                     Canary{"starts-held", nullptr, Fault::kStartsHeld},
                                     Canary{"forgets-crew", nullptr, Fault::kForgetsCrew},
                                     Canary{"decides-by-noise", nullptr, Fault::kDecidesByNoise},
                                     Canary{"mixes-crews", nullptr, Fault::kMixesCrews}};
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
        for (SimulatedJob& job : scenario.jobs) job.pageable = true;
    }
    options.asynchronous = random.chance(0.5);
    constexpr std::array<Duration, 3> kNoticeDelays{Duration{}, microseconds(50), milliseconds(2)};
    options.notice_delay_max = kNoticeDelays[random.below(kNoticeDelays.size())];
    options.min_turn_is_fixed = random.chance(0.8);
    options.announces = true;
    if (random.chance(0.5)) options.engine.context = mebibytes_of(random.between(1.0, options.engine.capacity.mib() * 0.3));
    options.tells_usage = !options.min_turn_is_fixed || (options.asynchronous && options.engine.context > Bytes{});
    if (options.tells_usage && options.engine.context > Bytes{}) draw_contexts(random, scenario);
    if (random.chance(0.2)) options.unclean_share = random.between(0.0, 0.3);
    if (random.chance(0.1)) options.page_failure_share = random.between(0.0, 0.5);
    if (random.chance(0.8)) DisturbanceDrawer(random, scenario).draw();
    scenario.policy = &draw_policy(random);
    for (const std::uint32_t crew : {1u, 2u}) draw_crew(seed, crew, scenario);
    draw_limits(seed, scenario);
    draw_users(seed, scenario);
    draw_user_limits(seed, scenario);
    draw_overlap(seed, scenario);
    draw_rests(seed, scenario);
    draw_suspensions(seed, scenario);
    return scenario;
}

SwarmResult run_seed(std::uint64_t seed, const Canary* canary, Observer* observer, bool strict) {
    Scenario scenario = draw_scenario(seed);
    scenario.options.engine.strict = strict;
    if (canary) scenario.options.fault = canary->fault;
    if (canary && canary->policy) {
        scenario.policy = canary->policy;
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
            fmt::format("{} (at {:.6f} s of virtual time)", failure.what(), static_cast<double>(simulation.now().ns) * 1e-9);
    }
    return result;
}

}  // namespace salus::sim
