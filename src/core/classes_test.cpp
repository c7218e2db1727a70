// Classes: interactive clients wait for no batch client, by Note [Beside] in turns.cpp.
#include <string_view>

#include <gtest/gtest.h>

#include "core/engine.h"
#include "core/engine_fixture.h"
#include "policies/table.h"

namespace salus {
namespace {

constexpr Newcomer kInteractive{.interactive = true};

struct ClassRig : Rig {
    using Rig::Rig;

    bool is_beside(ClientId id) const { return has_lane(id) && engine.lanes().find(at(id).lane)->beside; }
};

using ClassTest = CheckedTest;

TEST_F(ClassTest, AnInteractiveClientRunsAtOnceUnderEveryPolicy) {
    for (const Policy* policy : all_policies()) {
        SCOPED_TRACE(policy->info.name);
        ClassRig rig(policy->info.name);
        const ClientId training = rig.enter();
        const ClientId server = rig.enter(kInteractive);
        EXPECT_TRUE(rig.runs(training));
        EXPECT_TRUE(rig.runs(server));
        EXPECT_TRUE(rig.is_beside(server));
        EXPECT_FALSE(rig.is_beside(training));
        rig.pass(seconds(2));
        EXPECT_TRUE(rig.runs(training) && rig.runs(server)) << "nobody is asked to yield";
    }
}

TEST_F(ClassTest, ItsLaneIsNotOneOfThoseThatMayRunAtOnce) {
    EngineOptions options = small_device();
    options.lanes_max = 1;
    ClassRig rig("fair", options);
    const ClientId a = rig.enter();
    const ClientId server = rig.enter(kInteractive);
    const ClientId another = rig.enter(kInteractive);
    EXPECT_TRUE(rig.runs(a) && rig.runs(server) && rig.runs(another));
    const ClientId b = rig.enter();
    EXPECT_FALSE(rig.runs(b)) << "batch clients still take turns";
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant D 0");
}

TEST_F(ClassTest, AProfilingTurnDoesNotHoldItUp) {
    ClassRig rig("fair");
    const ClientId server = rig.enter(kInteractive);
    rig.idle(server);
    const ClientId newcomer = rig.enter({.profiled = false});
    EXPECT_TRUE(rig.runs(newcomer));
    rig.want(server);
    EXPECT_TRUE(rig.runs(server));
    EXPECT_TRUE(rig.runs(newcomer));
}

TEST_F(ClassTest, ACrowdThatIsInteractiveProfilesAtOnce) {
    ClassRig rig("fair");
    const ClientId training = rig.enter();
    for (int i = 0; i < 4; ++i) {
        const ClientId server = rig.enter({.profiled = false, .interactive = true});
        EXPECT_EQ(rig.turns(), fmt::format("grant {} private; yield {}", letter(server), letter(server)));
    }
    EXPECT_TRUE(rig.runs(training)) << "nobody has to wait for them";
}

TEST_F(ClassTest, OnADeviceWithContextsEveryNewcomerDoes) {
    EngineOptions options = small_device();
    options.context = mebibytes(10);
    ClassRig rig("fair", options);
    const ClientId training = rig.enter();
    const ClientId first = rig.enter({.profiled = false});
    const ClientId second = rig.enter({.profiled = false});
    EXPECT_TRUE(rig.runs(training) && rig.runs(first) && rig.runs(second));
}

TEST_F(ClassTest, OfNewcomersThatNeedMoreOneHasTheDeviceToItself) {
    ClassRig rig("fair");
    const ClientId first = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    const ClientId second = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    ASSERT_TRUE(rig.runs(first) && rig.runs(second));
    rig.need(first, 900, 0);
    EXPECT_EQ(rig.memory(), "room A 900");
    rig.need(second, 500, 0);
    EXPECT_EQ(rig.memory(), "") << "it waits for the first one's end";
    rig.demand(first, 100, 100);
    rig.boundary(first);
    EXPECT_NE(rig.memory().find("room B 500"), std::string::npos) << rig.memory();
}

TEST_F(ClassTest, NewcomersThatGrowStepByStepTakeTurnsAtThat) {
    ClassRig rig("fair");
    const ClientId first = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    const ClientId second = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    rig.need(first, 50, 0);
    rig.need(second, 50, 0);
    for (std::int64_t mib = 100; mib <= 900; mib += 50) {
        rig.need(first, mib, 0);
        EXPECT_EQ(rig.memory(), fmt::format("room A {}", mib)) << "the second one has not taken any of it";
    }
    rig.demand(first, 100, 100);
    rig.boundary(first);
    EXPECT_NE(rig.memory().find("room B 50"), std::string::npos) << rig.memory();
}

TEST_F(ClassTest, NobodyWaitsForANewcomerThatIsStopped) {
    ClassRig rig("fair");
    const ClientId first = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    const ClientId second = rig.enter({.profiled = false, .persistent_mib = 0, .interactive = true});
    rig.need(first, 200, 0);
    rig.stop(first);
    rig.need(second, 300, 0);
    EXPECT_EQ(rig.memory(), "room B 300");
}

// It keeps its turn, and the others would wait for its end and for each other.
TEST_F(ClassTest, ANewcomerThatIsStoppedGetsItsMemoryIfNobodyElseCouldRun) {
    ClassRig rig("fair");
    const Newcomer newcomer{.profiled = false, .persistent_mib = 0, .interactive = true};
    const ClientId idle = rig.enter({.pageable = false, .persistent_mib = 400, .ephemeral_mib = 0});
    const ClientId profiler = rig.enter(newcomer), large = rig.enter(newcomer), small = rig.enter(newcomer);
    rig.idle(idle);
    rig.need(profiler, 50, 0);
    rig.need(large, 700, 0);
    rig.need(small, 100, 0);
    EXPECT_EQ(rig.memory(), "") << "they wait for the end of the first one's turn";
    rig.stop(small);
    rig.die(profiler);
    EXPECT_EQ(rig.memory(), "room D 100");
    rig.pass(rig.engine.options().deny_after);
    EXPECT_EQ(rig.memory(), "deny C 700>1000") << "the others keep what it needs";
    rig.resume(small);
    rig.demand(small, 10, 0);
    rig.boundary(small);
    EXPECT_EQ(in_mib(rig.at(small).facts.persistent), 10);
}

TEST_F(ClassTest, WhereMemoryIsShortInteractiveClientsShareALane) {
    ClassRig rig("fair");
    const ClientId training = rig.enter({.ephemeral_mib = 600});
    const ClientId first = rig.enter({.ephemeral_mib = 300, .interactive = true});
    const ClientId second = rig.enter({.ephemeral_mib = 250, .interactive = true});
    EXPECT_TRUE(rig.runs(training) && rig.runs(first));
    EXPECT_TRUE(rig.is_beside(second));
    EXPECT_EQ(rig.at(first).lane, rig.at(second).lane);
    EXPECT_EQ(rig.why(second), "turn behind B");
    rig.answers_revokes = true;
    rig.idle(first);
    EXPECT_TRUE(rig.runs(second)) << "whoever idles makes way";
}

TEST_F(ClassTest, UnderAnExclusivePolicyTooTheyMakeWayForEachOther) {
    ClassRig rig("fifo");
    rig.enter({.ephemeral_mib = 600});
    const ClientId first = rig.enter({.ephemeral_mib = 300, .interactive = true});
    const ClientId second = rig.enter({.ephemeral_mib = 250, .interactive = true});
    rig.answers_revokes = true;
    rig.idle(first);
    EXPECT_TRUE(rig.runs(second));
}

TEST_F(ClassTest, WithoutMemoryForALaneBesideItTakesTurnsUntilThereIsSome) {
    ClassRig rig("fair");
    const ClientId large = rig.enter({.ephemeral_mib = 700});
    const ClientId training = rig.enter({.ephemeral_mib = 400});
    const ClientId server = rig.enter({.ephemeral_mib = 400, .interactive = true});
    EXPECT_FALSE(rig.is_beside(server));
    EXPECT_EQ(rig.at(server).lane, rig.at(large).lane);
    EXPECT_FALSE(rig.runs(server));
    rig.leave(large);
    EXPECT_TRUE(rig.runs(training)) << rig.turns();
    EXPECT_TRUE(rig.is_beside(server)) << "the lane has shrunk";
    EXPECT_TRUE(rig.runs(server));
}

TEST_F(ClassTest, AClientThatTurnsOutToBeInteractiveMovesAtItsBoundary) {
    ClassRig rig("fair");
    const ClientId a = rig.enter();
    const ClientId server = rig.enter();
    rig.set_class(server, true);
    EXPECT_TRUE(rig.is_beside(server)) << "it only waited";
    EXPECT_TRUE(rig.runs(server) && rig.runs(a));
    rig.set_class(a, true);
    EXPECT_EQ(rig.turns(), "yield A");
    rig.boundary(a);
    EXPECT_TRUE(rig.is_beside(a));
    EXPECT_TRUE(rig.runs(a));
}

TEST_F(ClassTest, AClientThatTurnsOutToBeBatchTakesTurnsAgain) {
    ClassRig rig("fair");
    const ClientId training = rig.enter();
    const ClientId server = rig.enter(kInteractive);
    rig.set_class(server, false);
    EXPECT_EQ(rig.turns(), "yield B");
    rig.boundary(server);
    EXPECT_FALSE(rig.is_beside(server));
    EXPECT_EQ(rig.at(server).lane, rig.at(training).lane);
    EXPECT_FALSE(rig.runs(server));
    rig.pass(kMinTurn);
    rig.boundary(training);
    EXPECT_TRUE(rig.runs(server));
}

TEST_F(ClassTest, TheTimeOfInteractiveClientsDoesNotMoveTheOthersClock) {
    ClassRig rig("fair");
    const ClientId server = rig.enter(kInteractive);
    rig.idle(server);
    const ClientId a = rig.enter();
    rig.play(seconds(5));
    const ClientId b = rig.enter();
    EXPECT_NEAR(rig.at(b).facts.virtual_time_s, rig.at(a).facts.virtual_time_s, 0.1)
        << "a newcomer starts where the others are, not where a server is that has hardly run";
}

TEST_F(ClassTest, AServerThatBecomesBatchNeedNotWaitAsLongAsItRan) {
    ClassRig rig("fair");
    const ClientId training = rig.enter();
    const ClientId server = rig.enter(kInteractive);
    rig.play(seconds(60));
    rig.set_class(server, false);
    rig.play(seconds(3));
    const Duration before = rig.at(server).facts.attained;
    rig.play(seconds(2));
    EXPECT_NEAR((rig.at(server).facts.attained - before).seconds(), 1, 0.2);
    EXPECT_TRUE(rig.has_lane(training));
}

TEST_F(ClassTest, ClientsThatCannotBePagedAndHaveAllOutgrownTheirLanesDoNotWaitForEver) {
    ClassRig rig("fair");
    const ClientId a = rig.enter({.pageable = false, .persistent_mib = 300, .ephemeral_mib = 100});
    const ClientId b = rig.enter({.pageable = false, .persistent_mib = 300, .ephemeral_mib = 100, .interactive = true});
    const ClientId idle = rig.enter({.pageable = false, .ephemeral_mib = 10, .interactive = true});
    rig.idle(idle);  // it keeps its grant, and is in nobody's way
    rig.demand(a, 300, 500);
    rig.demand(b, 300, 500);
    rig.boundary(a);
    rig.boundary(b);
    EXPECT_FALSE(rig.runs(a) || rig.runs(b)) << "neither fits beside the other's P";
    rig.pass(seconds(15));
    EXPECT_TRUE(rig.runs(a) || rig.runs(b)) << "one has to make do with what is left";
}

}  // namespace
}  // namespace salus
