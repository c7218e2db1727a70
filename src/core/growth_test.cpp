// Memory in mid-iteration, and memory that nobody asked for: who gets more, who waits, who makes room. Admission is in
// admission_test.cpp.
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

using GrowthTest = CheckedTest;

// --------------------------------------------------------------------------------------------- growth in mid-iteration

TEST_F(GrowthTest, ANeedInMidIterationIsServedFromFreeRoom) {
    struct Row {
        std::int64_t persistent_mib;
        std::int64_t ephemeral_mib;
        std::string_view memory;
    };
    for (const Row& row : {Row{50, 100, "room A 50"}, Row{10, 300, "room A 10; resize A 0:300; resize B 0:300"},
                           Row{600, 380, "room A 600; resize A 0:380; resize B 0:380"}}) {
        SCOPED_TRACE(row.memory);
        Rig rig("fair");
        const ClientId a = rig.enter();
        rig.enter();
        rig.need(a, row.persistent_mib, row.ephemeral_mib);
        EXPECT_EQ(rig.memory(), row.memory);
        EXPECT_TRUE(rig.runs(a));
        EXPECT_EQ(rig.reserved_mib(), row.persistent_mib + row.ephemeral_mib + 10);
    }
}

TEST_F(GrowthTest, ANeedIsServedByLendingTheOtherLanesAtTheirBoundaries) {
    Rig rig("fair");
    const ClientId a = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
    const ClientId b = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
    rig.need(a, 10, 700);
    EXPECT_EQ(rig.memory(), "");
    EXPECT_EQ(rig.turns(), "yield B");
    EXPECT_TRUE(rig.at(a).stalled);
    rig.answers_mappings = false;
    rig.boundary(b);
    EXPECT_EQ(rig.memory(), "unmap B 1");
    rig.answers_mappings = true;
    rig.answer();
    EXPECT_EQ(rig.memory(), "room A 10; resize A 0:700; admit B; map B 0:700") << "and B takes turns with A now";
    EXPECT_FALSE(rig.at(a).stalled);
    EXPECT_TRUE(rig.has_lane(b));
    rig.pass(milliseconds(10));
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(GrowthTest, ALaneOfOneThatCannotBePagedIsLentOnlyIfThatIsEnough) {
    for (const bool enough : {true, false}) {
        SCOPED_TRACE(enough);
        Rig rig("fair");
        const ClientId a = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
        const ClientId b = rig.enter({.pageable = false, .persistent_mib = 200, .ephemeral_mib = 300, .occupancy = 0.5});
        rig.need(a, 10, enough ? 700 : 900);
        rig.boundary(b);
        if (enough) {
            EXPECT_NE(rig.memory().find("room A 10; resize A 0:700"), std::string::npos) << rig.memory();
            continue;
        }
        EXPECT_EQ(rig.memory(), "");
        EXPECT_EQ(rig.turns(), "grant B 1") << "it goes on, and A waits until it has left";
        rig.leave(b);
        EXPECT_EQ(rig.memory(), "room A 10; resize A 0:900");
    }
}

TEST_F(GrowthTest, WhatWasObservedBeforeAdmissionIsNotChargedTwice) {
    Rig rig("fair");
    const ClientId a = rig.attach({.persistent_mib = 600, .ephemeral_mib = 100});
    rig.observe(a, 600);  // it is on the device with that, so it is placed as soon as may be
    EXPECT_EQ(rig.at(a).residency(), Residency::kResident);
    EXPECT_TRUE(rig.has_lane(a));
    EXPECT_EQ(rig.reserved_mib(), 700);
    rig.want(a);
    EXPECT_EQ(rig.reserved_mib(), 700);
}

TEST_F(GrowthTest, ANeedIsServedByPagingOutThoseThatWait) {
    Rig rig("fair");
    const ClientId a = rig.enter({.persistent_mib = 100});
    const ClientId b = rig.enter({.persistent_mib = 600});
    rig.need(a, 500, 100);
    EXPECT_EQ(rig.memory(), "unmap B 0; page-out B 600; room A 500");
    EXPECT_TRUE(rig.runs(a));
    EXPECT_EQ(rig.at(b).residency(), Residency::kPaged);
}

TEST_F(GrowthTest, ANeedOfAProfilerIsServedFromTheLanes) {
    Rig rig("fair");
    const ClientId a = rig.enter({.ephemeral_mib = 400});
    const ClientId b = rig.enter({.profiled = false});
    rig.boundary(a);
    EXPECT_EQ(rig.memory(), "room B 590");
    rig.need(b, 200, 700);
    EXPECT_EQ(rig.memory(), "unmap A 0; room B 900");
    rig.demand(b, 20, 200);
    rig.boundary(b);
    rig.boundary(b);
    EXPECT_TRUE(rig.has_lane(a) && rig.has_lane(b)) << "A has a lane again";
}

TEST_F(GrowthTest, ANeedIsDeniedOnlyIfItCouldNotBeMetAlone) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.need(a, 900, 101);
    EXPECT_EQ(rig.memory(), "deny A 1001>1000");
    EXPECT_TRUE(rig.runs(a)) << "what follows is up to its framework";
    EXPECT_FALSE(rig.at(a).stalled);
    rig.need(a, 900, 100);
    EXPECT_EQ(rig.memory(), "unmap B 0; page-out B 10; room A 900");
    rig.boundary(a);
    EXPECT_FALSE(rig.at(b).dropped);
}

TEST_F(GrowthTest, OfClientsThatCannotAllBeServedTheLastInRankIsDenied) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
    const ClientId b = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
    rig.need(a, 10, 700);
    EXPECT_EQ(rig.memory(), "") << "B can still come to its end";
    rig.need(b, 10, 700);
    EXPECT_EQ(rig.memory(), "deny B 710>1000");
    rig.die(b);
    EXPECT_EQ(rig.memory(), "room A 10; resize A 0:700");
}

TEST_F(GrowthTest, WhatAClientOwesIsNotMissingASecondTime) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.ephemeral_mib = 400, .occupancy = 0.5});
    const ClientId b = rig.enter({.ephemeral_mib = 300, .occupancy = 0.5});
    rig.observe(a, 300);
    EXPECT_EQ(rig.at(a).debt(), mebibytes(290));
    rig.need(a, 300, 450);
    rig.boundary(b);
    EXPECT_EQ(rig.memory(), "unmap B 1; room A 300; resize A 0:450; admit B; map B 0:450");
}

// Natively it would have its error, too: nobody who could make room is there, or only such as do nothing.
TEST_F(GrowthTest, ALoneClientIsNotLeftStalledForEver) {
    for (const bool others_are_clients : {false, true}) {
        SCOPED_TRACE(others_are_clients);
        Rig rig("fair");
        if (!others_are_clients) rig.set_capacity(400);
        const ClientId idle = others_are_clients ? rig.enter({.pageable = false, .persistent_mib = 600}) : kNoClient;
        const ClientId a = rig.enter({.pageable = false});
        while (others_are_clients && rig.at(idle).holds()) rig.idle(idle);
        ASSERT_TRUE(rig.runs(a));
        rig.need(a, 50, 500);
        rig.pass(rig.engine.options().deny_after - nanoseconds(1));
        EXPECT_TRUE(rig.at(a).stalled);
        rig.pass(nanoseconds(1));
        EXPECT_FALSE(rig.at(a).stalled);
        EXPECT_EQ(rig.memory().substr(0, 5), "deny ");
    }
}

// It may be saving its weights, about to end. What it holds comes back, and a denial would have cost a job.
TEST_F(GrowthTest, WhileAClientIsBetweenTwoIterationsNobodyIsDeniedAtOnce) {
    for (const bool ends : {true, false}) {
        SCOPED_TRACE(ends);
        Rig rig("fair");
        const ClientId between = rig.enter({.pageable = false, .persistent_mib = 600});
        const ClientId a = rig.enter({.pageable = false});
        while (rig.at(between).holds()) rig.idle(between);
        const ClientId waiting = rig.enter({.profiled = false});
        ASSERT_TRUE(rig.runs(a));
        rig.need(a, 50, 500);
        rig.memory();
        rig.pass(rig.engine.options().deny_after - nanoseconds(1));
        EXPECT_TRUE(rig.at(waiting).wants());
        EXPECT_TRUE(rig.at(a).stalled);
        if (ends) rig.die(between);
        else rig.pass(nanoseconds(1));
        EXPECT_FALSE(rig.at(a).stalled);
        EXPECT_EQ(rig.memory().substr(0, 5), ends ? "room " : "deny ");
    }
}

// A new service counts what jobs of the last one hold as others' until they have attached again.
TEST_F(GrowthTest, WhileOthersHaveTakenPartOfTheDeviceNobodyIsDeniedAtOnce) {
    for (const bool comes_back : {true, false}) {
        SCOPED_TRACE(comes_back);
        Rig rig("fair");
        rig.set_capacity(300);
        const ClientId a = rig.enter({.ephemeral_mib = 200});
        const ClientId b = rig.enter({.profiled = false});
        rig.boundary(a);
        ASSERT_TRUE(rig.runs(b));
        rig.need(b, 400, 0);
        EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 10");
        rig.pass(rig.engine.options().deny_after - nanoseconds(1));
        EXPECT_EQ(rig.memory(), "");
        if (comes_back) rig.set_capacity(1000);
        else rig.pass(nanoseconds(1));
        EXPECT_EQ(rig.memory(), comes_back ? "room B 400" : "deny B 400>300");
    }
}

// -------------------------------------------------------------------------------------------------------------- debts

TEST_F(GrowthTest, WhatIsObservedBeyondTheReservationIsReservedIfThereIsRoom) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.observe(a, 300);
    EXPECT_EQ(rig.reserved_mib(), 400);
    EXPECT_EQ(rig.at(a).debt(), Bytes{});
    rig.observe(a, 200);
    EXPECT_EQ(rig.reserved_mib(), 400) << "what it keeps it states at its boundary";
    rig.demand(a, 200, 100);
    rig.boundary(a);
    EXPECT_EQ(rig.reserved_mib(), 300);
}

TEST_F(GrowthTest, NobodyIsAdmittedUntilADebtIsRepaid) {
    for (const bool profiled : {true, false}) {
        SCOPED_TRACE(profiled);
        Rig rig("fair");
        const ClientId a = rig.enter();
        rig.observe(a, 950);
        EXPECT_EQ(rig.at(a).debt(), mebibytes(940));
        EXPECT_EQ(rig.reserved_mib(), 110) << "a reservation never exceeds what is there";
        const ClientId b = rig.enter({.profiled = profiled});
        rig.play(minutes(10));
        EXPECT_FALSE(rig.at(b).on_device());
        rig.observe(a, 500);
        EXPECT_EQ(rig.reserved_mib(), 500 + (profiled ? 110 : 100));
        rig.play(milliseconds(100));
        EXPECT_TRUE(rig.at(b).on_device());
    }
}

TEST_F(GrowthTest, NeitherIsOneThatOutgrewItsLaneWhileADebtIsOwed) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.occupancy = 0.5});
    const ClientId b = rig.enter({.occupancy = 0.5});
    rig.observe(a, 900);
    rig.demand(b, 10, 150);
    rig.boundary(b);
    EXPECT_EQ(rig.memory(), "unmap B 1");
    rig.pass(seconds(10));
    EXPECT_FALSE(rig.has_lane(b));
    rig.observe(a, 100);
    EXPECT_TRUE(rig.has_lane(b));
}

TEST_F(GrowthTest, ADebtIsRepaidByPagingOutThoseThatWait) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    rig.enter({.pageable = false, .persistent_mib = 100});
    const ClientId c = rig.enter({.persistent_mib = 300});
    rig.observe(a, 600);
    EXPECT_EQ(rig.memory(), "unmap C 0; page-out C 300");
    EXPECT_EQ(rig.at(a).debt(), Bytes{});
    EXPECT_EQ(rig.reserved_mib(), 600 + 100 + 100);
    rig.leave(a);
    EXPECT_TRUE(rig.has_lane(c));
}

TEST_F(GrowthTest, WhileADebtIsOwedReservationsDoNotGrow) {
    struct Row {
        std::string_view what;
        std::function<void(Rig&, ClientId a, ClientId b)> grow;
    };
    const Row rows[] = {
        {"another's need", [](Rig& rig, ClientId, ClientId b) { rig.need(b, 10, 200); }},
        {"another's demand",
         [](Rig& rig, ClientId, ClientId b) {
             rig.demand(b, 100, 100);
             rig.boundary(b);
         }},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.what);
        Rig rig("fair", without_paging());
        const ClientId a = rig.enter({.occupancy = 0.5});
        const ClientId b = rig.enter({.occupancy = 0.5});
        rig.observe(a, 900);
        EXPECT_EQ(rig.reserved_mib(), 220);
        row.grow(rig, a, b);
        EXPECT_EQ(rig.reserved_mib(), 220);
    }
}

TEST_F(GrowthTest, WhileADebtIsOwedNobodyMovesToANewLane) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter();
    rig.enter();
    rig.observe(a, 950);
    rig.stop(a);
    rig.pass(minutes(1));
    EXPECT_EQ(rig.memory(), "") << "the room for it is what A owes";
    EXPECT_EQ(rig.reserved_mib(), 120);
}

TEST_F(GrowthTest, WhenTheCapacityFallsThoseThatWaitArePagedOutAndComeBackWithIt) {
    Rig rig("fair");
    const ClientId a = rig.enter({.persistent_mib = 300});
    const ClientId b = rig.enter({.persistent_mib = 300});
    rig.answers_paging = false;
    rig.set_capacity(450);
    EXPECT_EQ(rig.memory(), "unmap B 0; page-out B 300");
    const ClientId c = rig.enter();
    EXPECT_FALSE(rig.has_lane(c)) << "more is reserved than there is";
    rig.answers_paging = true;
    rig.answer();
    EXPECT_EQ(rig.memory(), "admit C; map C 0:100");
    EXPECT_TRUE(rig.runs(a));
    rig.set_capacity(1000);
    EXPECT_EQ(rig.memory(), "page-in B 300; admit B; map B 0:100");
    EXPECT_TRUE(rig.has_lane(b));
}

TEST_F(GrowthTest, WhenTheCapacityFallsThoseThatRunMakeRoomAtABoundary) {
    Rig rig("fair");
    rig.enter({.persistent_mib = 300, .occupancy = 0.5});
    rig.enter({.persistent_mib = 300, .occupancy = 0.5});
    rig.set_capacity(500);
    rig.play(seconds(10));
    EXPECT_LE(rig.reserved_mib(), 500);
}

}  // namespace
}  // namespace salus
