#include "shell/request_watch.h"

#include <gtest/gtest.h>

#include "attachment/request_marks.h"

namespace salus::shell {
namespace {

Instant at_ms(std::int64_t ms) { return Instant{} + milliseconds(ms); }

TEST(RequestWatch, CountsWhatIsInFlightAndWhatHasBegun) {
    GatePage page;
    attachment::RequestMarks marks(page);
    const auto before = marks.begin();
    RequestWatch watch;
    watch.begin(page);
    marks.end(*before);
    EXPECT_FALSE(watch.look(page, at_ms(0))) << "it began under an earlier service";
    const auto first = marks.begin(), second = marks.begin();
    EXPECT_TRUE(watch.look(page, at_ms(1)));
    EXPECT_EQ(watch.in_flight(), 2u);
    EXPECT_EQ(watch.begun(), 2u);
    EXPECT_FALSE(watch.look(page, at_ms(2)));
    marks.end(*first);
    EXPECT_TRUE(watch.look(page, at_ms(4)));
    EXPECT_EQ(watch.in_flight(), 1u);
    EXPECT_EQ(watch.begun(), 0u);
    marks.end(*second);
    const auto third = marks.begin();
    marks.end(*third);
    EXPECT_TRUE(watch.look(page, at_ms(11))) << "one ended, another came and went";
    EXPECT_EQ(watch.in_flight(), 0u);
    EXPECT_EQ(watch.begun(), 1u);
    EXPECT_EQ(watch.times().requests, 3u);
    EXPECT_EQ(watch.times().p50, milliseconds(3));
    EXPECT_EQ(watch.times().p99, milliseconds(10));
    EXPECT_EQ(watch.histogram().count(), 3u);
    EXPECT_EQ(watch.histogram().counts[Histogram::place_of(milliseconds(10), watch.histogram().least)], 1u);
}

}  // namespace
}  // namespace salus::shell
