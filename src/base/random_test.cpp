#include "base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace salus {
namespace {

constexpr int kDraws = 100'000;

TEST(Random, DrawsWhatSplitMix64Draws) {
    // Published values: a change here changes every seeded run that anyone has noted down.
    const struct {
        std::uint64_t seed;
        std::array<std::uint64_t, 3> draws;
    } kCases[] = {
        {0, {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f}},
        {1234567, {6457827717110365317u, 3203168211198807973u, 9817491932198370423u}},
    };
    for (const auto& [seed, draws] : kCases) {
        Random random(seed);
        for (std::uint64_t expected : draws) EXPECT_EQ(random.next(), expected) << "seed " << seed;
    }
}

TEST(Random, EachKindOfDrawIsTheSameEverywhere) {
    Random random(0);
    EXPECT_EQ(random.uniform(), static_cast<double>(0xe220a8397b1dcdafull >> 11) / 9007199254740992.0);
    EXPECT_EQ(random.below(1000), 0x6e789e6aa1b965f4ull % 1000);
    EXPECT_EQ(random.integer(-5, 5), -5 + static_cast<std::int64_t>(0x06c45d188009454full % 11));
}

TEST(Random, SeedsDiffer) {
    Random a(1), same(1), b(2);
    bool differ = false;
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t draw = a.next();
        EXPECT_EQ(draw, same.next());
        differ |= draw != b.next();
    }
    EXPECT_TRUE(differ);
}

TEST(Random, BoundsAndMeans) {
    // Bounds that no draw may pass, and a mean that the draws may miss by five standard errors.
    const struct {
        const char* name;
        double (*draw)(Random&);
        double low, high, mean, deviation;
    } kCases[] = {
        {"uniform", [](Random& r) { return r.uniform(); }, 0, std::nextafter(1.0, 0.0), 0.5, std::sqrt(1.0 / 12)},
        {"between", [](Random& r) { return r.between(-2.0, 6.0); }, -2, 6, 2, 8 * std::sqrt(1.0 / 12)},
        {"below", [](Random& r) { return static_cast<double>(r.below(10)); }, 0, 9, 4.5, std::sqrt(99.0 / 12)},
        {"whole", [](Random& r) { return static_cast<double>(r.integer(-3, 3)); }, -3, 3, 0, 2},
        {"chance", [](Random& r) { return r.chance(0.3) ? 1.0 : 0.0; }, 0, 1, 0.3, std::sqrt(0.21)},
        {"exponential", [](Random& r) { return r.exponential(7.0); }, 0, 7 * 37, 7, 7},
    };
    for (const auto& [name, draw, low, high, mean, deviation] : kCases) {
        Random random(42);
        double least = high, most = low, sum = 0, squares = 0;
        for (int i = 0; i < kDraws; ++i) {
            const double x = draw(random);
            least = std::min(least, x);
            most = std::max(most, x);
            sum += x;
            squares += (x - mean) * (x - mean);
        }
        EXPECT_GE(least, low) << name;
        EXPECT_LE(most, high) << name;
        EXPECT_NEAR(sum / kDraws, mean, 5 * deviation / std::sqrt(kDraws)) << name;
        EXPECT_NEAR(std::sqrt(squares / kDraws), deviation, 0.02 * deviation) << name;
    }
}

TEST(Random, EveryValueOfARangeIsDrawn) {
    Random random(3);
    std::array<int, 7> seen{};
    for (int i = 0; i < 7000; ++i) ++seen[static_cast<std::size_t>(random.integer(10, 16) - 10)];
    for (int count : seen) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000.0));
    EXPECT_EQ(random.integer(4, 4), 4);
    EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, CertainAndImpossible) {
    Random random(5);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(random.chance(1));
        EXPECT_FALSE(random.chance(0));
    }
}

TEST(Random, AnEmptyRangeIsAnError) {
    const CheckHandler old = set_check_handler(throw_check_failure);
    Random random(1);
    EXPECT_THROW(random.below(0), CheckFailure);
    set_check_handler(old);
}

}  // namespace
}  // namespace salus
