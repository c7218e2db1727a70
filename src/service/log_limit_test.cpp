#include "service/log_limit.h"

#include <gtest/gtest.h>

namespace salus::service {
namespace {

Instant at(std::int64_t s) { return {seconds(s).ns}; }

TEST(LogLimit, LetsSoManyLinesThroughInASpan) {
    LogLimit limit(2, seconds(60));
    EXPECT_TRUE(limit.admits(at(1000)));
    EXPECT_TRUE(limit.admits(at(1010)));
    EXPECT_EQ(limit.due(), kNever);
    EXPECT_FALSE(limit.admits(at(1020)));
    EXPECT_FALSE(limit.admits(at(1059)));
    EXPECT_EQ(limit.due(), at(1080));
    EXPECT_TRUE(limit.admits(at(1060))) << "the next span";
    EXPECT_EQ(limit.due(), at(1080)) << "a flood that goes on does not put it off";
    EXPECT_EQ(limit.take(), 2u);
    EXPECT_EQ(limit.due(), kNever);
    EXPECT_EQ(limit.take(), 0u);
    EXPECT_TRUE(limit.admits(at(1061)));
    EXPECT_FALSE(limit.admits(at(1062)));
    EXPECT_EQ(limit.take(), 1u);
}

TEST(LogLimit, AFloodOfADayIsFewLines) {
    LogLimit limit(20, seconds(60));
    std::uint64_t written = 0;
    std::uint64_t told = 0;
    constexpr std::uint64_t kLines = 86'400 * 10;
    for (std::uint64_t i = 0; i < kLines; ++i) {
        const Instant now{static_cast<std::int64_t>(i) * milliseconds(100).ns};
        if (limit.admits(now)) ++written;
        if (now >= limit.due()) told += limit.take();
    }
    EXPECT_LE(written, 20u * 60 * 24);
    EXPECT_EQ(written + told + limit.take(), kLines) << "each line is written or counted";
}

}  // namespace
}  // namespace salus::service
