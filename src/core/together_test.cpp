// Clients that run at once because that was measured, by Note [Measured turns] in together.cpp. The whole system is tested
// in sim/company_test.cpp.
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
