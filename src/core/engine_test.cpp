// What changes the course of turns: clients that stop, die or leave, another policy; and what those that wait are told.
// Turns themselves are in turns_test.cpp.
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

using EngineTest = CheckedTest;

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

TEST_F(EngineTest, MembersOfALaneThatIsRenewedRunOnceTheyHaveMappedItAnew) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.turns();
    ASSERT_TRUE(rig.runs(a));
    rig.answers_mappings = false;
    rig.renew_lane(0);
    rig.die(a);
    EXPECT_EQ(rig.turns(), "") << "what it has mapped is what the dead one may still write to";
    EXPECT_FALSE(rig.engine.find(b)->mapped);
    const Mapping* mapping = rig.engine.lanes().all().front().mapping(b);
    ASSERT_TRUE(mapping);
    rig.send(event::Acknowledge{b, LaneId{0}, mapping->version});
    EXPECT_EQ(rig.turns(), "grant B 0");
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
    for (const double share : rig.shares_s({a, b}, seconds(10))) EXPECT_NEAR(share, 5.0, 0.1);
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
        {"memory behind A", "srtf",
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
        {"order behind A", "priority",
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
        {"order behind A", "fifo",
         [](Rig& rig) {
             rig.enter();
             return rig.enter();
         }},
        {"order behind A", "fifo",  // with room for it, and for another behind it
         [](Rig& rig) {
             rig.enter();
             const ClientId newcomer = rig.enter({.profiled = false});
             rig.enter({.profiled = false});
             return newcomer;
         }},
        {"turn behind A", "fair",  // it is next to profile, when A has reached its boundary
         [](Rig& rig) {
             rig.enter();
             return rig.enter({.profiled = false});
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
