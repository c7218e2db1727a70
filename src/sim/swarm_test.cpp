#include "sim/swarm.h"

#include <array>
#include <set>
#include <variant>

#include <gtest/gtest.h>

#include "base/check.h"
#include "policies/table.h"
#include "sim/trace_recorder.h"

namespace salus::sim {
namespace {

class Swarm : public testing::Test {
protected:
    void SetUp() override { old_ = set_check_handler(throw_check_failure); }
    void TearDown() override { set_check_handler(old_); }

private:
    CheckHandler old_ = nullptr;
};

/// Counts what becomes of announced jobs.
struct StartCounter : Observer {
    void after_event(const Event& event, Instant, std::span<const Action> actions, const Simulation&) override {
        const auto* announce = std::get_if<event::Announce>(&event);
        const auto* withdraw = std::get_if<event::Withdraw>(&event);
        if (announce && !announce->runs) waiting.insert(announce->job);
        if (const auto* attach = std::get_if<event::Attach>(&event)) waiting.erase(attach->job);
        for (const Action& action : actions) {
            const auto* start = std::get_if<action::Start>(&action);
            if (!start) continue;
            waiting.erase(start->job);
            ++(announce ? at_once : later);
        }
        if (announce && announce->waited) ++waited_across_restart;
        if (announce && announce->runs) ++ran_across_restart;
        if (withdraw) ++withdrawn;
        if (withdraw && waiting.erase(withdraw->job) > 0) ++withdrawn_waiting;
    }
    std::set<JobId> waiting;
    std::uint64_t at_once = 0, later = 0, withdrawn = 0, withdrawn_waiting = 0;
    std::uint64_t waited_across_restart = 0, ran_across_restart = 0;
};

TEST_F(Swarm, PassesSeedsThatFailedOnce) {
    for (const std::uint64_t seed : {36708u, 39428u, 353605u, 371048u, 510126u, 556574u, 579327u, 598122u, 828612u, 843986u,
                                     879436u, 969067u, 2134881u, 2238454u, 3037904u, 3047019u, 3048823u, 7020888u}) {
        const SwarmResult result = run_seed(seed);
        EXPECT_FALSE(result.failure) << "seed " << seed << ": " << *result.failure;
    }
}

TEST_F(Swarm, PassesAndExercisesWhatItIsFor) {
    StartCounter starts;
    Statistics sum;
    std::uint64_t killed = 0, denied = 0, refused = 0;
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
        starts.waiting.clear();
        const SwarmResult result = run_seed(seed, nullptr, &starts);
        ASSERT_FALSE(result.failure) << "seed " << seed << ": " << *result.failure;
        const Statistics& s = result.run.statistics;
        sum.page_outs += s.page_outs;
        sum.page_ins += s.page_ins;
        sum.profiling_turns += s.profiling_turns;
        sum.reservations += s.reservations;
        sum.rehomings += s.rehomings;
        sum.revokes += s.revokes;
        sum.lane_resizes += s.lane_resizes;
        sum.gate_closings += s.gate_closings;
        for (const JobResult& job : result.run.jobs) {
            killed += job.outcome == Outcome::kKilled ? 1u : 0u;
            denied += job.outcome == Outcome::kDenied ? 1u : 0u;
            refused += job.outcome == Outcome::kRefused ? 1u : 0u;
        }
    }
    // A swarm in which these no longer happen proves nothing.
    EXPECT_GT(sum.page_outs, 1000u);
    EXPECT_GT(sum.page_ins, 1000u);
    EXPECT_GT(sum.profiling_turns, 1000u);
    EXPECT_GT(sum.reservations, 100u);
    EXPECT_GT(sum.rehomings, 10u);
    EXPECT_GT(sum.revokes, 1000u);
    EXPECT_GT(sum.lane_resizes, 1000u);
    EXPECT_GT(sum.gate_closings, 1000u);
    EXPECT_GT(killed, 100u);
    EXPECT_GT(denied, 100u);
    EXPECT_GT(refused, 10u);
    EXPECT_GT(starts.at_once, 1000u);
    EXPECT_GT(starts.later, 1000u);
    EXPECT_GT(starts.withdrawn, 1000u);
    EXPECT_GT(starts.withdrawn_waiting, 100u);
    EXPECT_GT(starts.waited_across_restart, 100u);
    EXPECT_GT(starts.ran_across_restart, 100u);
}

/// Counts events by their kind.
class EventKinds : public Observer {
public:
    void after_event(const Event& event, Instant, std::span<const Action>, const Simulation&) override {
        ++seen[event.index()];
    }
    std::array<std::uint64_t, std::variant_size_v<Event>> seen{};
};

TEST_F(Swarm, DrawsEveryKindOfEvent) {
    EventKinds kinds;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) static_cast<void>(run_seed(seed, nullptr, &kinds));
    for (std::size_t kind = 0; kind < kinds.seen.size(); ++kind) {
        EXPECT_GT(kinds.seen[kind], 0u) << "the alternative of Event with index " << kind << " is never drawn";
    }
}

/// Counts how members of crews come into a turn.
struct CrewCounter : Observer {
    void after_event(const Event&, Instant, std::span<const Action> actions, const Simulation& s) override {
        for (const Action& action : actions) {
            const auto* grant = std::get_if<action::Grant>(&action);
            const Client* client = grant ? s.engine().find(grant->client) : nullptr;
            if (!client || !client->accompanies) continue;
            ++(client->let_in_until == kNever ? at_once : let_in);
            if (client->lane == kNoLane) ++without_lane;
        }
    }
    std::uint64_t at_once = 0, let_in = 0, without_lane = 0;
};

TEST_F(Swarm, CrewsRunTogether) {
    CrewCounter crews;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) static_cast<void>(run_seed(seed, nullptr, &crews));
    EXPECT_GT(crews.at_once, 1800u);
    EXPECT_GT(crews.let_in, 180u);
    EXPECT_GT(crews.without_lane, 0u);
}

/// Counts what becomes of trials.
struct OverlapCounter : Observer {
    void after_event(const Event&, Instant, std::span<const Action>, const Simulation& s) override {
        const Overlap& overlap = s.engine().overlap();
        const std::size_t now = overlap.companies().size();
        if (now > companies) formed += now - companies;
        if (now < companies) ended += companies - now;
        companies = now;
        if (overlap.trials() > seen) trials += overlap.trials() - seen;
        seen = overlap.trials();
    }
    std::uint64_t trials = 0, formed = 0, ended = 0;
    std::uint64_t seen = 0;
    std::size_t companies = 0;
};

TEST_F(Swarm, ClientsRunAtOnceByMeasurement) {
    OverlapCounter overlap;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) static_cast<void>(run_seed(seed, nullptr, &overlap));
    EXPECT_GT(overlap.trials, 500u);
    EXPECT_GT(overlap.formed, 20u);
    EXPECT_GT(overlap.ended, 20u);
}

/// Counts whose memory goes by request, and what becomes of it.
struct OutByRequest : Observer {
    void after_event(const Event& event, Instant, std::span<const Action> actions, const Simulation& s) override {
        if (const auto* resume = std::get_if<event::Resume>(&event)) resumed += s.engine().find(resume->client) ? 1u : 0u;
        for (const Action& action : actions) {
            const auto* out = std::get_if<action::PageOut>(&action);
            const Client* client = out ? s.engine().find(out->client) : nullptr;
            if (!client) continue;
            if (client->suspended) ++suspended;
            else if (client->goes_when_idle) ++(std::holds_alternative<event::PageIdle>(event) ? idle : idle_later);
        }
        for (const Client* client : s.engine().clients()) {
            if (client->goes_when_idle && client->residency() == Residency::kPaged) ++idle_out;
        }
    }
    std::uint64_t suspended = 0, resumed = 0, idle = 0, idle_later = 0, idle_out = 0;
};

TEST_F(Swarm, MemoryGoesByRequest) {
    OutByRequest out;
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) static_cast<void>(run_seed(seed, nullptr, &out));
    EXPECT_GT(out.suspended, 100u);
    EXPECT_GT(out.resumed, 100u);
    EXPECT_GT(out.idle, 10u);
    EXPECT_GT(out.idle_later, 10u);
    EXPECT_GT(out.idle_out, 10u);
}

TEST_F(Swarm, EveryCanaryIsCaught) {
    ASSERT_EQ(all_canaries().size(), 27u) << "three policies, eleven faults of shell and protocol, 13 of the engine";
    constexpr std::uint64_t kSeeds = 20'000;
    for (const Canary& canary : all_canaries()) {
        std::uint64_t seed = 1;
        while (seed <= kSeeds && !run_seed(seed, &canary).failure) ++seed;
        EXPECT_LE(seed, kSeeds) << canary.name;
    }
}

TEST_F(Swarm, FallsBackFromAPolicyThatMisbehavesAndGoesOn) {
    for (const Canary& canary : all_canaries()) {
        if (!canary.policy || canary.policy->info.starvation_free)
            continue;  // it breaks its promise, but no rule that the engine checks
        std::uint64_t fallbacks = 0;
        for (std::uint64_t seed = 1; seed <= 300; ++seed) {
            const SwarmResult result = run_seed(seed, &canary, nullptr, /*strict=*/false);
            ASSERT_FALSE(result.failure) << canary.name << ", seed " << seed << ": " << *result.failure;
            fallbacks += result.run.statistics.fallbacks;
        }
        EXPECT_GT(fallbacks, 100u) << canary.name;
    }
}

TEST_F(Swarm, ASeedIsOneRun) {
    for (std::uint64_t seed : {5u, 36u, 77u}) {
        TraceRecorder first, second;
        static_cast<void>(run_seed(seed, nullptr, &first));
        static_cast<void>(run_seed(seed, nullptr, &second));
        EXPECT_EQ(first.text(), second.text());
        const Result<Replay> replay = replay_trace(first.text(), find_policy, fallback_policy());
        ASSERT_TRUE(replay.ok()) << replay.error();
        EXPECT_EQ(replay.value().difference, "");
    }
}

}  // namespace
}  // namespace salus::sim
