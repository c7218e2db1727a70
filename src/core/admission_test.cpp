// Admission: who is on the device, in which lane, and who makes room for whom. Growth is in growth_test.cpp, turns in
// turns_test.cpp.
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

using AdmissionTest = CheckedTest;

// ----------------------------------------------------------------------------------------------------- the five steps

TEST_F(AdmissionTest, ANewcomerOpensALaneElseJoinsTheBestFitElseGrowsTheSmallest) {
    Rig rig("fair");
    struct Row {
        std::string_view step;
        std::int64_t ephemeral_mib;
        std::string_view memory;
    };
    const Row rows[] = {
        {"the first opens a lane", 300, "admit A; map A 0:300"},
        {"so does the second, while the policy wants one more", 200, "admit B; map B 1:200"},
        {"the third joins the smaller lane that is large enough", 150, "admit C; map C 1:200"},
        {"the fourth joins the larger, the only one large enough", 250, "admit D; map D 0:300"},
        {"the fifth grows the smaller", 400, "resize B 1:400; resize C 1:400; admit E; map E 1:400"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.step);
        rig.enter({.ephemeral_mib = row.ephemeral_mib, .occupancy = 0.5});
        EXPECT_EQ(rig.memory(), row.memory);
        EXPECT_EQ(rig.count<action::Yield>(), 0u) << "none of this needs a boundary";
    }
    EXPECT_EQ(rig.lanes(), "0:300 1:400");
    EXPECT_EQ(rig.reserved_mib(), 5 * 10 + 700);
}

TEST_F(AdmissionTest, WithoutRoomThoseThatRankBehindArePagedOutAndLaterPagedIn) {
    Rig rig("srtf");
    const ClientId a = rig.enter({.iterations_total = 100, .iteration_time = seconds(1), .persistent_mib = 600});
    const ClientId b = rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600});
    EXPECT_EQ(rig.turns(), "yield A");
    EXPECT_EQ(rig.memory(), "") << "A is in mid-iteration";
    rig.boundary(a);
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 600; admit B; map B 1:100");
    EXPECT_EQ(rig.turns(), "grant B 1");
    rig.leave(b);
    EXPECT_EQ(rig.memory(), "page-in A 600; admit A; map A 2:100");
    EXPECT_EQ(rig.turns(), "grant A 2");
    EXPECT_EQ(rig.engine.statistics().paged, mebibytes(1200));
}

TEST_F(AdmissionTest, NoMoreIsPagedOutThanNeeded) {
    Rig rig("srtf");
    const auto enter = [&](std::uint64_t iterations, std::int64_t persistent_mib) {
        return rig.enter({.iterations_total = iterations, .iteration_time = seconds(1), .persistent_mib = persistent_mib});
    };
    const ClientId a = enter(100, 10);
    const ClientId b = enter(300, 300);
    const ClientId c = enter(200, 500);
    const ClientId d = enter(10, 400);  // C is enough, and B, though it ranks last, is not
    EXPECT_EQ(rig.memory(), "unmap C 0; page-out C 500; admit D; map D 0:100");
    EXPECT_TRUE(rig.has_lane(a) && rig.has_lane(b) && rig.has_lane(d));
    EXPECT_EQ(rig.at(c).residency(), Residency::kPaged);
}

TEST_F(AdmissionTest, OneThatRanksBehindEverybodyWaits) {
    Rig rig("srtf");
    rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600});
    rig.enter({.iterations_total = 100, .iteration_time = seconds(1), .persistent_mib = 600});
    EXPECT_EQ(rig.memory() + rig.turns(), "");
    EXPECT_EQ(rig.waits(), "wait B memory");
}

TEST_F(AdmissionTest, NeitherUnpageableClientsNorAnyoneWithPagingOffIsPagedOut) {
    struct Row {
        bool paging;
        bool pageable;
        bool paged;
    };
    for (const Row& row : {Row{true, true, true}, Row{true, false, false}, Row{false, true, false}}) {
        SCOPED_TRACE(fmt::format("paging {} pageable {}", row.paging, row.pageable));
        Rig rig("srtf", row.paging ? small_device() : without_paging());
        const ClientId a = rig.enter({.pageable = row.pageable, .persistent_mib = 600});  // of unknown length
        const ClientId b = rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600});
        rig.play(minutes(1));
        EXPECT_EQ(rig.runs(b), row.paged);
        EXPECT_EQ(rig.engine.statistics().page_outs, row.paged ? 1u : 0u);
        if (row.paged) continue;
        rig.boundary(a);
        rig.enter({.pageable = row.pageable, .persistent_mib = 100});
        rig.set_capacity(500);
        rig.play(minutes(1));
        EXPECT_EQ(rig.engine.statistics().page_outs, 0u) << "nor when the capacity falls";
    }
}

TEST_F(AdmissionTest, OneThatCannotBePagedBetweenIterationsIsPagedBeforeItsNextTurn) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter({.persistent_mib = 600});
    const ClientId b = rig.enter({.persistent_mib = 600});
    rig.pass(seconds(11));  // A has had its stay
    ASSERT_EQ(rig.turns(), "yield A");
    rig.idle(a);
    ASSERT_EQ(rig.memory(), "unmap A 0; page-out A 600");
    rig.send(event::Unpageable{a, /*for_good=*/false});
    rig.pass(milliseconds(50));
    rig.want(a);
    EXPECT_EQ(rig.turns(), "");
    EXPECT_EQ(rig.memory(), "page-out A 600") << "it was given no lane meanwhile: the room is for B";
    rig.answer();  // to the first request, which counts for the second
    EXPECT_TRUE(rig.runs(b));
}

TEST_F(AdmissionTest, ARefusalToBePagedFromBeforeAClientWantedToRunIsNone) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter({.persistent_mib = 600});
    rig.enter({.persistent_mib = 600});
    rig.pass(seconds(11));  // A has had its stay
    rig.idle(a);
    ASSERT_EQ(rig.memory(), "unmap A 0; page-out A 600");
    rig.want(a);
    rig.send(event::Unpageable{a, /*for_good=*/false});
    EXPECT_EQ(rig.memory(), "page-out A 600") << "it waits now, and can be";
    rig.send(event::Unpageable{a, /*for_good=*/false});
    EXPECT_EQ(rig.memory().find("page-out"), std::string::npos) << "this was about the time in which it waits";
}

TEST_F(AdmissionTest, TheRestOfAClientThatIsPagedOutStaysCharged) {
    Rig rig("fair");
    const ClientId a = rig.enter({.persistent_mib = 600});
    rig.send(event::SetRest{a, mebibytes(100)});
    const ClientId b = rig.enter({.persistent_mib = 600});
    rig.pass(seconds(11));
    rig.idle(a);
    EXPECT_NE(rig.memory().find("page-out A 500"), std::string::npos) << rig.memory();
    EXPECT_TRUE(rig.runs(b));
    EXPECT_EQ(in_mib(rig.engine.find(a)->reserved()), 100);
    rig.send(event::SetRest{a, mebibytes(150)});  // its context grows
    EXPECT_EQ(in_mib(rig.engine.find(a)->reserved()), 150);
    EXPECT_EQ(in_mib(rig.engine.find(a)->facts.persistent), 650);
    EXPECT_EQ(in_mib(rig.engine.reserved()), 150 + 600 + 100);
    rig.send(event::SetRest{a, mebibytes(50)});
    EXPECT_EQ(in_mib(rig.engine.find(a)->reserved()), 50);
    rig.want(a);
    rig.leave(b);
    EXPECT_NE(rig.memory().find("page-in A 500"), std::string::npos) << rig.memory();
}

TEST_F(AdmissionTest, NobodyIsPagedOutForOneThatDoesNotFitBesideTheRest) {
    Rig rig("fair");
    const ClientId a = rig.enter({.persistent_mib = 600});
    rig.send(event::SetRest{a, mebibytes(100)});
    rig.enter({.persistent_mib = 850});
    rig.pass(seconds(11));
    rig.idle(a);
    EXPECT_EQ(rig.memory().find("page-out"), std::string::npos) << rig.memory();
}

TEST_F(AdmissionTest, WhoHasNothingThatMovesIsNotPagedOut) {
    Rig rig("fair");
    const ClientId newcomer = rig.attach({.profiled = false, .persistent_mib = 0});
    rig.observe(newcomer, 200);
    rig.send(event::SetRest{newcomer, mebibytes(200)});
    rig.enter({.persistent_mib = 900});
    rig.pass(seconds(30));
    EXPECT_EQ(rig.memory().find("page-out"), std::string::npos) << rig.memory();
}

TEST_F(AdmissionTest, TwoThatComputeBetweenIterationsArePagedOutOneAfterTheOther) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter({.persistent_mib = 300});
    const ClientId b = rig.enter({.persistent_mib = 300});
    const ClientId c = rig.enter({.persistent_mib = 800});
    rig.pass(seconds(11));
    rig.idle(a);
    ASSERT_TRUE(rig.runs(b));
    rig.pass(seconds(11));  // both have had their stay, and C needs the room of both
    rig.send(event::Unpageable{a, /*for_good=*/false});
    rig.idle(b);
    rig.send(event::Unpageable{b, /*for_good=*/false});
    rig.want(a);
    EXPECT_EQ(rig.turns(), "");
    EXPECT_NE(rig.memory().find("page-out A 300"), std::string::npos) << rig.memory();
    rig.send(event::PagedOut{a, {}});
    EXPECT_FALSE(rig.has_lane(a)) << "it does not come back before C";
    rig.want(b);
    EXPECT_NE(rig.memory().find("page-out B 300"), std::string::npos) << rig.memory();
    rig.send(event::PagedOut{b, {}});
    EXPECT_TRUE(rig.runs(c) || rig.has_lane(c)) << rig.why(c);
}

TEST_F(AdmissionTest, OneThatComputesForLongKeepsNobodyElseOut) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter({.persistent_mib = 300});
    const ClientId b = rig.enter({.persistent_mib = 300});
    rig.enter({.persistent_mib = 800});
    rig.pass(seconds(11));
    rig.idle(a);
    rig.pass(seconds(11));
    rig.send(event::Unpageable{a, /*for_good=*/false});
    rig.idle(b);
    rig.send(event::Unpageable{b, /*for_good=*/false});
    rig.pass(seconds(11));
    rig.want(a);
    EXPECT_TRUE(rig.runs(a)) << "C would have to wait for B, who may not be back for long";
}

TEST_F(AdmissionTest, OneThatBroughtMemoryAndCannotBePagedComesBeforeThoseItKeepsOut) {
    Rig rig("fifo", without_paging());
    const ClientId a = rig.enter({.profiled = false});
    rig.enter({.profiled = false});
    const ClientId c = rig.attach({.profiled = false});
    rig.observe(c, 300);
    rig.want(c);
    rig.die(a);
    EXPECT_EQ(rig.turns(), "grant C private; yield C") << "B came first, and may not come in while C is there";
}

TEST_F(AdmissionTest, OneThatBroughtMemoryAndCannotBePagedComesBeforeThoseBehindOneThatItKeepsOut) {
    for (const std::int64_t brought_mib : {0, 100}) {
        SCOPED_TRACE(brought_mib);
        Rig rig("fifo");
        const ClientId a = rig.enter({.profiled = false});
        rig.enter({.pageable = false, .profiled = false});
        const ClientId c = rig.attach({.profiled = false});
        rig.observe(c, brought_mib);
        rig.want(c);
        const ClientId d = rig.attach({.pageable = false, .profiled = false});
        rig.observe(d, 300);
        rig.want(d);
        rig.die(a);
        EXPECT_EQ(rig.turns(), "grant D private; yield D") << "C comes after B, who may not come in while D is there";
    }
}

TEST_F(AdmissionTest, OneThatDoesNotFitBesideMemoryThatStaysLetsItsOwnerGoFirst) {
    Rig rig("fifo", without_paging());
    const ClientId a = rig.attach({.persistent_mib = 300, .ephemeral_mib = 500});
    const ClientId b = rig.attach({.profiled = false});
    rig.observe(b, 300);
    rig.observe(a, 300);
    rig.want(a);
    ASSERT_EQ(rig.turns(), "");
    rig.want(b);
    EXPECT_EQ(rig.turns(), "grant B private; yield B") << "A came first, and may not come in while B is there";
}

TEST_F(AdmissionTest, OneThatBroughtMemoryReservesAllThatItStates) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.attach({.persistent_mib = 300});
    rig.observe(a, 100);
    ASSERT_TRUE(rig.has_lane(a));
    EXPECT_EQ(in_mib(rig.at(a).reserved()), 300);
}

TEST_F(AdmissionTest, UnderATimeSlicedPolicyAClientJustPagedInStaysForAWhile) {
    struct Row {
        std::string_view policy;
        int priority;
        bool at_once;
    };
    // 600 MiB both ways at 12 GB/s take 105 ms: 1 % of 10.5 s.
    for (const Row& row : {Row{"fair", 0, false}, Row{"las", 0, false}, Row{"rr", 0, false}, Row{"priority", 0, false},
                           Row{"priority", 1, true}}) {
        SCOPED_TRACE(fmt::format("{} {}", row.policy, row.priority));
        Rig rig(row.policy);
        const ClientId a = rig.enter({.persistent_mib = 600});
        const ClientId b = rig.enter({.priority = row.priority, .persistent_mib = 600});
        rig.play(milliseconds(10'400));
        EXPECT_EQ(rig.runs(b), row.at_once);
        if (row.at_once) continue;
        rig.play(milliseconds(700));
        EXPECT_TRUE(rig.runs(b));
        rig.play(milliseconds(9'500));
        EXPECT_TRUE(rig.runs(b)) << "A is behind now, and waits";
        EXPECT_EQ(rig.engine.statistics().page_outs, 1u);
        rig.play(milliseconds(1'000));
        EXPECT_TRUE(rig.runs(a));
    }
}

// Else one that comes back before the other's lane is mapped would keep it out for ever.
TEST_F(AdmissionTest, UnderATimeSlicedPolicyAClientThatCameInHasATurnFirst) {
    Rig rig("fair");
    const ClientId a = rig.enter({.user = 1, .weight = 100, .persistent_mib = 0, .ephemeral_mib = 600});
    rig.pass(seconds(1));
    rig.idle(a);
    const ClientId b = rig.enter({.user = 2, .persistent_mib = 0, .ephemeral_mib = 700});
    rig.idle(a);
    ASSERT_TRUE(rig.runs(b)) << "A idles, and has nothing that it would take time to page";
    rig.pass(seconds(1));
    rig.want(a);
    rig.pass(milliseconds(500));
    rig.boundary(b);
    ASSERT_TRUE(rig.runs(a)) << "it has run for less than its share";
    rig.pass(milliseconds(100));
    rig.answers_mappings = false;
    rig.idle(a);
    rig.pass(rig.engine.options().review_every);
    rig.idle(a);
    rig.answer();
    ASSERT_TRUE(rig.has_lane(b));
    rig.want(a);
    EXPECT_TRUE(rig.has_lane(b)) << "its lane is still being mapped";
    rig.pass(seconds(1));
    EXPECT_TRUE(rig.has_lane(b));
    rig.answers_mappings = true;
    rig.answer();
    EXPECT_TRUE(rig.runs(b));
    rig.pass(seconds(1));
    rig.boundary(b);
    EXPECT_TRUE(rig.runs(a));
}

TEST_F(AdmissionTest, AnIdleClientIsPagedOutWhateverItsRankAfterAWhile) {
    Rig rig("srtf");
    const ClientId a = rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600});
    rig.idle(a);
    const ClientId b = rig.enter({.iterations_total = 100, .iteration_time = seconds(1), .persistent_mib = 600});
    rig.pass(seconds(10));
    EXPECT_FALSE(rig.has_lane(b));
    rig.answers_revokes = true;
    rig.pass(seconds(1));
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 600; admit B; map B 1:100");
}

// ----------------------------------------------------------------------------------------------------------- refusals

TEST_F(AdmissionTest, AJobThatCouldNeverFitAloneIsRefusedWithBothFigures) {
    Rig rig("fair");
    const ClientId a = rig.attach({.persistent_mib = 600, .ephemeral_mib = 500});
    EXPECT_EQ(rig.memory(), "refuse A 1100>1000");
    rig.want(a);
    const ClientId b = rig.enter({.persistent_mib = 500, .ephemeral_mib = 500});
    EXPECT_TRUE(rig.runs(b)) << "exactly what there is, and nobody is in its way";
    rig.leave(b);
    rig.pass(minutes(10));
    EXPECT_FALSE(rig.has_lane(a));
    EXPECT_EQ(rig.engine.statistics().refusals, 1u);
}

TEST_F(AdmissionTest, OnlyWhatIsKnownToBeNeededRefusesAJob) {
    Rig rig("fair");
    const ClientId a = rig.enter({.profiled = false, .persistent_mib = 5000});
    EXPECT_EQ(rig.memory(), "room A 1000") << "the figures of an earlier run are only an estimate";
    rig.demand(a, 600, 500);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A private; yield A") << "not sure before it is profiled";
    rig.boundary(a);
    EXPECT_EQ(rig.memory(), "refuse A 1100>1000");
}

TEST_F(AdmissionTest, WhileOthersUseTheDeviceAJobThatWouldFitAloneWaits) {
    Rig rig("fair");
    rig.set_capacity(500);
    const ClientId a = rig.enter({.persistent_mib = 600});
    EXPECT_EQ(rig.waits(), "wait A memory");
    rig.set_capacity(1000);
    EXPECT_TRUE(rig.runs(a));
}

// ------------------------------------------------------------------------------------------- charged until acknowledged

TEST_F(AdmissionTest, ALaneThatShrankIsChargedAtItsOldSizeUntilAllHaveAcknowledged) {
    Rig rig("fair");
    const ClientId a = rig.enter({.ephemeral_mib = 600});
    rig.enter({.ephemeral_mib = 100});
    rig.answers_mappings = false;
    rig.leave(a);
    EXPECT_EQ(rig.memory(), "resize B 0:100");
    EXPECT_EQ(rig.lanes(), "0:100(600)");
    EXPECT_EQ(rig.reserved_mib(), 610);
    const ClientId c = rig.enter({.user = 2, .ephemeral_mib = 500});
    rig.pass(minutes(1));
    EXPECT_FALSE(rig.has_lane(c)) << "the room is on its way, and B may still use it";
    EXPECT_EQ(rig.engine.statistics().page_outs, 0u) << "nobody need be paged out for it";
    rig.answers_mappings = true;
    rig.answer();
    EXPECT_EQ(rig.memory(), "admit C; map C 1:500");
}

TEST_F(AdmissionTest, WhatIsPagedOutIsChargedUntilItIsGoneAndUnmapped) {
    for (const bool mappings_first : {true, false}) {
        SCOPED_TRACE(mappings_first);
        Rig rig("srtf");
        const ClientId a =
            rig.enter({.iterations_total = 90, .iteration_time = seconds(1), .persistent_mib = 600, .ephemeral_mib = 300});
        const ClientId b =
            rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600, .ephemeral_mib = 200});
        rig.answers_mappings = mappings_first;
        rig.answers_paging = !mappings_first;
        rig.boundary(a);
        EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 600");
        EXPECT_EQ(rig.reserved_mib(), mappings_first ? 600 : 300) << "the other half is answered for";
        EXPECT_FALSE(rig.has_lane(b));
        rig.answers_mappings = rig.answers_paging = true;
        rig.answer();
        EXPECT_TRUE(rig.runs(b));
    }
}

TEST_F(AdmissionTest, NobodyBehindTakesTheRoomThatIsOnItsWayForAnother) {
    Rig rig("srtf");
    const auto enter = [&](std::uint64_t iterations, std::int64_t persistent_mib) {
        return rig.enter({.iterations_total = iterations, .iteration_time = seconds(1), .persistent_mib = persistent_mib});
    };
    const ClientId a = enter(100, 700);
    const ClientId b = enter(10, 700);
    rig.answers_paging = false;
    rig.boundary(a);
    const ClientId c = enter(50, 10);
    EXPECT_FALSE(rig.has_lane(c)) << "it would fit beside A, but it is not its turn";
    rig.answers_paging = true;
    rig.answer();
    EXPECT_TRUE(rig.has_lane(b));
}

// -------------------------------------------------------------------------------------------------------- reservations

TEST_F(AdmissionTest, TheOldestWaiterGetsAReservationThatNobodyMayJump) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.persistent_mib = 400});
    const ClientId b = rig.enter({.persistent_mib = 700});
    const ClientId c = rig.enter({.persistent_mib = 800});
    const ClientId d = rig.enter({.persistent_mib = 50});
    EXPECT_TRUE(rig.has_lane(d)) << "at first those that fit may go in";
    EXPECT_EQ(rig.engine.reserved_for(), kNoClient);
    rig.pass(rig.engine.options().reserve_after);
    EXPECT_EQ(rig.engine.reserved_for(), b);
    const ClientId e = rig.enter({.persistent_mib = 10});
    rig.pass(minutes(30));
    EXPECT_FALSE(rig.has_lane(e));
    EXPECT_EQ(rig.why(e), "reservation behind B");
    rig.leave(a);
    EXPECT_TRUE(rig.has_lane(b));
    rig.pass(seconds(1));
    EXPECT_EQ(rig.engine.reserved_for(), c) << "the next in line";
    rig.die(c);
    EXPECT_TRUE(rig.has_lane(e));
}

TEST_F(AdmissionTest, AProfiledClientThatCannotBePagedKeepsOthersOutUntilItFits) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.persistent_mib = 300, .ephemeral_mib = 300});
    const ClientId b = rig.enter({.profiled = false});
    rig.boundary(a);
    rig.demand(b, 350, 400);
    rig.boundary(b);
    rig.boundary(b);
    EXPECT_FALSE(rig.has_lane(b)) << "600 and 350, and a lane larger by 100";
    EXPECT_TRUE(rig.runs(a)) << "those that are in can go on";
    const ClientId c = rig.enter({.persistent_mib = 10});
    rig.pass(minutes(30));
    EXPECT_FALSE(rig.has_lane(c)) << "or B might wait for ever";
    rig.leave(a);
    EXPECT_TRUE(rig.runs(b));
    rig.pass(seconds(1));
    EXPECT_TRUE(rig.has_lane(c));
}

// ----------------------------------------------------------------------------------------------------- profiling turns

TEST_F(AdmissionTest, ANewcomerProfilesAloneInPrivateMemoryTwiceAndThenGetsItsLane) {
    Rig rig("fair");
    const ClientId a = rig.enter({.occupancy = 0.5});
    const ClientId b = rig.enter({.occupancy = 0.5});
    const ClientId c = rig.enter({.profiled = false});
    EXPECT_EQ(rig.turns(), "yield A; yield B") << "at once: it needs the device to itself";
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "") << "B is not at its boundary yet";
    rig.boundary(b);
    EXPECT_EQ(rig.memory(), "room C 780") << "all that is free";
    EXPECT_EQ(rig.turns(), "grant C private; yield C") << "for one iteration";
    EXPECT_EQ(rig.why(a), "profiling behind C");
    rig.pass(milliseconds(100));
    EXPECT_EQ(rig.turns(), "");

    rig.demand(c, 20, 200);
    rig.boundary(c);
    EXPECT_EQ(rig.memory(), "room C 780");
    EXPECT_EQ(rig.turns(), "grant C private; yield C");
    EXPECT_EQ(rig.engine.find(c)->profile_iterations, 1u);
    rig.boundary(c);
    EXPECT_EQ(rig.memory(), "resize A 0:200; admit C; map C 0:200");
    EXPECT_TRUE(rig.at(c).profiled);
    EXPECT_EQ(rig.reserved_mib(), 40 + 300) << "what it did not need is free again";
    EXPECT_TRUE(rig.runs(b)) << "the others run again";

    rig.play(seconds(1));
    EXPECT_EQ(rig.engine.statistics().profiling_turns, 2u);
    EXPECT_GT(rig.at(c).facts.iterations_done, 2u) << "it runs in its lane";
}

TEST_F(AdmissionTest, AnIdleNewcomerBlocksNobody) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    const ClientId b = rig.attach({.profiled = false});
    rig.pass(seconds(10));
    EXPECT_EQ(rig.turns(), "") << "it has not wanted to run yet";
    rig.want(b);
    rig.boundary(a);
    EXPECT_TRUE(rig.runs(b));
    rig.demand(b, 20, 100);
    rig.idle(b);
    EXPECT_EQ(rig.turns(), "grant A 0") << "it idles between its profiling turns";
    rig.want(b);
    EXPECT_EQ(rig.turns(), "yield A");
    rig.idle(b, 0);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0") << "it thought better of it";
}

TEST_F(AdmissionTest, ANewcomerThatCountsNoIterationsProfilesForTwiceAsManyTurns) {
    Rig rig("fair");
    const ClientId a = rig.enter({.profiled = false});
    for (int turn = 0; turn < 4; ++turn) {
        EXPECT_FALSE(rig.at(a).profiled) << turn;
        rig.send(event::Boundary{a, 0});
    }
    EXPECT_TRUE(rig.at(a).profiled);
    EXPECT_EQ(rig.engine.find(a)->profile_iterations, 0u);
}

TEST_F(AdmissionTest, AProfilerThatIsStoppedHoldsNobodyUp) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter({.profiled = false});
    rig.boundary(a);
    EXPECT_TRUE(rig.runs(b));
    rig.stop(b);
    EXPECT_EQ(rig.turns(), "grant A 0");
}

TEST_F(AdmissionTest, UnderPriorityANewcomerProfilesNotBeforeThoseAboveIt) {
    for (const int priority : {0, 1, 2}) {
        SCOPED_TRACE(priority);
        Rig rig("priority");
        rig.enter({.priority = 1});
        rig.enter({.priority = priority, .profiled = false});
        EXPECT_EQ(rig.turns(), priority >= 1 ? "yield A" : "");
    }
}

TEST_F(AdmissionTest, ANewcomerThatGoesWhileLanesAreGatheredForItLeavesNothingBehind) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter({.profiled = false});
    EXPECT_EQ(rig.turns(), "yield A");
    rig.die(b);
    EXPECT_EQ(rig.engine.profiling(), kNoClient);
    rig.attach(b, {});  // its id is free for reuse
    rig.want(b);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant B 0");
    rig.pass(milliseconds(10));
    rig.boundary(b);
    EXPECT_EQ(rig.turns(), "grant A 0");
}

// ------------------------------------------------------------------------------------------------------ users and lanes

TEST_F(AdmissionTest, ClientsOfDifferentUsersNeverShareALane) {
    Rig rig("fair");
    rig.enter({.user = 1, .pageable = false, .ephemeral_mib = 600});
    const ClientId b = rig.enter({.user = 2, .ephemeral_mib = 100});
    EXPECT_EQ(rig.memory(), "admit B; map B 1:100") << "although the policy wants no second lane";
    const ClientId c = rig.enter({.user = 3, .ephemeral_mib = 300});
    EXPECT_FALSE(rig.has_lane(c)) << "it would fit into A's lane";
    EXPECT_EQ(rig.why(c), "memory behind A");
    rig.leave(b);
    EXPECT_EQ(rig.memory(), "admit C; map C 2:300");
}

TEST_F(AdmissionTest, PackGivesEverybodyALaneOfItsOwnAndPagesNobodyOut) {
    Rig rig("pack");
    const ClientId a = rig.enter({.occupancy = 0.6});
    const ClientId b = rig.enter({.occupancy = 0.6});
    EXPECT_TRUE(rig.runs(a) && rig.runs(b)) << "more than a device full is no loss, less would be";
    const ClientId c = rig.enter({.occupancy = 0.6});
    rig.play(minutes(1));
    EXPECT_FALSE(rig.has_lane(c)) << "it waits, although it would fit into either lane";
    EXPECT_EQ(rig.why(c), "memory behind A");
    rig.leave(a);
    EXPECT_EQ(rig.memory(), "admit C; map C 2:100");
    EXPECT_EQ(rig.engine.statistics().page_outs, 0u);
}

TEST_F(AdmissionTest, LanesShrinkAndCloseWhenClientsLeave) {
    Rig rig("fair");
    const ClientId a = rig.enter({.ephemeral_mib = 600});
    const ClientId b = rig.enter({.ephemeral_mib = 300});
    const ClientId c = rig.enter({.ephemeral_mib = 100});
    rig.leave(a);
    EXPECT_EQ(rig.memory(), "resize B 0:300; resize C 0:300");
    rig.die(c);
    EXPECT_EQ(rig.memory(), "") << "B needs it as large as it is";
    rig.leave(b);
    EXPECT_EQ(rig.lanes(), "");
    EXPECT_EQ(rig.engine.reserved(), Bytes{});
}

TEST_F(AdmissionTest, ADemandTakesEffectAtTheBoundary) {
    Rig rig("fair");
    const ClientId a = rig.enter({.ephemeral_mib = 600});
    rig.demand(a, 50, 100);
    EXPECT_EQ(rig.reserved_mib(), 610) << "it is in mid-iteration";
    rig.boundary(a);
    EXPECT_EQ(rig.reserved_mib(), 650);
    const ClientId b = rig.enter({.user = 2, .ephemeral_mib = 500});
    EXPECT_EQ(rig.memory(), "resize A 0:100; admit B; map B 1:500") << "what A no longer needs is there for others";
    rig.demand(a, 50, 200);
    rig.boundary(a);
    EXPECT_EQ(rig.lanes(), "1:500 2:200") << "one that outgrew its lane gets another";
    EXPECT_TRUE(rig.has_lane(b));
}

TEST_F(AdmissionTest, AClientThatWaitsForItsTurnGetsALaneOfItsOwnWhenThereIsRoom) {
    Rig rig("fair");
    const ClientId a = rig.enter({.occupancy = 0.9});
    const ClientId b = rig.enter({.occupancy = 0.4});
    const ClientId c = rig.enter({.occupancy = 0.4});
    EXPECT_EQ(rig.lanes(), "0:100");
    rig.leave(a);
    rig.play(minutes(1));
    EXPECT_TRUE(rig.runs(b) && rig.runs(c)) << "in lanes " << rig.lanes();
}

// --------------------------------------------------------------------------------------------------- limits of a user

EngineOptions with_user_memory(std::int64_t mib) {
    EngineOptions options = small_device();
    options.user_memory_max = mebibytes(mib);
    return options;
}

TEST_F(AdmissionTest, AUserAtHisLimitWaitsAndOthersDoNot) {
    EngineOptions options = with_user_memory(400);
    options.capacity = mebibytes(2000);
    Rig rig("fair", options);
    const ClientId a = rig.enter({.user = 1, .persistent_mib = 200});
    const ClientId b = rig.enter({.user = 1, .persistent_mib = 200});
    EXPECT_EQ(rig.memory(), "") << "200 + 100 + 200 is more than 400";
    EXPECT_EQ(rig.why(b), "user-memory");
    const ClientId c = rig.enter({.user = 2, .persistent_mib = 200});
    EXPECT_TRUE(rig.has_lane(c));
    const ClientId d = rig.enter({.user = 1, .persistent_mib = 50});
    EXPECT_TRUE(rig.has_lane(d)) << "which fits, behind one that does not";
    const ClientId root = rig.enter({.user = 0, .persistent_mib = 350});
    EXPECT_TRUE(rig.has_lane(root)) << "root has no limit";
    rig.play(minutes(1));
    EXPECT_FALSE(rig.has_lane(b));
    rig.leave(root, 0);
    rig.die(a);
    EXPECT_TRUE(rig.has_lane(b));
    EXPECT_EQ(rig.engine.statistics().page_outs, 0u);
}

TEST_F(AdmissionTest, WhoeverExceedsAUsersLimitAloneIsRefused) {
    Rig rig("fair", with_user_memory(400));
    rig.attach({.user = 1, .persistent_mib = 350});
    EXPECT_EQ(rig.memory(), "refuse A 450>400");
    const ClientId b = rig.enter({.user = 1, .persistent_mib = 100});
    rig.need(b, 350, 100);
    EXPECT_EQ(rig.memory(), "deny B 450>400");
    const ClientId c = rig.enter({.user = 0, .persistent_mib = 500});
    EXPECT_TRUE(rig.has_lane(c));
}

TEST_F(AdmissionTest, ANewcomerThatBroughtMemoryWaitsForItsUsersLimitAndBarsNobody) {
    EngineOptions options = with_user_memory(400);
    options.paging = false;
    Rig rig("fair", options);
    rig.enter({.user = 1, .persistent_mib = 300});
    const ClientId b = rig.attach({.user = 1, .profiled = false});
    rig.observe(b, 50);
    rig.want(b);
    EXPECT_EQ(rig.why(b), "user-memory");
    const ClientId c = rig.enter({.user = 2, .persistent_mib = 100});
    EXPECT_TRUE(rig.has_lane(c));
    rig.play(minutes(1));
    EXPECT_FALSE(rig.at(b).profiled);
    EXPECT_FALSE(rig.runs(b));
}

TEST_F(AdmissionTest, WhoeverWaitsForItsUsersLimitKeepsNoNewcomerFromProfiling) {
    Rig rig("priority", with_user_memory(300));
    const ClientId a = rig.attach({.user = 1, .priority = 1, .profiled = false});
    rig.want(a);
    rig.demand(a, 200, 100);
    rig.idle(a);
    const ClientId b = rig.enter({.user = 1, .priority = 2, .persistent_mib = 200});
    EXPECT_EQ(rig.why(b), "user-memory");
    rig.want(a);
    EXPECT_TRUE(rig.runs(a)) << "b goes first, but only when a has gone";
}

event::SetUserLimits limit(std::uint32_t user, std::int64_t mib) { return {UserId{user}, 0, mebibytes(mib)}; }

TEST_F(AdmissionTest, AUserMayHaveAnotherLimitThanTheOthers) {
    EngineOptions options = with_user_memory(400);
    options.capacity = mebibytes(2000);
    Rig rig("fair", options);
    rig.send(limit(1, 700));
    rig.send(limit(2, 100));
    rig.send(limit(3, 0));
    rig.send(limit(0, 100));
    EXPECT_TRUE(rig.has_lane(rig.enter({.user = 1, .persistent_mib = 200})));
    EXPECT_TRUE(rig.has_lane(rig.enter({.user = 1, .persistent_mib = 200})));
    EXPECT_FALSE(rig.has_lane(rig.enter({.user = 1, .persistent_mib = 300})));
    rig.memory();
    rig.attach({.user = 2, .persistent_mib = 50});
    EXPECT_EQ(rig.memory(), "refuse D 150>100");
    EXPECT_TRUE(rig.has_lane(rig.enter({.user = 3, .persistent_mib = 500}))) << "no limit";
    EXPECT_TRUE(rig.has_lane(rig.enter({.user = 0, .persistent_mib = 200}))) << "root never has one";
}

TEST_F(AdmissionTest, AChangedLimitHoldsAtOnceAndTakesNothingAway) {
    EngineOptions options = with_user_memory(400);
    options.capacity = mebibytes(2000);
    Rig rig("fair", options);
    const ClientId a = rig.enter({.user = 1, .persistent_mib = 200});
    const ClientId b = rig.enter({.user = 1, .persistent_mib = 250});
    EXPECT_EQ(rig.why(b), "user-memory");
    rig.send(limit(1, 600));
    EXPECT_TRUE(rig.has_lane(b));
    rig.memory();
    rig.send(limit(1, 300));
    rig.play(minutes(1));
    EXPECT_TRUE(rig.has_lane(a) && rig.has_lane(b));
    const ClientId c = rig.enter({.user = 1, .persistent_mib = 10});
    EXPECT_EQ(rig.why(c), "user-memory");
    rig.die(a);
    rig.die(c);
    const ClientId d = rig.enter({.user = 1, .persistent_mib = 300});
    EXPECT_EQ(rig.memory(), "") << "b came in under a larger limit, so nobody is refused yet";
    EXPECT_EQ(rig.why(d), "user-memory");
    rig.die(b);
    EXPECT_TRUE(rig.has_lane(d)) << "it is alone";
}

}  // namespace
}  // namespace salus
