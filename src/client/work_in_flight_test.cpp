#include "client/work_in_flight.h"

#include <set>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

constexpr device::Stream kHomeStream = 1, kSideStream = 2;

struct RecordingFences : device::Fences {
    void uses(device::Stream stream) override { used.insert(stream); }
    Order order(device::Stream, device::Stream) override { return answer; }
    bool fence() override {
        marked = std::exchange(used, {});
        return !capturing;
    }

    std::set<device::Stream> used, marked;
    Order answer = Order::kDone;
    bool capturing = false;
};

class WorkInFlightTest : public ::testing::Test {
protected:
    Block block(std::vector<device::Stream> others = {}) const {
        return {{0, 100}, Place::kPrivate, work_.home(), std::move(others)};
    }

    RecordingFences fences_;
    device::Traits traits_{.name = "test", .asynchronous = true};
    WorkInFlight work_{fences_, traits_};
};

TEST_F(WorkInFlightTest, TheFirstStreamThatAsksIsAtHome) {
    EXPECT_FALSE(work_.has_home());
    EXPECT_TRUE(work_.serves(kHomeStream, /*inside=*/true));
    EXPECT_FALSE(work_.serves(kSideStream, /*inside=*/true));
    EXPECT_EQ(work_.home(), kHomeStream);
    EXPECT_EQ(work_.next_home(), std::nullopt) << "home was used";
    EXPECT_FALSE(work_.serves(kSideStream, /*inside=*/true));
    EXPECT_EQ(work_.next_home(), kSideStream);
    EXPECT_EQ(work_.next_home(), std::nullopt) << "each boundary asks anew";
}

TEST_F(WorkInFlightTest, ABlockOfTheHomeStreamIsFreeAtOnce) {
    work_.serves(kHomeStream, true);
    EXPECT_FALSE(work_.keep_if_late(block()));
    EXPECT_TRUE(work_.keep_if_late(block({kSideStream})));
    EXPECT_EQ(work_.late_bytes(), 100u);
    Block of_another_home = block();
    work_.move_home(kSideStream);
    EXPECT_TRUE(work_.keep_if_late(of_another_home));
}

TEST_F(WorkInFlightTest, AMarkFreesWhatWasFreedBeforeIt) {
    work_.serves(kHomeStream, true);
    work_.keep_if_late(block({kSideStream}));
    const auto first = work_.mark();
    EXPECT_EQ(fences_.marked, (std::set<device::Stream>{kHomeStream, kSideStream}));
    work_.keep_if_late(block({kSideStream}));
    ASSERT_EQ(work_.take_late(*first).size(), 1u) << "the second was freed while somebody waited";
    EXPECT_TRUE(work_.any_late());
    const auto second = work_.mark();
    EXPECT_TRUE(fences_.marked.contains(kSideStream)) << "it is marked until it is through";
    ASSERT_EQ(work_.take_late(*second).size(), 1u);
    EXPECT_EQ(work_.late_bytes(), 0u);
}

TEST_F(WorkInFlightTest, WhatAStreamThatCapturesDidBeforeCannotBeWaitedFor) {
    fences_.capturing = true;
    const WorkInFlight::Mark before = work_.last();
    EXPECT_EQ(work_.mark(), std::nullopt);
    EXPECT_GT(work_.last(), before) << "what is freed from here on comes after it all the same";
}

TEST_F(WorkInFlightTest, OrderNeedsAHome) {
    fences_.answer = device::Fences::Order::kNotNow;
    EXPECT_TRUE(work_.order_before_home(kSideStream)) << "nothing was given to a home yet";
    work_.serves(kHomeStream, true);
    EXPECT_TRUE(work_.order_before_home(kHomeStream));
    EXPECT_FALSE(work_.order_before_home(kSideStream));
}

TEST_F(WorkInFlightTest, WhereNothingIsInFlightMarksCostNothing) {
    traits_.asynchronous = false;
    work_.serves(kHomeStream, true);
    fences_.marked = {99};
    EXPECT_TRUE(work_.mark());
    EXPECT_EQ(fences_.marked, (std::set<device::Stream>{99}));
}

}  // namespace
}  // namespace salus::client
