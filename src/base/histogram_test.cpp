#include "base/histogram.h"

#include <limits>

#include <gtest/gtest.h>

namespace salus {
namespace {

TEST(Histogram, ADurationIsInThePlaceOfTheFirstBoundThatItDoesNotExceed) {
    const struct {
        Duration time;
        std::size_t place;
    } rows[] = {
        {Duration{-5}, 0},
        {Duration{}, 0},
        {milliseconds(1), 0},
        {milliseconds(1) + nanoseconds(1), 1},
        {milliseconds(2), 1},
        {milliseconds(2) + nanoseconds(1), 2},
        {milliseconds(10), 3},
        {seconds(1000), 18},
        {seconds(1000) + nanoseconds(1), 19},
        {Duration{std::numeric_limits<std::int64_t>::max()}, 19},
    };
    for (const auto& row : rows) EXPECT_EQ(Histogram::place_of(row.time, milliseconds(1)), row.place) << row.time.ns;
}

TEST(Histogram, CountsAndSums) {
    Histogram a{.least = microseconds(100)};
    EXPECT_EQ(a.count(), 0u);
    a.add(microseconds(150));
    a.add(seconds(3600));
    a.add(Duration{-1});  // a clock that a client wrote
    EXPECT_EQ(a.count(), 3u);
    EXPECT_EQ(a.counts[0], 1u);
    EXPECT_EQ(a.counts[1], 1u);
    EXPECT_EQ(a.counts[19], 1u);
    EXPECT_EQ(a.sum, seconds(3600) + microseconds(150));
    EXPECT_EQ(a.bound(0), microseconds(100));
    EXPECT_EQ(a.bound(18), seconds(100));

    Histogram b{.least = microseconds(100)};
    b.add(microseconds(200));
    b += a;
    EXPECT_EQ(b.count(), 4u);
    EXPECT_EQ(b.counts[1], 2u);
    EXPECT_EQ(b.sum, seconds(3600) + microseconds(350));
}

}  // namespace
}  // namespace salus
