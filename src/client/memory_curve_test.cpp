#include "client/memory_curve.h"

#include <vector>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

using Steps = std::vector<std::uint64_t>;

Steps steps(const MemoryCurve& curve) { return {curve.most().begin(), curve.most().end()}; }

constexpr std::uint64_t kStep = MemoryCurve::kFirstStepNs;

TEST(MemoryCurve, HasTheMostOfEachStep) {
    MemoryCurve curve;
    curve.begin(1000, 5);
    curve.change(1000 + kStep / 2, 9);
    curve.change(1000 + kStep / 2 + 1, 7);
    curve.change(1000 + 3 * kStep, 2);
    curve.end(1000 + 5 * kStep);
    EXPECT_EQ(steps(curve), (Steps{9, 7, 7, 7, 2, 2})) << "what is freed in a step was in use at its beginning";
    EXPECT_EQ(curve.step_ns(), kStep);
    EXPECT_EQ(curve.least(), 2u);
}

TEST(MemoryCurve, LongerIterationsHaveLongerSteps) {
    for (const std::uint64_t scale : {std::uint64_t{1}, std::uint64_t{1} << 10, std::uint64_t{1} << 30}) {
        MemoryCurve curve;
        curve.begin(0, 0);
        const std::uint64_t step = scale * kStep;
        for (std::uint64_t i = 0; i < 32; ++i) curve.change(i * step, i);
        curve.end(32 * step - 1);
        ASSERT_EQ(curve.step_ns(), step);
        ASSERT_EQ(curve.most().size(), MemoryCurve::kSteps);
        for (std::uint64_t i = 0; i < 32; ++i) EXPECT_EQ(curve.most()[i], i);
        curve.end(64 * step - 1);
        EXPECT_EQ(curve.step_ns(), 2 * step);
        EXPECT_EQ(curve.most()[0], 1u) << "the most of two steps";
        EXPECT_EQ(curve.most()[15], 31u);
        EXPECT_EQ(curve.most()[31], 31u);
    }
}

TEST(MemoryCurve, APeakIsNeverLost) {
    MemoryCurve curve;
    curve.begin(0, 3);
    curve.change(10, 1000);
    curve.change(20, 3);
    curve.end(std::uint64_t{1} << 40);
    EXPECT_EQ(curve.most()[0], 1000u);
    EXPECT_GT(curve.most().size(), MemoryCurve::kSteps / 2);
    EXPECT_EQ(curve.most().back(), 3u);
}

TEST(MemoryCurve, WhatIsInUseAtAnyTimeIsKnownIfAllOfTheRestComesAtOnce) {
    MemoryCurve curve;
    curve.begin(0, 3);
    curve.change(1, 10);
    curve.change(20 * kStep, 3);
    curve.end(20 * kStep);
    EXPECT_EQ(steps(curve), Steps(21, 10));
    EXPECT_EQ(curve.least(), 3u);
}

TEST(MemoryCurve, AClockThatStandsStillIsNoTrouble) {
    MemoryCurve curve;
    curve.begin(100, 1);
    curve.change(50, 2);
    curve.end(100);
    EXPECT_EQ(steps(curve), Steps{2});
}

}  // namespace
}  // namespace salus::client
