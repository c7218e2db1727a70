#include "sim/sliced_device.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace salus::sim {
namespace {

constexpr ClientId kTraining{0};
constexpr ClientId kRequest{1};
constexpr ClientId kOther{2};

Instant at_ms(double ms) { return Instant{} + seconds_of(1e-3 * ms); }

SlicedDevice::Work work(double host_ms, double device_ms) {
    return {.host_ns = 1e6 * host_ms, .not_launched_ns = 1e6 * device_ms};
}

class SlicedDeviceTest : public ::testing::Test {
protected:
    /// When the client's work is done, ms.
    double end_of(ClientId id) {
        while (!device_.is_done(id)) {
            now_ = device_.next_change();
            if (now_ == kNever) return -1;
            device_.advance(now_);
        }
        return 1e3 * (now_ - Instant{}).seconds();
    }
    void advance_to(double ms) { device_.advance(now_ = at_ms(ms)); }

    SlicedDevice device_{milliseconds(2), microseconds(100)};
    Instant now_{};
};

TEST_F(SlicedDeviceTest, AloneWorkTakesItsHostTimeOrItsDeviceTime) {
    const struct {
        double host_ms, device_ms, end_ms;
    } kCases[] = {{5, 1, 5}, {5, 0, 5}, {1, 5, 5.1}, {0, 5, 5.1}, {5, 5, 5.1}};  // with the change to it
    for (const auto& [host_ms, device_ms, end_ms] : kCases) {
        device_ = SlicedDevice(milliseconds(2), microseconds(100));
        now_ = {};
        device_.put(kRequest, work(host_ms, device_ms));
        EXPECT_NEAR(end_of(kRequest), end_ms, 1e-3) << host_ms << " ms on the host, " << device_ms << " on the device";
    }
}

TEST_F(SlicedDeviceTest, BusyClientsTakeTurnsBySlices) {
    device_.put(kTraining, work(0, 4));
    device_.put(kRequest, work(0, 4));
    // 0.1 + 2 for the one, 0.1 + 2 for the other, and again.
    EXPECT_NEAR(end_of(kTraining), 6.3, 1e-3);
    EXPECT_NEAR(end_of(kRequest), 8.4, 1e-3);
}

TEST_F(SlicedDeviceTest, WhoeverComesWaitsForTheRestOfTheSlice) {
    device_.put(kTraining, work(0, 100));
    advance_to(0.1 + 6.5);
    device_.put(kRequest, work(0, 1));
    EXPECT_NEAR(end_of(kRequest), 0.1 + 8 + 0.1 + 1, 1e-3);
}

TEST_F(SlicedDeviceTest, ARequestBoundByItsHostIsLateByWhatItWaitsAtItsEnd) {
    device_.put(kTraining, work(0, 1000));
    advance_to(0.1 + 10);
    device_.put(kRequest, work(5, 1));
    const double late = end_of(kRequest) - 15.1;
    EXPECT_GT(late, 0);
    EXPECT_LT(late, 2 + 2 * 0.1 + 1);
    // The training has lost the request's device time and the changes, not the time of the request.
    const double training_left_ms = device_.take(kTraining).launched_ns / 1e6;
    EXPECT_NEAR(1000 - training_left_ms, 15 + late - 1 - 6 * 0.1, 0.11);
}

TEST_F(SlicedDeviceTest, WhoHasNoWorkLeftLosesItsSlice) {
    device_.put(kTraining, work(0, 100));
    device_.put(kRequest, work(0, 0.3));
    device_.put(kOther, work(0, 0.3));
    EXPECT_NEAR(end_of(kRequest), 0.1 + 2 + 0.1 + 0.3, 1e-3);
    EXPECT_NEAR(end_of(kOther), 2.5 + 0.1 + 0.3, 1e-3);
}

TEST_F(SlicedDeviceTest, HeldWorkStandsStillWhileItsHostGoesOn) {
    device_.put(kTraining, work(3, 3));
    advance_to(1);
    device_.hold(kTraining, true);
    device_.put(kRequest, work(0, 4));
    EXPECT_NEAR(end_of(kRequest), 1 + 0.1 + 4, 1e-3);
    device_.take(kRequest);
    advance_to(8);
    EXPECT_FALSE(device_.is_done(kTraining));
    EXPECT_EQ(device_.next_change(), kNever);
    device_.hold(kTraining, false);
    // The device had done 0.9 ms of it before, and changes back.
    EXPECT_NEAR(end_of(kTraining), 8 + 0.1 + 2.1, 1e-3);
}

TEST_F(SlicedDeviceTest, TheNextIterationGoesOnInTheSameSlice) {
    device_.put(kTraining, work(0, 1));
    EXPECT_NEAR(end_of(kTraining), 1.1, 1e-3);
    device_.take(kTraining);
    device_.put(kTraining, work(0, 1));
    device_.put(kRequest, work(0, 1));
    EXPECT_NEAR(end_of(kTraining), 2.1, 1e-3);
}

TEST_F(SlicedDeviceTest, WhatWasTakenCanBePutBack) {
    device_.put(kRequest, work(4, 2));
    advance_to(1);
    const SlicedDevice::Work left = device_.take(kRequest);
    EXPECT_NEAR(left.host_ns, 3e6, 1);
    EXPECT_NEAR(left.launched_ns + left.not_launched_ns, 1.5e6, 1e5);
    advance_to(10);
    device_.put(kRequest, left);
    EXPECT_NEAR(end_of(kRequest), 13, 1e-3);
}

}  // namespace
}  // namespace salus::sim
