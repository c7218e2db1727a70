#include "client/profile.h"

#include <gtest/gtest.h>

namespace salus::client {
namespace {

constexpr std::uint64_t kProfiled = std::uint64_t{1} << 20;

class ProfileTest : public ::testing::Test {
protected:
    ProfileTest() { profile_.set_alone(false, 0); }

    /// A private block that is allocated and freed inside.
    void live_and_die() {
        const auto [birth, dies] = profile_.wanted(kProfiled, 0);
        in_use_ += kProfiled;
        peak_ = std::max(peak_, in_use_);
        profile_.allocated(birth, kProfiled, in_use_);
        in_use_ -= kProfiled;
        profile_.freed({{0, kProfiled}, Place::kPrivate, 0, {}, birth}, /*inside=*/true, in_use_);
    }
    Needs boundary(bool threaded = false) {
        const Needs needs = profile_.learn({in_use_, peak_, 0, threaded});
        profile_.next_iteration();
        peak_ = in_use_;
        return needs;
    }

    Profile profile_;
    std::uint64_t in_use_ = 0;
    std::uint64_t peak_ = 0;
};

TEST_F(ProfileTest, WhatDiedInAnIterationIsEphemeralFromThenOn) {
    live_and_die();
    EXPECT_EQ(profile_.missed(), kProfiled);
    const Needs needs = boundary();
    EXPECT_EQ(needs.persistent, 0u);
    EXPECT_EQ(needs.ephemeral, kProfiled) << "as if it had been in the lane";
    EXPECT_EQ(profile_.missed(), 0u);
    EXPECT_TRUE(profile_.wanted(kProfiled, 0).dies);
}

TEST_F(ProfileTest, WithOtherThreadsAllOfItIsPersistent) {
    live_and_die();
    const Needs needs = boundary(/*threaded=*/true);
    EXPECT_EQ(needs.persistent, kProfiled);
    EXPECT_EQ(needs.ephemeral, 0u);
}

TEST_F(ProfileTest, ABlockThatOutlivesItsIterationSaysNothingOfTheNext) {
    const Birth birth = profile_.wanted(kProfiled, 0).birth;
    profile_.allocated(birth, kProfiled, 0);
    boundary();
    profile_.freed({{0, kProfiled}, Place::kPrivate, 0, {}, birth}, /*inside=*/true, 0);
    profile_.not_had(birth);
    EXPECT_EQ(profile_.missed(), 0u);
    EXPECT_FALSE(profile_.wanted(kProfiled, 0).dies);
}

TEST_F(ProfileTest, AnIterationInWhichNothingHappensTeachesNothing) {
    EXPECT_FALSE(profile_.uneventful(0)) << "the first one always counts";
    boundary();
    EXPECT_TRUE(profile_.uneventful(0));
    EXPECT_FALSE(profile_.uneventful(kProfiled));
    live_and_die();
    EXPECT_FALSE(profile_.uneventful(0));
}

TEST_F(ProfileTest, AloneNothingIsNotedDown) {
    boundary();
    profile_.set_alone(true, 0);
    live_and_die();
    EXPECT_TRUE(profile_.uneventful(0));
}

}  // namespace
}  // namespace salus::client
