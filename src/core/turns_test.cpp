// Turns: who runs, for how long, and what it is charged. Memory is in admission_test.cpp and growth_test.cpp, misconduct in
// distrust_test.cpp.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine.h"
#include "core/engine_fixture.h"
#include "policies/table.h"

namespace salus {
namespace {

using EngineTurnsTest = CheckedTest;

constexpr std::string_view kTimeSliced[] = {"fair", "las", "rr", "priority"};

// ------------------------------------------------------------------------------------------ grants, yields, boundaries

TEST_F(EngineTurnsTest, WhoeverWantsToRunIsAdmittedAndGrantedALaneOnceItIsMapped) {
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
    EXPECT_EQ(rig.at(a).turn(), Turn::kRunning);
}

TEST_F(EngineTurnsTest, AtItsBoundaryTheHolderMakesWayForWhoeverIsBehind) {
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

TEST_F(EngineTurnsTest, AHolderThatNobodyWaitsForIsNeverAskedToYield) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    EXPECT_EQ(rig.engine.deadline(), kNever);
    rig.pass(minutes(10));
    EXPECT_EQ(rig.turns(), "");
    rig.boundary(a, 1000);
    EXPECT_EQ(rig.turns(), "grant A 0") << "it wants to run on, and nobody else does";
}

TEST_F(EngineTurnsTest, TheMinimumTurnIsHonouredAndTheDeadlineNamesItsEnd) {
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

TEST_F(EngineTurnsTest, OnlyATurnOfAnotherClientCountsAsASwitch) {
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

TEST_F(EngineTurnsTest, OnceTheMinimumTurnIsOverANewcomerIsMadeWayForAtOnce) {
    Rig rig("fair");
    rig.enter();
    rig.pass(kMinTurn * 3);
    rig.enter();
    EXPECT_EQ(rig.turns(), "yield A");
}

// A client that gives its grant back does not want the next one before its script has come round, and by then another has
// it. If turns just alternated, A would get five times as much as B.
TEST_F(EngineTurnsTest, LongIterationsGetNoMoreThanTheirShare) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    while (rig.now < Instant{} + seconds(5)) {
        const ClientId holder = rig.runs(a) ? a : b;
        rig.pass(holder == a ? milliseconds(50) : milliseconds(5));
        if (!rig.at(holder).yield_asked) continue;
        rig.idle(holder);
        rig.pass(microseconds(100));
        rig.want(holder);
    }
    const double share = rig.at(a).facts.attained.seconds() / rig.at(b).facts.attained.seconds();
    EXPECT_GT(share, 0.95);
    EXPECT_LT(share, 1.05);
}

TEST_F(EngineTurnsTest, OnlyHigherPriorityOverridesTheMinimumTurn) {
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

TEST_F(EngineTurnsTest, RaisingAPriorityTakesEffectAtOnce) {
    Rig rig("priority");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    EXPECT_EQ(rig.turns(), "");
    rig.send(event::Adjust{b, 5, 1.0, 0});
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(EngineTurnsTest, TimeSlicedPoliciesTakeTurnsAndTheOthersLetTheHolderRunOn) {
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

TEST_F(EngineTurnsTest, UnderSrtfOnlyAShorterJobPreempts) {
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

TEST_F(EngineTurnsTest, UnderSrtfAnUnknownLengthIsTakenToBeThatOfTheJobsThatEnded) {
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

TEST_F(EngineTurnsTest, UnderSrtfAnUnknownLengthDoesNotWinBecauseOthersEndedBeforeTheyRan) {
    Rig rig("srtf");
    rig.enter({.iterations_total = 10, .iteration_time = seconds(1)});
    rig.leave(rig.attach(), 0);
    rig.enter();
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "");
}

// ------------------------------------------------------------------------------------------------------ idle holders

TEST_F(EngineTurnsTest, AnIdleClientKeepsItsGrantUntilSomebodyWantsTheLane) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.idle(a);
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.at(a).turn(), Turn::kHoldingIdle);
    rig.want(a);
    EXPECT_EQ(rig.turns(), "") << "it runs on without asking";
    EXPECT_EQ(rig.at(a).turn(), Turn::kRunning);
    rig.idle(a);
    const ClientId b = rig.enter();
    EXPECT_EQ(rig.turns(), "revoke A") << "at once: no minimum turn for one that does not run";
    EXPECT_FALSE(rig.runs(b)) << "the work in flight of the last iteration may still use the lane";
    rig.idle(a, 0);
    EXPECT_EQ(rig.turns(), "grant B 0");
    EXPECT_EQ(rig.at(a).turn(), Turn::kParked);
}

TEST_F(EngineTurnsTest, AHolderThatFallsIdleWhileOthersWaitLosesItsGrantAtOnce) {
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

TEST_F(EngineTurnsTest, UnderFifoAnIdleHolderKeepsTheDevice) {
    Rig rig("fifo");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.idle(a);
    rig.pass(minutes(1));
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.why(b), "order behind A");
    rig.leave(a, 0);
    EXPECT_EQ(rig.turns(), "grant B 1");
}

// -------------------------------------------------------------------------------------------------------- accounting

TEST_F(EngineTurnsTest, TimeHeldIsChargedPerTurnAndIdleTimeIsNot) {
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

TEST_F(EngineTurnsTest, WaitingForATurnIsNotCharged) {
    Rig rig("fair");
    rig.enter();
    const ClientId b = rig.enter();
    rig.pass(seconds(1));
    EXPECT_EQ(rig.attained(b), Duration{});
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(b), 0);
}

TEST_F(EngineTurnsTest, TheIterationTimeIsAsStatedUntilItIsLearnedAsTheMean) {
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

TEST_F(EngineTurnsTest, ProfilingTurnsTellNothingAgainstAStatedIterationTime) {
    for (const Duration stated : {seconds(7), Duration{}}) {
        Rig rig("fair");
        const ClientId a = rig.enter({.iteration_time = stated, .profiled = false});
        for (int i = 0; i < 2; ++i) {
            rig.pass(milliseconds(500));
            rig.boundary(a);
            EXPECT_EQ(rig.at(a).facts.iteration_time, stated > Duration{} ? stated : milliseconds(500)) << i;
        }
        rig.pass(milliseconds(20));
        rig.boundary(a, 2);
        EXPECT_EQ(rig.at(a).facts.iteration_time, milliseconds(10));
    }
}

TEST_F(EngineTurnsTest, UnderFairTimeIsSharedInProportionToWeight) {
    Rig rig("fair");
    const ClientId a = rig.enter({.weight = 1.0});
    const ClientId b = rig.enter({.weight = 3.0});
    rig.play(seconds(8));
    EXPECT_NEAR(rig.attained(a).seconds(), 2.0, 0.05);
    EXPECT_NEAR(rig.attained(b).seconds(), 6.0, 0.05);
}

TEST_F(EngineTurnsTest, UnderFairANewcomerStartsLevelWithTheLeastThatContends) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter({.weight = 2.0});
    rig.play(seconds(3));
    const double least = std::min(rig.virtual_time_s(a), rig.virtual_time_s(b));
    const ClientId c = rig.enter();
    EXPECT_GT(least, 0.9);
    EXPECT_DOUBLE_EQ(rig.virtual_time_s(c), least);
    const auto shares = rig.shares_s({a, b, c}, seconds(4));
    EXPECT_NEAR(shares[0], 1.0, 0.05);
    EXPECT_NEAR(shares[1], 2.0, 0.05);
    EXPECT_NEAR(shares[2], 1.0, 0.05);
}

TEST_F(EngineTurnsTest, UnderFairNobodyCatchesUpOnTheTimeItWasAway) {
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
        const auto shares = rig.shares_s({a, b}, seconds(10));
        EXPECT_NEAR(shares[0], 5.0, 0.1);
        EXPECT_NEAR(shares[1], 5.0, 0.1);
    }
}

TEST_F(EngineTurnsTest, UnderFairOneThatWasPausedDoesNotCatchUpEither) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.play_until_runs(a);
    rig.stop(b);
    rig.play(minutes(1));
    rig.resume(b);
    const auto shares = rig.shares_s({a, b}, seconds(10));
    EXPECT_NEAR(shares[0], 5.0, 0.1);
    EXPECT_NEAR(shares[1], 5.0, 0.1);
}

TEST_F(EngineTurnsTest, AClientThatCanNeverRunDoesNotHoldTheVirtualTimeOfNewcomersBack) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.enter({.persistent_mib = 2000});  // refused, and still there
    rig.play(minutes(1));
    rig.boundary(a);
    const ClientId c = rig.enter();
    EXPECT_NEAR(rig.virtual_time_s(c), 60.0, 0.1);
}

// ------------------------------------------------------------------------------------------------------------- lanes

TEST_F(EngineTurnsTest, ClientsThatLeaveTheDeviceHalfIdleRunSideBySide) {
    Rig rig("fair");
    rig.enter({.occupancy = 0.5});
    rig.enter({.occupancy = 0.5});
    EXPECT_EQ(rig.turns(), "grant B 1");
    const ClientId c = rig.enter({.occupancy = 0.5});
    EXPECT_EQ(rig.turns(), "") << "a third would only slow the others down";
    EXPECT_EQ(rig.why(c), "turn behind A");
}

TEST_F(EngineTurnsTest, LanesMaxIsHowManyRunAtOnceWhateverThePolicyWants) {
    for (const unsigned lanes_max : {1u, 2u, 3u}) {
        SCOPED_TRACE(lanes_max);
        Rig rig("fair", with_lanes_max(lanes_max));
        for (int i = 0; i < 5; ++i) rig.enter({.occupancy = i % 2 == 0 ? 1.0 : 0.1});
        EXPECT_EQ(rig.engine.lanes().all().size(), lanes_max);
        rig.play(seconds(1));
        std::size_t running = 0;
        for (const Client* client : rig.engine.clients()) running += client->turn() == Turn::kRunning ? 1u : 0u;
        EXPECT_EQ(running, lanes_max);
    }
}

TEST_F(EngineTurnsTest, FewerOrMoreLanesFromNowOn) {
    Rig rig("fair", with_lanes_max(3));
    std::vector<ClientId> clients;
    for (std::uint32_t user = 1; user <= 4; ++user) clients.push_back(rig.enter({.user = user}));
    const auto running = [&] {
        std::size_t lanes = 0;
        for (const ClientId id : clients) lanes += rig.runs(id) ? 1u : 0u;
        return lanes;
    };
    EXPECT_EQ(running(), 3u);
    const auto limits = [](unsigned lanes_max) { return event::SetLimits{lanes_max, true, seconds(10)}; };
    rig.send(limits(1));
    EXPECT_EQ(rig.turns(), "yield A; yield B") << "at their boundaries, though nobody is urgent";
    rig.play(seconds(1));
    EXPECT_EQ(running(), 1u);
    for (const double share : rig.shares_s(clients, seconds(8))) EXPECT_NEAR(share, 2.0, 0.2);
    rig.send(limits(2));
    rig.play(seconds(1));
    EXPECT_EQ(running(), 2u);
    rig.send(limits(0));
    EXPECT_EQ(running(), 4u) << "each of them has its own";
}

TEST_F(EngineTurnsTest, NobodyOwesTheTimeThatLanesGaveAtOnceWhenThereAreFewer) {
    Rig rig("fair", with_lanes_max(2));
    const ClientId a = rig.enter({.weight = 4, .occupancy = 0.5});
    const ClientId b = rig.enter({.occupancy = 0.5});
    for (const double share : rig.shares_s({a, b}, seconds(20))) EXPECT_NEAR(share, 20, 0.1);
    rig.send(event::SetLimits{1, true, seconds(10)});
    const std::vector<double> shares = rig.shares_s({a, b}, seconds(10));
    EXPECT_NEAR(shares[0], 8, 0.5);
    EXPECT_NEAR(shares[1], 2, 0.5);
}

TEST_F(EngineTurnsTest, ClientsOfTwoUsersGetTwoLanesOfWhichOneRuns) {
    Rig rig("rr", with_lanes_max(1));
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    EXPECT_EQ(rig.memory(), "admit B; map B 1:100");
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.why(b), "turn behind A") << "its own lane is free";
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 1");
    rig.idle(b);
    EXPECT_EQ(rig.turns(), "revoke B") << "an idle one makes way for another lane, too";
    rig.idle(b, 0);
    EXPECT_EQ(rig.turns(), "grant A 0");
}

TEST_F(EngineTurnsTest, WithMoreUsersThanLanesThatMayRunUnderFairEverybodyGetsTheSame) {
    Rig rig("fair", with_lanes_max(2));
    std::vector<ClientId> clients;
    for (std::uint32_t user = 1; user <= 3; ++user) clients.push_back(rig.enter({.user = user}));
    for (const double share : rig.shares_s(clients, seconds(9))) EXPECT_NEAR(share, 6.0, 0.2);
}

TEST_F(EngineTurnsTest, WithMoreUsersThanLanesThatMayRunTheHigherPrioritiesRun) {
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

TEST_F(EngineTurnsTest, EveryIdleHolderMakesWayWhereLanesThatMayRunAreShort) {
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

// ------------------------------------------------------------------------------------------------------------- users

EngineOptions by_user() {
    EngineOptions options = small_device();
    options.share_by_user = true;
    return options;
}

TEST_F(EngineTurnsTest, ByUserOneUserRunsAtATimeInAllOfHisLanes) {
    Rig rig("fair", by_user());
    const ClientId a = rig.enter({.user = 1, .occupancy = 0.5});
    const ClientId b = rig.enter({.user = 1, .occupancy = 0.5});
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
    const ClientId c = rig.enter({.user = 2, .occupancy = 0.1});
    EXPECT_TRUE(rig.has_lane(c));
    EXPECT_FALSE(rig.runs(c)) << "whatever it says of itself";
    EXPECT_EQ(rig.why(c), "turn behind A") << "its own lane is free";
    rig.play(milliseconds(500));
    EXPECT_GT(rig.attained(c), milliseconds(100));
    for (int i = 0; i < 100; ++i) {
        rig.play(milliseconds(5));
        EXPECT_FALSE(rig.runs(c) && (rig.runs(a) || rig.runs(b)));
    }
}

TEST_F(EngineTurnsTest, ByUserAnIdleUserMakesWayAtOnce) {
    Rig rig("fair", by_user());
    const ClientId a = rig.enter({.user = 1});
    rig.idle(a);
    const ClientId b = rig.enter({.user = 2});
    EXPECT_EQ(rig.turns(), "revoke A");
    rig.idle(a, 0);
    EXPECT_TRUE(rig.runs(b));
}

TEST_F(EngineTurnsTest, ByUserAStoppedHolderKeepsNobodyWaiting) {
    Rig rig("fair", by_user());
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    rig.stop(a);
    EXPECT_TRUE(rig.runs(b));
}

TEST_F(EngineTurnsTest, ByUserLongIterationsGetNoMoreThanTheirUsersShare) {
    Rig rig("fair", by_user());
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    while (rig.now < Instant{} + seconds(5)) {
        const ClientId holder = rig.runs(a) ? a : b;
        rig.pass(holder == a ? milliseconds(50) : milliseconds(5));
        if (!rig.at(holder).yield_asked) continue;
        rig.idle(holder);
        rig.pass(microseconds(100));
        rig.want(holder);
    }
    EXPECT_NEAR(rig.at(a).facts.attained.seconds() / rig.at(b).facts.attained.seconds(), 1, 0.05);
}

TEST_F(EngineTurnsTest, ByUserANewcomerOfAUserStartsAtHisOthersLevel) {
    Rig rig("fair", by_user());
    std::vector<ClientId> many;
    for (int i = 0; i < 4; ++i) many.push_back(rig.enter({.user = 1}));
    const ClientId b = rig.enter({.user = 2});
    rig.play(seconds(8));
    const ClientId c = rig.enter({.user = 2});
    const auto shares = rig.shares_s({b, c, many[0]}, seconds(8));
    EXPECT_NEAR(shares[0], 2, 0.1);
    EXPECT_NEAR(shares[1], 2, 0.1) << "it does not catch up with its user's other";
    EXPECT_NEAR(shares[2], 1, 0.1);
}

TEST_F(EngineTurnsTest, ByUserTheTimeOfACrewCountsOnce) {
    Rig rig("fair", by_user());
    std::vector<ClientId> crew;
    for (int i = 0; i < 3; ++i) {
        crew.push_back(rig.attach({.user = 1, .ephemeral_mib = 0}));
        rig.send(event::JoinCrew{crew.back(), JobId{1}});
    }
    for (const ClientId id : crew) rig.want(id);
    const ClientId b = rig.enter({.user = 2});
    const auto shares = rig.shares_s({crew[0], b}, seconds(8));
    EXPECT_NEAR(shares[0] / shares[1], 1, 0.1);
}

TEST_F(EngineTurnsTest, ByUserAPriorityCountsAmongTheJobsOfItsUser) {
    Rig rig("priority", by_user());
    const ClientId a = rig.enter({.user = 1, .priority = 9});
    const ClientId b = rig.enter({.user = 2, .priority = 1});
    const ClientId c = rig.enter({.user = 2});
    const auto shares = rig.shares_s({a, b, c}, seconds(8));
    EXPECT_NEAR(shares[0], 4, 0.2);
    EXPECT_NEAR(shares[1], 4, 0.2);
    EXPECT_NEAR(shares[2], 0, 0.1);
}

TEST_F(EngineTurnsTest, AfterAChangeOfPolicyOneUserGoesOn) {
    Rig rig("srtf", by_user());
    const ClientId a = rig.enter({.user = 1});
    const ClientId b = rig.enter({.user = 2});
    ASSERT_TRUE(rig.runs(a) && rig.runs(b)) << "srtf shares no time";
    rig.set_policy(*find_policy("fair"));
    EXPECT_EQ(rig.turns(), "yield B");
    const auto shares = rig.shares_s({a, b}, seconds(8));
    EXPECT_NEAR(shares[0], 4, 0.2);
    EXPECT_NEAR(shares[1], 4, 0.2);
}

}  // namespace
}  // namespace salus
