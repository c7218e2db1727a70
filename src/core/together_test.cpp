// Clients that run at once because that was measured, by Note [Measured turns] in together.cpp. The whole system is tested
// in sim/company_test.cpp.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "core/engine_fixture.h"

namespace salus {
namespace {

EngineOptions measuring() {
    EngineOptions options = small_device();
    options.overlap = true;
    options.paging = false;
    return options;
}

/// In play(), all who hold a grant iterate at full speed, so it pays to run at once. A and B have found that out.
struct CompanyRig : Rig {
    explicit CompanyRig(std::string_view policy = "fair", const EngineOptions& options = measuring())
        : Rig(policy, options) {
        a = enter();
        b = enter();
        play(seconds(5));
    }
    ClientId a{}, b{};
};

TEST(Together, ClientsThatGainRunAtOnceInLanesOfTheirOwn) {
    CompanyRig rig;
    EXPECT_TRUE(rig.runs(rig.a) && rig.runs(rig.b));
    EXPECT_EQ(rig.lanes(), "0:100 1:100");
    EXPECT_EQ(rig.engine.overlap().company_of(rig.a), (Overlap::Set{rig.a, rig.b}));
    EXPECT_NEAR(rig.engine.overlap().rate_of({rig.a, rig.b})->mean, 2, 0.1);
}

TEST(Together, WithoutTheOptionTheyTakeTurns) {
    CompanyRig rig("fair", small_device());
    EXPECT_NE(rig.runs(rig.a), rig.runs(rig.b));
    EXPECT_EQ(rig.lanes(), "0:100");
}

TEST(Together, WhereAClientShowsNoIterationsItsLaunchesCount) {
    Rig rig("fair", measuring());
    const ClientId a = rig.enter();
    const ClientId b = rig.enter({.ephemeral_mib = 0});
    rig.launches_an_iteration[b] = 30;
    rig.play(seconds(5));
    EXPECT_EQ(rig.at(b).facts.iterations_done, 0u);
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
    EXPECT_NEAR(rig.engine.overlap().rate_of({a, b})->mean, 2, 0.1);
}

TEST(Together, OthersWaitForBothAndThenHaveTheirTurn) {
    CompanyRig rig;
    const ClientId c = rig.enter({.user = 2});
    EXPECT_FALSE(rig.runs(c));
    EXPECT_TRUE(rig.why(c).starts_with("turn behind ")) << rig.why(c);
    rig.pass(seconds(1));
    ASSERT_NE(rig.at(rig.a).yield_asked, rig.at(rig.b).yield_asked) << "the device need not wait for the slower one";
    const ClientId first = rig.at(rig.a).yield_asked ? rig.a : rig.b;
    const ClientId last = first == rig.a ? rig.b : rig.a;
    rig.boundary(first);
    EXPECT_TRUE(rig.at(last).yield_asked);
    EXPECT_FALSE(rig.runs(c) || rig.runs(first));
    rig.boundary(last);
    EXPECT_EQ(rig.turns(), "grant C 2");
    // Each of three has a third of the time, as in turns; A and B have theirs at once.
    const std::vector<double> shares = rig.shares_s({rig.a, rig.b, c}, seconds(12));
    EXPECT_NEAR(shares[0], 8, 1);
    EXPECT_NEAR(shares[1], 8, 1);
    EXPECT_NEAR(shares[2], 4, 1);
}

TEST(Together, WhoeverComesLaterHasATurnHoweverLittleOneOfThemHadBefore) {
    CompanyRig rig;
    const ClientId c = rig.enter();
    const std::vector<double> shares = rig.shares_s({c}, seconds(6));
    EXPECT_GT(shares[0], 1);
}

TEST(Together, WhatIsUrgentAsksAllAtOnce) {
    CompanyRig rig("priority");
    rig.enter({.priority = 1});
    EXPECT_TRUE(rig.at(rig.a).yield_asked && rig.at(rig.b).yield_asked);
}

TEST(Together, ClientsOfDifferentPriorityTakeTurns) {
    Rig rig("priority", measuring());
    const ClientId a = rig.enter({.priority = 1});
    const ClientId b = rig.enter();
    rig.play(seconds(5));
    EXPECT_TRUE(rig.runs(a));
    EXPECT_FALSE(rig.runs(b));
    EXPECT_EQ(rig.engine.overlap().trials(), 0u);
}

TEST(Together, LanesAreGivenUpForANewcomer) {
    CompanyRig rig;
    const ClientId c = rig.enter({.persistent_mib = 850});  // 20 + 850 + 100 fit, and another 100 do not
    EXPECT_FALSE(rig.has_lane(c));
    rig.play(milliseconds(50));
    EXPECT_TRUE(rig.has_lane(c));
    EXPECT_EQ(rig.lanes().find(' '), std::string::npos) << rig.lanes();
}

TEST(Together, StretchesThatAreBrokenOffKeepNobodyFromTheirTurns) {
    Rig rig("rr", measuring());
    rig.answers_revokes = true;
    const std::array clients{rig.enter(), rig.enter(), rig.enter()};
    std::array<int, 3> turns{};
    for (int i = 0; i < 300; ++i) {
        rig.pass(milliseconds(5));
        const auto runs = [&](ClientId client) { return rig.runs(client); };
        const auto running = std::ranges::find_if(clients, runs);
        ASSERT_NE(running, clients.end());
        ++turns[static_cast<std::size_t>(running - clients.begin())];
        rig.idle(*running);  // after one iteration, which says little
        rig.want(*running);
    }
    for (const int n : turns) EXPECT_GT(n, 75);
}

/// C = 1000, and a company of two with lanes of 100 each.
TEST(Together, AGrowingClientGetsTheirLanesBeforeAnybodyIsPagedOut) {
    EngineOptions options = measuring();
    options.paging = true;
    CompanyRig rig("fair", options);
    const ClientId c = rig.enter({.persistent_mib = 600});
    rig.play(seconds(1));
    rig.play_until_runs(c);
    rig.need(c, 760, 100);  // 20 + 760 + 100 fit, and another 100 do not, for long
    rig.play(milliseconds(50));
    EXPECT_FALSE(rig.at(c).stalled);
    EXPECT_EQ(rig.engine.statistics().page_outs, 0u);
}

TEST(Together, ADebtIsRepaidByTheirLanesFirst) {
    EngineOptions options = measuring();
    options.paging = true;
    CompanyRig rig("fair", options);
    const ClientId c = rig.enter({.persistent_mib = 600, .ephemeral_mib = 100});
    rig.play(seconds(1));
    rig.observe(c, 850);
    rig.play(seconds(1));
    EXPECT_EQ(rig.engine.statistics().page_outs, 0u);
    EXPECT_LE(rig.reserved_mib(), 1000);
}

TEST(Together, MemoryThatIsKeptForJobsThatStartIsNotForThem) {
    EngineOptions options = measuring();
    options.capacity = mebibytes(4000);
    options.context = mebibytes(100);
    Rig rig("fair", options);
    const ClientId a = rig.enter({.persistent_mib = 200, .ephemeral_mib = 600, .iterations_before = 10});
    const ClientId b = rig.enter({.persistent_mib = 200, .ephemeral_mib = 600, .iterations_before = 10});
    rig.announce(1, /*past_mib=*/2450);
    ASSERT_EQ(rig.starts(), "start 1");  // 1000 + 2550 fit, and another lane of 600 does not, then
    rig.play(seconds(5));
    EXPECT_EQ(rig.lanes(), "0:600") << "its process has not attached yet";
    rig.withdraw(1);
    rig.play(seconds(20));
    EXPECT_EQ(rig.lanes(), "0:600 1:600");
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
}

TEST(Together, TheirLanesCountAgainstWhatTheirUserMayHave) {
    EngineOptions options = measuring();
    options.user_memory_max = mebibytes(210);
    Rig rig("fair", options);
    rig.enter();
    rig.enter();
    rig.play(seconds(5));
    EXPECT_EQ(rig.lanes(), "0:100");
}

TEST(Together, LanesAreGivenUpForAClientThatItsUsersLimitKeepsOut) {
    EngineOptions options = measuring();
    options.user_memory_max = mebibytes(310);
    CompanyRig rig("fair", options);
    ASSERT_EQ(rig.lanes(), "0:100 1:100");
    const ClientId c = rig.enter({.persistent_mib = 100});  // 20 + 100 + 100 + 100 are too much
    rig.play(milliseconds(100));
    EXPECT_TRUE(rig.has_lane(c));
    EXPECT_EQ(rig.lanes().find(' '), std::string::npos) << rig.lanes();
}

TEST(Together, ANewcomerProfilesBesideWhereGivingUpLanesMakesRoom) {
    EngineOptions options = measuring();
    options.context = mebibytes(1);
    Rig rig("fair", options);
    rig.enter({.ephemeral_mib = 300});
    rig.enter({.ephemeral_mib = 300});
    rig.play(seconds(5));
    ASSERT_EQ(rig.lanes(), "0:300 1:300");
    const ClientId newcomer = rig.enter({.profiled = false, .persistent_mib = 0, .ephemeral_mib = 0});
    for (int i = 0; i < 20 && !rig.runs(newcomer); ++i) rig.play(milliseconds(5));
    ASSERT_TRUE(rig.runs(newcomer));
    EXPECT_EQ(rig.engine.profiling(), kNoClient) << "it has no turn for itself alone";
}

TEST(Together, WhatEarlierRunsHaveShownIsRecalled) {
    Rig rig("fair", measuring());
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.send(event::Recall{b, a, 1.9});
    rig.play(seconds(3));
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
    EXPECT_EQ(rig.engine.overlap().trials(), 0u);
}

TEST(Together, WhatWasRecalledEndsWithTheClient) {
    Rig rig("fair", measuring());
    const ClientId a = rig.enter();
    const ClientId b = rig.attach();
    rig.send(event::Recall{b, a, 1.9});
    rig.leave(b, 0);
    rig.attach(b, {});
    rig.want(b);
    rig.play(seconds(3));
    EXPECT_GT(rig.engine.overlap().trials(), 0u) << "another client has its number now";
}

TEST(Together, PackBelievesWhatJobsStateUntilItIsMeasured) {
    Rig rig("pack", measuring());
    const ClientId a = rig.enter({.occupancy = 0.5});
    const ClientId b = rig.enter({.occupancy = 0.5});
    rig.play(seconds(20));
    EXPECT_TRUE(rig.runs(a) && rig.runs(b));
    EXPECT_EQ(rig.engine.overlap().trials(), 0u);
}

TEST(Together, WithoutMemoryForLanesTheyTakeTurns) {
    EngineOptions options = measuring();
    options.capacity = mebibytes(210);
    CompanyRig rig("fair", options);
    EXPECT_NE(rig.runs(rig.a), rig.runs(rig.b));
    EXPECT_EQ(rig.lanes(), "0:100");
}

TEST(Together, WhoeverBecomesInteractiveLeavesTheCompany) {
    CompanyRig rig;
    rig.set_class(rig.b, true);
    EXPECT_EQ(rig.turns(), "yield B; yield A");
    rig.boundary(rig.a);
    rig.boundary(rig.b);
    EXPECT_TRUE(rig.runs(rig.a) && rig.runs(rig.b));
    EXPECT_TRUE(rig.engine.is_beside(rig.at(rig.b)));
    EXPECT_TRUE(rig.engine.overlap().companies().empty());
}

TEST(Together, UnderAPolicyThatIsExclusiveOneOfThemGoesOn) {
    CompanyRig rig;
    rig.set_policy(*find_policy("fifo"));
    EXPECT_EQ(rig.turns(), "yield B");
}

}  // namespace
}  // namespace salus
