#include "os/clock.h"

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Clock, GoesForwardAndWaitsAsLongAsTold) {
    const Instant before = now();
    sleep_for(milliseconds(3));
    sleep_for({-1});
    EXPECT_GE(now() - before, milliseconds(3));
    const Instant until = now() + milliseconds(3);
    sleep_until(until);
    EXPECT_GE(now(), until);
    EXPECT_GE(now_ns(), static_cast<std::uint64_t>(until.ns));
    EXPECT_GT(unix_time_s(), 1.7e9);
}

TEST(Clock, KnowsTheTimeOfDay) {
    const TimeOfDay time = local_time_of_day();
    EXPECT_TRUE(time.hour >= 0 && time.hour < 24);
    EXPECT_TRUE(time.minute >= 0 && time.minute < 60);
    EXPECT_TRUE(time.second >= 0 && time.second <= 60);
    EXPECT_TRUE(time.millisecond >= 0 && time.millisecond < 1000);
}

}  // namespace
}  // namespace salus::os
