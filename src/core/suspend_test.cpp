// Clients that their users suspend, and idle ones that are paged out by request or after a time.
#include <gtest/gtest.h>

#include "core/engine_fixture.h"

namespace salus {
namespace {

using SuspendTest = CheckedTest;

TEST_F(SuspendTest, ARunningClientGivesUpTurnLaneAndMemoryAtItsBoundary) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    ASSERT_TRUE(rig.runs(a));
    rig.suspend(a);
    EXPECT_EQ(rig.turns(), "yield A");
    EXPECT_TRUE(rig.runs(a)) << "until its boundary";
    rig.boundary(a);
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 10");
    EXPECT_EQ(rig.at(a).residency(), Residency::kPaged);
    EXPECT_EQ(rig.reserved_mib(), 0);
    EXPECT_EQ(rig.why(a), "paused");
    rig.pass(minutes(120));
    EXPECT_EQ(rig.memory() + rig.turns(), "") << "not until it is resumed";
    rig.bring_back(a);
    EXPECT_EQ(rig.memory(), "page-in A 10; admit A; map A 1:100");
    EXPECT_TRUE(rig.runs(a));
}

TEST_F(SuspendTest, OneThatWaitsGoesAtOnceAndOneThatIdlesToo) {
    Rig rig("fair");
    rig.answers_revokes = true;
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    ASSERT_TRUE(rig.runs(a));
    rig.suspend(b);
    EXPECT_EQ(rig.memory(), "unmap B 0; page-out B 10");
    rig.idle(a);
    rig.suspend(a);
    EXPECT_EQ(rig.turns(), "revoke A");
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 10");
    rig.bring_back(b);
    EXPECT_TRUE(rig.runs(b)) << "the others take part as before";
    rig.bring_back(a);
    EXPECT_EQ(rig.at(a).residency(), Residency::kPaged) << "it wants nothing yet";
    rig.want(a);
    EXPECT_EQ(rig.at(a).residency(), Residency::kResident);
}

TEST_F(SuspendTest, OneThatCannotBePagedIsSuspendedWithoutItsMemory) {
    Rig rig("fair");
    const ClientId a = rig.enter({.pageable = false});
    rig.suspend(a);
    rig.boundary(a);
    EXPECT_EQ(rig.memory(), "unmap A 0");
    EXPECT_EQ(rig.reserved_mib(), 10);
    const ClientId b = rig.enter({.pageable = false, .ephemeral_mib = 900});
    EXPECT_TRUE(rig.runs(b)) << "one that is suspended does not stand its ground";
    rig.leave(b);
    rig.bring_back(a);
    EXPECT_TRUE(rig.runs(a));
}

TEST_F(SuspendTest, OneThatRefusesBecauseItComputesGoesWhenItNextWantsToRun) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter();
    rig.idle(a);
    rig.suspend(a);
    rig.idle(a, 0);  // the answer to the revocation
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 10");
    rig.send(event::Unpageable{a, /*for_good=*/false});
    EXPECT_EQ(rig.memory(), "") << "not again and again";
    rig.want(a);
    EXPECT_EQ(rig.memory(), "page-out A 10");
    rig.send(event::PagedOut{a, {}});
    EXPECT_EQ(rig.at(a).residency(), Residency::kPaged);
}

TEST_F(SuspendTest, AWaiterIsNotAdmittedAndANewcomerDoesNotProfile) {
    Rig rig("fair", without_paging());
    const ClientId a = rig.enter({.persistent_mib = 500, .ephemeral_mib = 400});
    const ClientId b = rig.enter({.persistent_mib = 500, .ephemeral_mib = 400});
    const ClientId c = rig.attach({.profiled = false});
    rig.suspend(b);
    rig.suspend(c);
    rig.want(c);
    rig.leave(a);
    rig.pass(minutes(1));
    EXPECT_FALSE(rig.has_lane(b) || rig.runs(c));
    rig.bring_back(b);
    EXPECT_TRUE(rig.runs(b));
    rig.bring_back(c);
    rig.boundary(b);
    EXPECT_TRUE(rig.runs(c)) << "it profiles";
}

TEST_F(SuspendTest, OnesThatAreSuspendedKeepNobodyWaitingUnderAnExclusivePolicy) {
    Rig rig("fifo");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    EXPECT_FALSE(rig.runs(b));
    rig.suspend(a);
    rig.boundary(a);
    EXPECT_TRUE(rig.runs(b));
    rig.bring_back(a);
    rig.boundary(b);
    EXPECT_TRUE(rig.runs(a)) << "it was first";
}

TEST_F(SuspendTest, TimeThatItWasSuspendedIsNoClaimOnTheOthersTime) {
    Rig rig("fair");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.suspend(b);
    rig.play(seconds(100));
    rig.bring_back(b);
    const std::vector<double> shares = rig.shares_s({a, b}, seconds(10));
    EXPECT_NEAR(shares[0], shares[1], 0.2);
}

TEST_F(SuspendTest, ResumedBeforeItsMemoryIsOutItComesBackWhenItIs) {
    Rig rig("fair");
    rig.answers_paging = false;
    const ClientId a = rig.enter();
    rig.suspend(a);
    rig.boundary(a);
    rig.bring_back(a);
    EXPECT_EQ(rig.memory(), "");
    rig.answer();
    EXPECT_EQ(rig.memory(), "page-in A 10; admit A; map A 1:100");
    rig.suspend(a);  // while it comes in
    EXPECT_EQ(rig.memory(), "unmap A 1");
    rig.answer();
    EXPECT_EQ(rig.memory(), "page-out A 10");
}

TEST_F(SuspendTest, AMemberOfACrewHelpsATurnThatIsTakenBackToItsEnd) {
    Rig rig("fair");
    const Newcomer member{.ephemeral_mib = 0, .job = 7};
    const ClientId a = rig.enter(member), b = rig.enter(member);
    for (const ClientId id : {a, b}) rig.send(event::JoinCrew{id, JobId{7}});
    rig.play_until_runs(b);
    ASSERT_TRUE(rig.runs(a));
    rig.suspend(a);
    rig.suspend(b);
    rig.boundary(b);
    EXPECT_FALSE(rig.runs(b));
    rig.pass(milliseconds(30));
    EXPECT_TRUE(rig.runs(b)) << "the one inside may wait for it";
    rig.boundary(a);
    rig.boundary(b);
    rig.pass(seconds(10));
    for (const ClientId id : {a, b}) EXPECT_TRUE(!rig.runs(id) && rig.at(id).residency() == Residency::kPaged);
}

TEST_F(SuspendTest, AJobThatIsHeldDoesNotStart) {
    EngineOptions options = small_device();
    options.context = mebibytes(100);
    Rig rig("fair", options);
    rig.send(event::Hold{JobId{1}, true});
    rig.announce(1);
    EXPECT_EQ(rig.starts(), "");
    EXPECT_EQ(rig.engine.why_waits_to_start(JobId{1}), WaitReason::kPaused);
    rig.announce(2);
    EXPECT_EQ(rig.starts(), "start 2") << "nobody waits for it";
    rig.withdraw(2);
    rig.pass(minutes(2));
    EXPECT_EQ(rig.starts(), "");
    rig.send(event::Hold{JobId{1}, false});
    EXPECT_EQ(rig.starts(), "start 1");
}

// -------------------------------------------------------------------------------------------------------------- idle ones

TEST_F(SuspendTest, OneThatIdlesGoesByRequestAndComesBackByItself) {
    Rig rig("fair");
    rig.answers_revokes = true;
    const ClientId a = rig.enter();
    rig.page_idle(a);
    EXPECT_EQ(rig.memory() + rig.turns(), "") << "it does not idle";
    rig.idle(a);
    rig.page_idle(a);
    EXPECT_EQ(rig.turns(), "revoke A");
    EXPECT_EQ(rig.memory(), "unmap A 0; page-out A 10");
    rig.want(a);
    EXPECT_EQ(rig.memory(), "page-in A 10; admit A; map A 1:100");
    EXPECT_TRUE(rig.runs(a));
    rig.idle(a);
    EXPECT_EQ(rig.memory() + rig.turns(), "") << "the request was for once";
}

TEST_F(SuspendTest, IdleOnesGoAfterATimeIfThatIsAskedFor) {
    for (const bool asked : {false, true}) {
        EngineOptions options = small_device();
        if (asked) options.page_idle_after = seconds(10);
        Rig rig("fair", options);
        rig.answers_revokes = true;
        const ClientId a = rig.enter();
        rig.idle(a);
        rig.pass(seconds(9));
        EXPECT_EQ(rig.at(a).residency(), Residency::kResident);
        rig.pass(seconds(2));
        EXPECT_EQ(rig.at(a).residency(), asked ? Residency::kPaged : Residency::kResident);
        rig.want(a);
        EXPECT_TRUE(rig.runs(a));
    }
}

}  // namespace
}  // namespace salus
