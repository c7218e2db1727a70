// Turns: who runs, for how long, and what it is charged. Memory is in admission_test.cpp.
#include "core/engine.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine_fixture.h"
#include "policies/table.h"

namespace salus {
namespace {

constexpr Duration kMinTurn = milliseconds(10);

EngineOptions small_device() {
    EngineOptions options;
    options.capacity = mebibytes(1000);
    options.min_turn = kMinTurn;
    return options;
}

EngineOptions with_lanes_max(unsigned lanes_max) {
    EngineOptions options = small_device();
    options.lanes_max = lanes_max;
    return options;
}

struct Rig : Driver {
    explicit Rig(std::string_view policy, const EngineOptions& options = small_device())
        : Driver(options, *find_policy(policy), fallback_policy()) {}

    /// With what of its present turn is not charged yet.
    Duration attained(ClientId id) const {
        const Client& client = at(id);
        return client.facts.attained + (runs(id) ? now - client.charged_until : Duration{});
    }
    void play_until_runs(ClientId id) {
        for (int i = 0; i < 100 && !runs(id); ++i) play(milliseconds(5));
        ASSERT_TRUE(runs(id));
    }
    double virtual_time_s(ClientId id) const { return at(id).facts.virtual_time_s; }
};

using EngineTest = CheckedTest;

constexpr std::string_view kTimeSliced[] = {"fair", "las", "rr", "priority"};

// ------------------------------------------------------------------------------------------ grants, yields, boundaries

TEST_F(EngineTest, WhoeverWantsToRunIsAdmittedAndGrantedALaneOnceItIsMapped) {
    Rig rig("fair");
    rig.answers_mappings = false;
    const ClientId a = rig.attach();
    EXPECT_EQ(rig.memory() + rig.turns(), "") << "it has not said that it wants to run";
    rig.want(a);
    EXPECT_EQ(rig.memory(), "admit A; map A 0:100");
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.why(a), "mapping");
    rig.answer();
    EXPECT_EQ(rig.turns(), "grant A 0");
    EXPECT_EQ(rig.why(a), "nothing");
    EXPECT_EQ(rig.at(a).turn, Turn::kRunning);
}

TEST_F(EngineTest, AtItsBoundaryTheHolderMakesWayForWhoeverIsBehind) {
    for (const std::string_view policy : kTimeSliced) {
        SCOPED_TRACE(policy);
        Rig rig(policy);
        const ClientId a = rig.enter();
        const ClientId b = rig.enter();
        EXPECT_EQ(rig.turns(), "") << "the lane is in use";
        rig.pass(kMinTurn);
        EXPECT_EQ(rig.turns(), "yield A");
        EXPECT_EQ(rig.why(b), "turn behind A") << "it has not come to its boundary yet";
        rig.boundary(a);
        EXPECT_EQ(rig.turns(), "grant B 0");
        EXPECT_EQ(rig.why(a), "turn behind B");
    }
}

TEST_F(EngineTest, AHolderThatNobodyWaitsForIsNeverAskedToYield) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    EXPECT_EQ(rig.engine.deadline(), kNever);
    rig.pass(minutes(10));
    EXPECT_EQ(rig.turns(), "");
    rig.boundary(a, 1000);
    EXPECT_EQ(rig.turns(), "grant A 0") << "it wants to run on, and nobody else does";
}

TEST_F(EngineTest, TheMinimumTurnIsHonouredAndTheDeadlineNamesItsEnd) {
    for (const std::string_view policy : kTimeSliced) {
        SCOPED_TRACE(policy);
        Rig rig(policy);
        rig.enter();
        const Instant granted = rig.now;
        rig.pass(milliseconds(3));
        rig.enter();
        EXPECT_EQ(rig.turns(), "");
        EXPECT_EQ(rig.engine.deadline(), granted + kMinTurn);
        rig.send(event::Timer{});
        EXPECT_EQ(rig.turns(), "") << "a timer before its time does nothing";
        rig.pass(milliseconds(6));
        EXPECT_EQ(rig.turns(), "");
        rig.pass(milliseconds(1));
        EXPECT_EQ(rig.turns(), "yield A");
        EXPECT_EQ(rig.engine.deadline(), kNever) << "it is asked once";
    }
}

TEST_F(EngineTest, OnlyATurnOfAnotherClientCountsAsASwitch) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    rig.boundary(a);
    EXPECT_EQ(rig.engine.statistics().turns, 2u);
    EXPECT_EQ(rig.engine.statistics().switches, 1u);
    rig.enter();
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.engine.statistics().switches, 2u);
}

TEST_F(EngineTest, OnceTheMinimumTurnIsOverANewcomerIsMadeWayForAtOnce) {
    Rig rig("fair");
    rig.enter();
    rig.pass(kMinTurn * 3);
    rig.enter();
    EXPECT_EQ(rig.turns(), "yield A");
}

TEST_F(EngineTest, OnlyHigherPriorityOverridesTheMinimumTurn) {
    struct Row {
        int holder;
        int waiter;
        std::string_view turns;
        std::string_view at_the_boundary;
    };
    for (const Row& row : {Row{0, 1, "yield A", "grant B 0"}, Row{0, 0, "", "grant B 0"}, Row{1, 0, "", "grant A 0"}}) {
        SCOPED_TRACE(fmt::format("{} waits for {}", row.waiter, row.holder));
        Rig rig("priority");
        const ClientId a = rig.enter({.priority = row.holder});
        rig.pass(milliseconds(1));
        rig.enter({.priority = row.waiter});
        EXPECT_EQ(rig.turns(), row.turns);
        rig.pass(kMinTurn);
        rig.boundary(a);
        EXPECT_EQ(rig.turns(), row.at_the_boundary);
    }
}

TEST_F(EngineTest, RaisingAPriorityTakesEffectAtOnce) {
    Rig rig("priority");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    EXPECT_EQ(rig.turns(), "");
    rig.send(event::Adjust{b, 5, 1.0, 0});
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(EngineTest, TimeSlicedPoliciesTakeTurnsAndTheOthersLetTheHolderRunOn) {
    struct Row {
        std::string_view policy;
        std::size_t grants;
    };
    // 100 ms of iterations of 5 ms, at least 10 ms a turn.
    for (const Row& row : {Row{"fair", 10}, Row{"las", 10}, Row{"rr", 10}, Row{"priority", 10}, Row{"srtf", 0},
                           Row{"pack", 0}, Row{"fifo", 0}}) {
        SCOPED_TRACE(row.policy);
        Rig rig(row.policy);
        const ClientId a = rig.enter();
        rig.enter();
        rig.play(milliseconds(100));
        EXPECT_EQ(rig.count<action::Grant>(), row.grants) << rig.turns();
        EXPECT_EQ(rig.attained(a), milliseconds(row.grants > 0 ? 50 : 100));
    }
}

TEST_F(EngineTest, UnderSrtfOnlyAShorterJobPreempts) {
    struct Row {
        std::uint64_t iterations;
        std::string_view turns;
    };
    for (const Row& row : {Row{10, "yield A"}, Row{100, ""}, Row{1000, ""}}) {
        SCOPED_TRACE(row.iterations);
        Rig rig("srtf");
        rig.enter({.iterations_total = 100, .iteration_time = milliseconds(100)});
        rig.pass(milliseconds(1));
        rig.enter({.iterations_total = row.iterations, .iteration_time = milliseconds(100)});
        EXPECT_EQ(rig.turns(), "") << "not before the minimum turn";
        rig.pass(kMinTurn);
        EXPECT_EQ(rig.turns(), row.turns);
    }
}

TEST_F(EngineTest, UnderSrtfAnUnknownLengthIsTakenToBeThatOfTheJobsThatEnded) {
    for (const std::int64_t typical_s : {10, 30}) {
        SCOPED_TRACE(typical_s);
        Rig rig("srtf");
        const ClientId a = rig.enter();
        rig.pass(seconds(typical_s));
        rig.leave(a);
        rig.enter({.iterations_total = 20, .iteration_time = seconds(1)});
        rig.enter();
        rig.pass(kMinTurn);
        EXPECT_EQ(rig.turns(), typical_s < 20 ? "yield B" : "");
    }
}

TEST_F(EngineTest, UnderSrtfAnUnknownLengthDoesNotWinBecauseOthersEndedBeforeTheyRan) {
    Rig rig("srtf");
    rig.enter({.iterations_total = 10, .iteration_time = seconds(1)});
    rig.leave(rig.attach(), 0);
    rig.enter();
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "");
}

// ------------------------------------------------------------------------------------------------------ idle holders

TEST_F(EngineTest, AnIdleClientKeepsItsGrantUntilSomebodyWantsTheLane) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.idle(a);
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.at(a).turn, Turn::kHoldingIdle);
    rig.want(a);
    EXPECT_EQ(rig.turns(), "") << "it runs on without asking";
    EXPECT_EQ(rig.at(a).turn, Turn::kRunning);
    rig.idle(a);
    const ClientId b = rig.enter();
    EXPECT_EQ(rig.turns(), "revoke A") << "at once: no minimum turn for one that does not run";
    EXPECT_FALSE(rig.runs(b)) << "the work in flight of the last iteration may still use the lane";
    rig.idle(a, 0);
    EXPECT_EQ(rig.turns(), "grant B 0");
    EXPECT_EQ(rig.at(a).turn, Turn::kParked);
}

TEST_F(EngineTest, AHolderThatFallsIdleWhileOthersWaitLosesItsGrantAtOnce) {
    for (const bool asked_to_yield : {false, true}) {
        SCOPED_TRACE(asked_to_yield);
        Rig rig("fair");
        const ClientId a = rig.enter();
        rig.enter();
        if (asked_to_yield) rig.pass(kMinTurn);
        rig.idle(a);
        EXPECT_EQ(rig.turns(), asked_to_yield ? "grant B 0" : "revoke A");
    }
}

TEST_F(EngineTest, UnderFifoAnIdleHolderKeepsTheDevice) {
    Rig rig("fifo");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.idle(a);
    rig.pass(minutes(1));
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.why(b), "order");
    rig.leave(a, 0);
    EXPECT_EQ(rig.turns(), "grant B 1");
}

// -------------------------------------------------------------------------------------------------------- accounting

TEST_F(EngineTest, TimeHeldIsChargedPerTurnAndIdleTimeIsNot) {
    Rig rig("fair");
    const ClientId a = rig.enter({.weight = 2.0});
    rig.pass(milliseconds(20));
    rig.boundary(a);
    EXPECT_EQ(rig.attained(a), milliseconds(20));
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(a), 0.010);
    EXPECT_EQ(rig.at(a).facts.last_ran, rig.now);

    rig.pass(milliseconds(10));
    rig.idle(a);
    rig.pass(milliseconds(500));
    rig.want(a);
    EXPECT_EQ(rig.attained(a), milliseconds(30)) << "idle with its grant";
    EXPECT_EQ(rig.at(a).facts.idle, milliseconds(500));
    rig.pass(milliseconds(4));
    rig.boundary(a);
    EXPECT_EQ(rig.attained(a), milliseconds(34));
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(a), 0.017);

    rig.idle(a);
    rig.pass(milliseconds(500));
    rig.enter();
    rig.idle(a, 0);
    EXPECT_EQ(rig.attained(a), milliseconds(34)) << "idle until its grant was taken";
}

TEST_F(EngineTest, WaitingForATurnIsNotCharged) {
    Rig rig("fair");
    rig.enter();
    const ClientId b = rig.enter();
    rig.pass(seconds(1));
    EXPECT_EQ(rig.attained(b), Duration{});
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(b), 0);
}

TEST_F(EngineTest, TheIterationTimeIsAsStatedUntilItIsLearnedAsTheMean) {
    Rig rig("fair");
    const ClientId a = rig.enter({.iteration_time = seconds(7)});
    const auto iteration_time = [&] { return rig.at(a).facts.iteration_time; };
    EXPECT_EQ(iteration_time(), seconds(7));
    rig.pass(milliseconds(30));
    rig.boundary(a, 3);
    EXPECT_EQ(iteration_time(), milliseconds(10));
    rig.pass(milliseconds(50));
    rig.boundary(a, 1);
    EXPECT_EQ(iteration_time(), milliseconds(20));
    EXPECT_EQ(rig.at(a).facts.iterations_done, 4u);
    rig.pass(milliseconds(5));
    rig.boundary(a, 0);
    EXPECT_EQ(iteration_time(), milliseconds(20)) << "no iteration was done";
}

TEST_F(EngineTest, UnderFairTimeIsSharedInProportionToWeight) {
    Rig rig("fair");
    const ClientId a = rig.enter({.weight = 1.0});
    const ClientId b = rig.enter({.weight = 3.0});
    rig.play(seconds(8));
    EXPECT_NEAR(rig.attained(a).seconds(), 2.0, 0.05);
    EXPECT_NEAR(rig.attained(b).seconds(), 6.0, 0.05);
}

/// Lets all run on for `time` and says what each got of it.
std::vector<double> shares_s(Rig& rig, const std::vector<ClientId>& clients, Duration time) {
    std::vector<double> shares;
    for (const ClientId id : clients) shares.push_back(-rig.attained(id).seconds());
    rig.play(time);
    for (std::size_t i = 0; i < clients.size(); ++i) shares[i] += rig.attained(clients[i]).seconds();
    return shares;
}

TEST_F(EngineTest, UnderFairANewcomerStartsLevelWithTheLeastThatContends) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter({.weight = 2.0});
    rig.play(seconds(3));
    const double least = std::min(rig.virtual_time_s(a), rig.virtual_time_s(b));
    const ClientId c = rig.enter();
    EXPECT_GT(least, 0.9);
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(c), least);
    const auto shares = shares_s(rig, {a, b, c}, seconds(4));
    EXPECT_NEAR(shares[0], 1.0, 0.05);
    EXPECT_NEAR(shares[1], 2.0, 0.05);
    EXPECT_NEAR(shares[2], 1.0, 0.05);
}

TEST_F(EngineTest, UnderFairNobodyCatchesUpOnTheTimeItWasAway) {
    struct Row {
        std::string_view what;
        std::function<void(Rig&, ClientId)> go;
        std::function<void(Rig&, ClientId)> come_back;
    };
    const auto to_want = [](Rig& rig, ClientId b) { rig.want(b); };
    const Row rows[] = {
        {"parked", [](Rig& rig, ClientId b) { rig.idle(b); }, to_want},
        {"idle with its grant at first",
         [](Rig& rig, ClientId b) {
             rig.play_until_runs(b);
             rig.idle(b);
             if (rig.at(b).holds()) rig.idle(b, 0);
         },
         to_want},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.what);
        Rig rig("fair");
        const ClientId a = rig.enter();
        const ClientId b = rig.enter();
        rig.play(seconds(1));
        row.go(rig, b);
        rig.play(minutes(1));
        EXPECT_NEAR(rig.attained(b).seconds(), 0.5, 0.05) << "it was away";
        row.come_back(rig, b);
        const auto shares = shares_s(rig, {a, b}, seconds(10));
        EXPECT_NEAR(shares[0], 5.0, 0.1);
        EXPECT_NEAR(shares[1], 5.0, 0.1);
    }
}

TEST_F(EngineTest, UnderFairOneThatWasPausedDoesNotCatchUpEither) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.play_until_runs(a);
    rig.stop(b);
    rig.play(minutes(1));
    rig.resume(b);
    const auto shares = shares_s(rig, {a, b}, seconds(10));
    EXPECT_NEAR(shares[0], 5.0, 0.1);
    EXPECT_NEAR(shares[1], 5.0, 0.1);
}

TEST_F(EngineTest, AClientThatCanNeverRunDoesNotHoldTheVirtualTimeOfNewcomersBack) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.enter({.persistent_mib = 2000});  // refused, and still there
    rig.play(minutes(1));
    rig.boundary(a);
    const ClientId c = rig.enter();
    EXPECT_NEAR(rig.virtual_time_s(c), 60.0, 0.1);
}

// ------------------------------------------------------------------------------------------------------------- lanes

TEST_F(EngineTest, ClientsThatLeaveTheDeviceHalfIdleRunSideBySide) {
    Rig rig("fair");
    rig.enter({.occupancy = 0.5});
    rig.enter({.occupancy = 0.5});
    EXPECT_EQ(rig.turns(), "grant B 1");
    const ClientId c = rig.enter({.occupancy = 0.5});
    EXPECT_EQ(rig.turns(), "") << "a third would only slow the others down";
    EXPECT_EQ(rig.why(c), "turn behind A");
}

TEST_F(EngineTest, LanesMaxIsHowManyRunAtOnceWhateverThePolicyWants) {
    for (const unsigned lanes_max : {1u, 2u, 3u}) {
        SCOPED_TRACE(lanes_max);
        Rig rig("fair", with_lanes_max(lanes_max));
        for (int i = 0; i < 5; ++i) rig.enter({.occupancy = i % 2 == 0 ? 1.0 : 0.1});
        EXPECT_EQ(rig.engine.lanes().all().size(), lanes_max);
        rig.play(seconds(1));
        std::size_t running = 0;
        for (const Client* client : rig.engine.clients()) running += client->turn == Turn::kRunning ? 1u : 0u;
        EXPECT_EQ(running, lanes_max);
    }
}

TEST_F(EngineTest, ClientsOfTwoUsersGetTwoLanesOfWhichOneRuns) {
    Rig rig("rr", with_lanes_max(1));
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    EXPECT_EQ(rig.memory(), "admit B; map B 1:100");
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.why(b), "order") << "its own lane is free";
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 1");
    rig.idle(b);
    EXPECT_EQ(rig.turns(), "revoke B") << "an idle one makes way for another lane, too";
    rig.idle(b, 0);
    EXPECT_EQ(rig.turns(), "grant A 0");
}

TEST_F(EngineTest, WithMoreUsersThanLanesThatMayRunUnderFairEverybodyGetsTheSame) {
    Rig rig("fair", with_lanes_max(2));
    std::vector<ClientId> clients;
    for (std::uint32_t user = 1; user <= 3; ++user) clients.push_back(rig.enter({.user = user}));
    for (const double share : shares_s(rig, clients, seconds(9))) EXPECT_NEAR(share, 6.0, 0.2);
}

TEST_F(EngineTest, WithMoreUsersThanLanesThatMayRunTheHigherPrioritiesRun) {
    Rig rig("priority", with_lanes_max(2));
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    const ClientId c = rig.enter({.user = 3, .priority = 1});
    const ClientId d = rig.enter({.user = 4, .priority = 1});
    rig.play(milliseconds(100));
    EXPECT_TRUE(rig.runs(c));
    EXPECT_TRUE(rig.runs(d));
    EXPECT_FALSE(rig.runs(a) || rig.runs(b));
}

TEST_F(EngineTest, EveryIdleHolderMakesWayWhereLanesThatMayRunAreShort) {
    for (const std::string_view policy : {"fair", "srtf"}) {
        SCOPED_TRACE(policy);
        Rig rig(policy, with_lanes_max(2));
        const ClientId a = rig.enter({.user = 1});
        const ClientId b = rig.enter({.user = 2});
        rig.idle(a);
        rig.idle(b);
        const ClientId c = rig.enter({.user = 3});
        EXPECT_EQ(rig.turns(), "revoke B");  // of equals, the one that ranks last
        const ClientId d = rig.enter({.user = 4});
        EXPECT_EQ(rig.turns(), "revoke A");
        rig.answers_revokes = true;
        rig.idle(a, 0);
        if (rig.at(b).yield_asked) rig.idle(b, 0);
        rig.play(seconds(1));
        EXPECT_TRUE(rig.runs(c) && rig.runs(d)) << "A and B want nothing";
    }
}

// ---------------------------------------------------------------------------------------- clients that stop, die, leave

TEST_F(EngineTest, AStoppedHolderIsNotWaitedForWhereLanesThatMayRunAreShort) {
    Rig rig("rr", with_lanes_max(1));
    rig.stop(rig.enter({.user = 1}));
    const ClientId b = rig.enter({.user = 2});
    const ClientId c = rig.enter({.user = 3});
    rig.play(seconds(2));
    EXPECT_GT(rig.at(b).facts.attained, milliseconds(500));
    EXPECT_GT(rig.at(c).facts.attained, milliseconds(500));
}

TEST_F(EngineTest, AStoppedHolderKeepsItsLaneAndAfterAWhileTheOthersMove) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.stop(a);
    EXPECT_EQ(rig.why(b), "stopped-holder behind A");
    EXPECT_EQ(rig.why(a), "nothing") << "it holds its grant";
    const Duration rehome_after = rig.engine.options().rehome_after;
    rig.pass(rehome_after - nanoseconds(1));
    EXPECT_EQ(rig.memory(), "");
    rig.pass(nanoseconds(1));
    EXPECT_EQ(rig.memory(), "unmap B 0; map B 1:100");
    EXPECT_EQ(rig.turns(), "grant B 1");
    EXPECT_EQ(rig.engine.statistics().rehomings, 1u);
    const ClientId c = rig.enter();
    EXPECT_EQ(rig.at(c).lane, LaneId{1}) << "nobody joins a lane that is blocked";
    rig.resume(a);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0") << "its lane was kept for it";
}

TEST_F(EngineTest, AStoppedHolderDoesNotCountAmongTheLanesThatRun) {
    Rig rig("fair", with_lanes_max(1));
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    rig.stop(a);
    EXPECT_EQ(rig.turns(), "yield A; grant B 1");
    const ClientId c = rig.enter({.user = 3, .profiled = false});
    rig.boundary(b);
    EXPECT_TRUE(rig.runs(c)) << "nor does a profiling turn wait for it";
}

TEST_F(EngineTest, ALaneIsOpenToOthersAgainWhenItsStoppedHolderIsGone) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.idle(b);
    rig.stop(a);
    rig.pass(minutes(1));
    rig.die(a);
    rig.enter();
    EXPECT_EQ(rig.memory(), "admit C; map C 0:100");
}

TEST_F(EngineTest, WithoutRoomForAnotherLaneNobodyMovesAwayFromAStoppedHolder) {
    EngineOptions options = small_device();
    options.capacity = mebibytes(200);
    options.paging = false;
    Rig rig("fair", options);
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.stop(a);
    rig.pass(minutes(1));
    EXPECT_EQ(rig.memory(), "");
    EXPECT_EQ(rig.why(b), "stopped-holder behind A");
    rig.set_capacity(1000);
    EXPECT_EQ(rig.memory(), "unmap B 0; map B 1:100") << "there is room now";
}

TEST_F(EngineTest, OneThatWantsToRunOnlyAfterItsLaneWasBlockedMovesToo) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.idle(b);
    rig.stop(a);
    rig.pass(minutes(1));
    rig.want(b);
    rig.pass(minutes(1));
    EXPECT_TRUE(rig.runs(b)) << "it waits: " << rig.why(b);
}

TEST_F(EngineTest, AStoppedClientIsGrantedNothingUntilItContinues) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.stop(b);
    EXPECT_EQ(rig.why(b), "paused");
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0");
    rig.resume(b);
    EXPECT_EQ(rig.why(b), "turn behind A");
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(EngineTest, ALaneIsFreeAgainWhenItsHolderDiesOrLeaves) {
    for (const bool dies : {true, false}) {
        for (const bool is_idle : {true, false}) {
            SCOPED_TRACE(fmt::format("dies {} idle {}", dies, is_idle));
            Rig rig("fifo");
            rig.set_policy(*find_policy("srtf"));  // both are admitted ...
            const ClientId a = rig.enter();
            const ClientId b = rig.enter();
            rig.set_policy(*find_policy("fifo"));  // ... and an idle holder still holds
            if (is_idle) rig.idle(a);
            EXPECT_EQ(rig.turns(), "");
            if (dies) rig.die(a);
            else rig.leave(a);
            EXPECT_EQ(rig.turns(), "grant B 0");
            EXPECT_EQ(rig.engine.find(a), nullptr);
            EXPECT_EQ(rig.engine.clients().size(), 1u);
            rig.leave(b);
            EXPECT_EQ(rig.engine.reserved(), Bytes{});
            EXPECT_EQ(rig.lanes(), "");
        }
    }
}

TEST_F(EngineTest, AnIdIsFreeForReuseOnceItsClientIsGone) {
    Rig rig("fair");
    const ClientId a = rig.enter({.weight = 4.0, .ephemeral_mib = 300});
    rig.pass(seconds(1));
    rig.die(a);
    rig.attach(a, {});
    rig.want(a);
    EXPECT_EQ(rig.memory(), "admit A; map A 1:100");
    EXPECT_EQ(rig.turns(), "grant A 1");
    EXPECT_EQ(rig.attained(a), Duration{});
    EXPECT_EQ(rig.reserved_mib(), 110);
    EXPECT_THROW(rig.attach(a, {}), CheckFailure) << "it is in use";
}

TEST_F(EngineTest, TimeNeverGoesBack) {
    Rig rig("fair");
    rig.now = Instant{} + seconds(1);
    rig.enter();
    rig.now = Instant{} + milliseconds(999);
    EXPECT_THROW(rig.send(event::Timer{}), CheckFailure);
}

// ------------------------------------------------------------------------------------------------------------ faults

TEST_F(EngineTest, WhoBreaksTheProtocolIsDroppedAndTheOthersDoNotNotice) {
    constexpr ClientId kHolder{0};
    constexpr ClientId kWaiter{1};
    constexpr ClientId kStranger{25};
    struct Row {
        std::string_view what;
        std::vector<Event> events;
        std::string_view faults;
    };
    const Row rows[] = {
        {"boundary without a grant", {event::Boundary{kWaiter, 1}}, "drop B no-grant"},
        {"need without a grant", {event::Need{kWaiter, mebibytes(1), mebibytes(1)}}, "drop B no-grant"},
        {"acknowledges twice", {event::Acknowledge{kWaiter, LaneId{0}, 2}}, "drop B not-asked"},
        {"acknowledges the future", {event::Acknowledge{kWaiter, LaneId{0}, 99}}, "drop B not-asked"},
        {"acknowledges another's lane", {event::Acknowledge{kWaiter, LaneId{7}, 1}}, "drop B not-asked"},
        {"paged out unasked", {event::PagedOut{kWaiter}}, "drop B not-asked"},
        {"paged in unasked", {event::PagedIn{kWaiter}}, "drop B not-asked"},
        {"figures that cannot be",
         {event::Demand{kWaiter, Bytes{-1}, {}}, event::Demand{kWaiter, {}, {}, -1.0}, event::Observe{kWaiter, Bytes{-1}},
          event::Need{kWaiter, {}, Bytes{-1}}, event::Boundary{kWaiter, ~std::uint64_t{0}},
          event::Idle{kWaiter, ~std::uint64_t{0}}, event::Leave{kWaiter, ~std::uint64_t{0}},
          event::Adjust{kWaiter, 0, 0.0, 0}},
         "drop B nonsense"},
        {"attach excepted, each event of a stranger's",
         {event::Demand{kStranger, {}, {}}, event::Need{kStranger, {}, {}}, event::Observe{kStranger, {}},
          event::Want{kStranger}, event::Boundary{kStranger, 0}, event::Idle{kStranger, 0},
          event::Acknowledge{kStranger, LaneId{0}, 0}, event::PagedOut{kStranger}, event::PagedIn{kStranger},
          event::Leave{kStranger, 0}, event::Die{kStranger}, event::Stop{kStranger}, event::Continue{kStranger},
          event::Adjust{kStranger, 0, 1.0, 0}},
         "drop Z unknown-client"},
        {"no client at all", {event::Want{kNoClient}}, "drop nobody unknown-client"},
    };
    for (const Row& row : rows) {
        for (const Event& event : row.events) {
            SCOPED_TRACE(fmt::format("{}, event {}", row.what, event.index()));
            Rig rig("srtf");
            rig.enter({.iterations_total = 100, .iteration_time = seconds(1)});
            rig.enter({.iterations_total = 100, .iteration_time = seconds(2)});
            rig.send(event);
            EXPECT_EQ(rig.faults(), row.faults);
            EXPECT_TRUE(rig.runs(kHolder));
            EXPECT_EQ(rig.turns() + rig.memory(), "");
            rig.boundary(kHolder);
            EXPECT_EQ(rig.turns(), "grant A 0");
        }
    }
}

TEST_F(EngineTest, ADroppedClientIsNotGrantedAnythingAnyMore) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.boundary(b);
    EXPECT_EQ(rig.faults(), "drop B no-grant");
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0");
    rig.want(b);
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0");
    rig.die(b);
    EXPECT_EQ(rig.faults(), "");
}

// ---------------------------------------------------------------------------------------------------- policies' faults

/// Does one thing wrong, from the start or once it has two clients to choose from.
class Nonsense final : public Policy {
public:
    enum class Kind { kNobody, kStranger, kNotWaiting, kNan, kInfinite };
    explicit Nonsense(Kind kind)
        : Policy({.name = "nonsense", .good_for = "tests", .bad_at = "all else", .time_sliced = true}), kind_(kind) {}

    Rank rank(const ClientFacts&, const Situation&) const override {
        if (kind_ == Kind::kNan) return {0, std::numeric_limits<double>::quiet_NaN()};
        if (kind_ == Kind::kInfinite) return {-std::numeric_limits<double>::infinity(), 0};
        return {};
    }
    ClientId choose(Candidates candidates, const Situation& now) const override {
        if (kind_ == Kind::kNobody) return kNoClient;
        if (kind_ == Kind::kStranger) return ClientId{1234};
        if (kind_ == Kind::kNotWaiting) return candidates.front()->id == ClientId{0} ? ClientId{1} : ClientId{0};
        return Policy::choose(candidates, now);
    }

private:
    const Kind kind_;
};

struct NonsenseRow {
    Nonsense::Kind kind;
    std::string_view faults;
};
constexpr NonsenseRow kNonsense[] = {
    {Nonsense::Kind::kNobody, "fall-back not-a-candidate"},     {Nonsense::Kind::kStranger, "fall-back not-a-candidate"},
    {Nonsense::Kind::kNotWaiting, "fall-back not-a-candidate"}, {Nonsense::Kind::kNan, "fall-back rank-not-finite"},
    {Nonsense::Kind::kInfinite, "fall-back rank-not-finite"},
};

TEST_F(EngineTest, WhenThePolicyMisbehavesFifoTakesOverAndTheTurnIsNotLost) {
    for (const NonsenseRow& row : kNonsense) {
        SCOPED_TRACE(static_cast<int>(row.kind));
        const Nonsense nonsense(row.kind);
        Driver driver(small_device(), nonsense, fallback_policy());
        const ClientId a = driver.attach();
        const ClientId b = driver.attach();
        driver.want(a);
        EXPECT_EQ(driver.faults(), row.faults);
        EXPECT_EQ(driver.turns(), "grant A 0");
        EXPECT_EQ(&driver.engine.policy(), &fallback_policy());
        EXPECT_EQ(driver.engine.statistics().fallbacks, 1u);
        driver.want(b);
        EXPECT_EQ(driver.why(b), "order") << "fifo rules now";
        driver.leave(a);
        EXPECT_TRUE(driver.runs(b));
        EXPECT_EQ(driver.engine.statistics().fallbacks, 1u);
    }
}

/// As good as any until a second has passed.
class Forgetful final : public Policy {
public:
    Forgetful() : Policy({.name = "forgetful", .good_for = "tests", .bad_at = "all else"}) {}
    Rank rank(const ClientFacts& client, const Situation& now) const override {
        const bool forgets = now.now >= Instant{} + seconds(1);
        return {0, forgets ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(client.sequence)};
    }
};

TEST_F(EngineTest, ARankIsLookedAtBeforeATurnIsGranted) {
    const Forgetful forgetful;
    Driver driver(small_device(), forgetful, fallback_policy());
    const ClientId a = driver.enter();
    driver.boundary(a);
    EXPECT_EQ(driver.faults(), "");
    driver.pass(seconds(1));
    driver.boundary(a);
    EXPECT_EQ(driver.faults(), "fall-back rank-not-finite");
    EXPECT_EQ(driver.turns(), "grant A 0");
}

TEST_F(EngineTest, AfterAFallBackOneRunsAtATime) {
    const Forgetful forgetful;
    Driver driver(small_device(), forgetful, fallback_policy());
    const ClientId a = driver.enter({.occupancy = 0.5});
    const ClientId b = driver.enter({.occupancy = 0.5});
    EXPECT_TRUE(driver.runs(a) && driver.runs(b));
    driver.pass(seconds(1));
    driver.boundary(b);
    EXPECT_EQ(driver.faults(), "fall-back rank-not-finite");
    driver.play(milliseconds(20));
    EXPECT_TRUE(driver.runs(a));
    EXPECT_FALSE(driver.runs(b)) << "A came first, and has the device to itself";
}

TEST_F(EngineTest, InStrictModeAMisbehavingPolicyIsAFailedCheck) {
    for (const NonsenseRow& row : kNonsense) {
        SCOPED_TRACE(static_cast<int>(row.kind));
        const Nonsense nonsense(row.kind);
        EngineOptions options = small_device();
        options.strict = true;
        Driver driver(options, nonsense, fallback_policy());
        const ClientId a = driver.attach();
        EXPECT_THROW(driver.want(a), CheckFailure);
    }
}

TEST_F(EngineTest, AFallbackThatMisbehavesIsAFailedCheck) {
    const Nonsense nonsense(Nonsense::Kind::kNobody);
    Driver driver(small_device(), nonsense, nonsense);
    const ClientId a = driver.attach();
    EXPECT_THROW(driver.want(a), CheckFailure);
}

// ---------------------------------------------------------------------------------------------------- policy switches

TEST_F(EngineTest, SwitchingToATimeSlicedPolicyEndsATurnThatHasLastedLongEnough) {
    Rig rig("srtf");
    const ClientId a = rig.enter();
    rig.enter();
    rig.pass(seconds(1));
    EXPECT_EQ(rig.turns(), "");
    rig.set_policy(*find_policy("fair"));
    EXPECT_EQ(rig.turns(), "yield A");
    rig.pass(milliseconds(1));
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(EngineTest, AfterASwitchToFairNobodyOwesAnythingForTheTimeBefore) {
    Rig rig("srtf");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.play(minutes(1));
    rig.set_policy(*find_policy("fair"));
    for (const double share : shares_s(rig, {a, b}, seconds(10))) EXPECT_NEAR(share, 5.0, 0.1);
}

TEST_F(EngineTest, SwitchingToAnExclusivePolicyLeavesTheFirstRunning) {
    Rig rig("fair");
    const ClientId a = rig.enter({.occupancy = 0.5});
    const ClientId b = rig.enter({.occupancy = 0.5});
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
    rig.set_policy(*find_policy("fifo"));
    EXPECT_EQ(rig.turns(), "yield B");
    rig.boundary(b);
    EXPECT_EQ(rig.turns(), "") << "A has the device";
    rig.idle(a);
    EXPECT_EQ(rig.turns(), "") << "even while it idles";
    rig.set_policy(*find_policy("fair"));
    EXPECT_EQ(rig.turns(), "grant B 1") << "and back";
}

TEST_F(EngineTest, AfterASwitchFromFifoAnIdleHolderMakesWayForAnotherLane) {
    for (const std::string_view policy : {"fair", "srtf"}) {
        SCOPED_TRACE(policy);
        Rig rig("fair", with_lanes_max(1));
        const ClientId a = rig.enter({.user = 1});
        const ClientId b = rig.enter({.user = 2});
        rig.idle(b);
        rig.set_policy(*find_policy("fifo"));
        rig.idle(a);
        rig.want(b);
        EXPECT_EQ(rig.turns(), "") << "fifo waits for A";
        rig.set_policy(*find_policy(policy));
        rig.pass(minutes(1));
        if (rig.at(a).yield_asked) rig.idle(a, 0);
        EXPECT_TRUE(rig.runs(b)) << "A has wanted nothing for a minute";
    }
}

// ----------------------------------------------------------------------------------------------------------- waiting

TEST_F(EngineTest, WhoWaitsIsToldWhy) {
    struct Row {
        std::string_view why;
        std::string_view policy;
        std::function<ClientId(Rig&)> wait;
    };
    const Row rows[] = {
        {"nothing", "fair", [](Rig& rig) { return rig.attach(); }},
        {"nothing", "fair", [](Rig& rig) { return rig.enter(); }},
        {"turn behind A", "fair",
         [](Rig& rig) {
             rig.enter();
             return rig.enter();
         }},
        {"memory", "srtf",
         [](Rig& rig) {
             rig.enter({.pageable = false, .persistent_mib = 600});
             return rig.enter({.persistent_mib = 600});
         }},
        {"reservation behind B", "srtf",
         [](Rig& rig) {
             rig.enter({.pageable = false, .persistent_mib = 600});
             rig.enter({.persistent_mib = 600});
             rig.pass(rig.engine.options().reserve_after);
             return rig.enter({.pageable = false});
         }},
        {"profiling behind B", "fair",
         [](Rig& rig) {
             const ClientId a = rig.enter();
             rig.enter({.profiled = false});
             rig.boundary(a);
             return a;
         }},
        {"profiling", "priority",
         [](Rig& rig) {
             rig.enter({.priority = 1});
             return rig.enter({.profiled = false});
         }},
        {"paging", "las",
         [](Rig& rig) {
             rig.answers_paging = false;
             const ClientId a = rig.enter({.persistent_mib = 600});
             rig.pass(minutes(1));
             rig.enter({.persistent_mib = 600});
             rig.boundary(a);
             return a;
         }},
        {"mapping", "fair",
         [](Rig& rig) {
             rig.answers_mappings = false;
             return rig.enter();
         }},
        {"stopped-holder behind A", "fair",
         [](Rig& rig) {
             rig.stop(rig.enter());
             return rig.enter();
         }},
        {"order", "fifo",
         [](Rig& rig) {
             rig.enter();
             return rig.enter();
         }},
        {"paused", "fair",
         [](Rig& rig) {
             rig.enter();
             const ClientId b = rig.enter();
             rig.stop(b);
             return b;
         }},
        {"refused", "fair", [](Rig& rig) { return rig.enter({.persistent_mib = 1000}); }},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.why);
        Rig rig(row.policy);
        const ClientId waiter = row.wait(rig);
        EXPECT_EQ(rig.why(waiter), row.why);
    }
}

TEST_F(EngineTest, AWaitIsToldOnceAndItsEndToo) {
    Rig rig("srtf");
    const ClientId a = rig.enter({.pageable = false, .persistent_mib = 600});
    rig.enter({.persistent_mib = 600});
    EXPECT_EQ(rig.waits(), "wait B memory");
    rig.pass(seconds(10));
    EXPECT_EQ(rig.waits(), "");
    rig.leave(a);
    EXPECT_EQ(rig.waits(), "wait B nothing");
}

}  // namespace
}  // namespace salus
