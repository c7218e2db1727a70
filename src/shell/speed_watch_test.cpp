#include "shell/speed_watch.h"

#include <vector>

#include <gtest/gtest.h>

namespace salus::shell {
namespace {

constexpr Instant ms(std::int64_t n) { return {n * 1'000'000}; }

TEST(InsideWatch, IsTheShareOfTheLastSecond) {
    InsideWatch watch;
    EXPECT_FALSE(watch.share(ms(0), {}));
    // Busy for ten seconds, then a quarter of the time.
    Duration total;
    for (int i = 0; i <= 200; ++i) {
        watch.look(ms(100 * i), total);
        total += i < 100 ? milliseconds(100) : milliseconds(25);
        if (i == 99) {
            EXPECT_DOUBLE_EQ(*watch.share(ms(10'000), total), 1.0);
        }
    }
    EXPECT_NEAR(*watch.share(ms(20'100), total), 0.25, 1e-9);
    EXPECT_NEAR(*watch.share(ms(20'050), total - microseconds(12'500)), 0.25, 1e-9);
}

TEST(InsideWatch, ClientsThatRunAtOnceCountAtMostOnce) {
    InsideWatch watch;
    watch.look(ms(0), {});
    EXPECT_DOUBLE_EQ(*watch.share(ms(500), seconds(2)), 1.0);
}

TEST(InsideWatch, IsSinceTheLastLookIfThatIsLongAgo) {
    InsideWatch watch;
    watch.look(ms(0), {});
    watch.look(ms(100), milliseconds(100));
    EXPECT_FALSE(watch.share(ms(50), {})) << "too early to tell";
    EXPECT_DOUBLE_EQ(*watch.share(ms(4'100), milliseconds(2'100)), 0.5);
    EXPECT_TRUE(watch.is_due(ms(200)));
    EXPECT_FALSE(watch.is_due(ms(199)));
}

TEST(PaceWatch, IsTheMedianOfThoseThereAndThoseThatLeftLast) {
    using Iterations = PaceWatch::Iterations;
    PaceWatch paces;
    EXPECT_FALSE(paces.median({}));
    const Iterations small{milliseconds(2), milliseconds(3)}, large{milliseconds(100), milliseconds(102)};
    EXPECT_DOUBLE_EQ(paces.median(std::vector{small})->ratio, 1.5);
    EXPECT_EQ(paces.median(std::vector{small})->extra, milliseconds(1));
    paces.add({milliseconds(1), seconds(1)});  // it was wrong about itself
    const auto all = paces.median(std::vector{small, large});
    EXPECT_DOUBLE_EQ(all->ratio, 1.5);
    EXPECT_EQ(all->extra, milliseconds(2)) << "each for itself";
    for (std::size_t i = 0; i < PaceWatch::kKept; ++i) paces.add(large);
    EXPECT_DOUBLE_EQ(paces.median(std::vector{small, small})->ratio, 1.02);
}

}  // namespace
}  // namespace salus::shell
