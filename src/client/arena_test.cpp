#include "client/arena.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"

namespace salus::client {
namespace {

constexpr std::uint64_t kUnit = Arena::kGranule;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

/// An arena with ranges of these sizes (in granules) one after the other, minus the freed ones.
Arena filled(const std::vector<std::uint64_t>& units, const std::vector<std::size_t>& freed) {
    Arena arena(kNoLimit);
    std::vector<std::uint64_t> offsets;
    for (const std::uint64_t size : units) offsets.push_back(arena.allocate(size * kUnit).value());
    for (const std::size_t i : freed) arena.free(offsets[i]);
    return arena;
}

TEST(Arena, RangesAreWholeGranulesOneAfterTheOther) {
    Arena arena(kNoLimit);
    EXPECT_EQ(arena.allocate(1), 0u);
    EXPECT_EQ(arena.allocate(kUnit), kUnit);
    EXPECT_EQ(arena.allocate(kUnit + 1), 2 * kUnit);
    EXPECT_EQ(arena.in_use(), 4 * kUnit);
    EXPECT_EQ(arena.used(), (std::map<std::uint64_t, std::uint64_t>{{0, kUnit}, {kUnit, kUnit}, {2 * kUnit, 2 * kUnit}}));
    EXPECT_EQ(Arena::rounded(0), 0u);
    EXPECT_EQ(Arena::rounded(kUnit - 1), kUnit);
}

TEST(Arena, TakesTheSmallestGapThatIsLargeEnough) {
    // gaps of 4, 2 and 3 granules
    Arena arena = filled({4, 1, 2, 1, 3, 1}, {0, 2, 4});
    EXPECT_EQ(arena.allocate(2 * kUnit), 5 * kUnit);
    EXPECT_EQ(arena.allocate(3 * kUnit), 8 * kUnit);
    EXPECT_EQ(arena.allocate(1 * kUnit), 0 * kUnit);  // a gap of 3 is left of it
    EXPECT_EQ(arena.allocate(3 * kUnit), 1 * kUnit);
    EXPECT_EQ(arena.allocate(1 * kUnit), 12 * kUnit);  // no gap is left
}

TEST(Arena, OfGapsOfOneSizeTakesTheLowest) {
    Arena arena = filled({1, 2, 1, 2, 1, 2, 1}, {5, 1, 3});
    EXPECT_EQ(arena.allocate(2 * kUnit), 1 * kUnit);
    EXPECT_EQ(arena.allocate(2 * kUnit), 4 * kUnit);
    EXPECT_EQ(arena.allocate(2 * kUnit), 7 * kUnit);
}

TEST(Arena, NeighboursMergeInWhateverOrderTheyAreFreed) {
    std::vector<std::size_t> order{0, 1, 2};
    do {
        Arena arena = filled({1, 2, 3, 1}, order);
        EXPECT_EQ(arena.allocate(6 * kUnit), 0u);
        EXPECT_EQ(arena.in_use(), 7 * kUnit);
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Arena, WhatIsFreeAtTheEndIsAsIfItHadNeverBeenUsed) {
    Arena arena = filled({1, 2, 3}, {1, 2});
    EXPECT_EQ(arena.limit_for(kUnit), 2 * kUnit);
    EXPECT_EQ(arena.allocate(100 * kUnit), kUnit);
    arena.free(kUnit);
    arena.free(0);
    EXPECT_EQ(arena.limit_for(kUnit), kUnit);
    EXPECT_EQ(arena.in_use(), 0u);
    EXPECT_TRUE(arena.used().empty());
}

TEST(Arena, NothingGoesBeyondTheLimit) {
    Arena arena(4 * kUnit);
    EXPECT_EQ(arena.limit(), 4 * kUnit);
    EXPECT_EQ(arena.allocate(5 * kUnit), std::nullopt);
    EXPECT_EQ(arena.allocate(3 * kUnit), 0u);
    EXPECT_EQ(arena.allocate(kUnit + 1), std::nullopt);
    EXPECT_EQ(arena.in_use(), 3 * kUnit);  // the failure left nothing behind
    EXPECT_EQ(arena.allocate(kUnit), 3 * kUnit);
    EXPECT_EQ(arena.allocate(1), std::nullopt);
    Arena empty(0);
    EXPECT_EQ(empty.allocate(1), std::nullopt);
    Arena odd(kUnit - 1);
    EXPECT_EQ(odd.allocate(1), std::nullopt);
}

TEST(Arena, AHigherLimitMakesRoom) {
    Arena arena(2 * kUnit);
    ASSERT_EQ(arena.allocate(2 * kUnit), 0u);
    ASSERT_EQ(arena.allocate(kUnit), std::nullopt);
    arena.set_limit(arena.limit_for(kUnit));
    EXPECT_EQ(arena.limit(), 3 * kUnit);
    EXPECT_EQ(arena.allocate(kUnit), 2 * kUnit);
}

TEST(Arena, BeyondALowerLimitRangesStayAndNothingNewGoes) {
    // gaps at 1..2 and 3..5 granules, in use up to 6
    Arena arena = filled({1, 1, 1, 2, 1}, {1, 3});
    arena.set_limit(4 * kUnit);
    EXPECT_EQ(arena.in_use(), 3 * kUnit);
    EXPECT_EQ(arena.allocate(2 * kUnit), std::nullopt);  // the gap of 2 reaches beyond
    EXPECT_EQ(arena.allocate(kUnit), kUnit);
    EXPECT_EQ(arena.allocate(kUnit), 3 * kUnit);  // its first half does not
    EXPECT_EQ(arena.allocate(kUnit), std::nullopt);
    arena.set_limit(kNoLimit);
    EXPECT_EQ(arena.allocate(kUnit), 4 * kUnit);
    EXPECT_EQ(arena.allocate(kUnit), 6 * kUnit);
    arena.set_limit(0);
    EXPECT_EQ(arena.in_use(), 7 * kUnit);
    for (const std::uint64_t unit : {0u, 1u, 2u, 3u, 4u, 5u, 6u}) arena.free(unit * kUnit);
    EXPECT_EQ(arena.in_use(), 0u);
    EXPECT_EQ(arena.allocate(1), std::nullopt);
}

TEST(Arena, ThePeakIsTheEndOfTheHighestRangeSinceItWasReset) {
    Arena arena(kNoLimit);
    EXPECT_EQ(arena.peak(), 0u);
    const auto low = arena.allocate(2 * kUnit);
    const auto high = arena.allocate(3 * kUnit);
    EXPECT_EQ(arena.peak(), 5 * kUnit);
    arena.free(*high);
    EXPECT_EQ(arena.peak(), 5 * kUnit);
    arena.reset_peak();
    EXPECT_EQ(arena.peak(), 2 * kUnit);  // a range in use counts
    arena.free(*low);
    EXPECT_EQ(arena.peak(), 2 * kUnit);
    arena.reset_peak();
    EXPECT_EQ(arena.peak(), 0u);
    // The peak is an address, not the amount in use.
    Arena other = filled({1, 1, 1}, {0, 1});
    other.reset_peak();
    EXPECT_EQ(other.peak(), 3 * kUnit);
    EXPECT_EQ(other.allocate(kUnit), 0u);
    EXPECT_EQ(other.peak(), 3 * kUnit);
}

TEST(Arena, LimitForIsTheLeastThatSuffices) {
    const Arena arena = filled({2, 1, 2, 1}, {0, 2});
    for (const std::uint64_t size : {2 * kUnit + 1, 3 * kUnit, 100 * kUnit}) {  // no gap is large enough
        Arena enough = arena;
        enough.set_limit(arena.limit_for(size));
        Arena less = arena;
        less.set_limit(arena.limit_for(size) - 1);
        EXPECT_TRUE(enough.allocate(size).has_value()) << size;
        EXPECT_FALSE(less.allocate(size).has_value()) << size;
    }
}

TEST(Arena, MisuseIsAFailedCheck) {
    const CheckHandler before = set_check_handler(throw_check_failure);
    Arena arena(kNoLimit);
    EXPECT_THROW(arena.allocate(0), CheckFailure);
    EXPECT_THROW(arena.free(0), CheckFailure);
    ASSERT_EQ(arena.allocate(2 * kUnit), 0u);
    EXPECT_THROW(arena.free(kUnit), CheckFailure);
    arena.free(0);
    EXPECT_THROW(arena.free(0), CheckFailure);
    set_check_handler(before);
}

// ------------------------------------------------------------------------------------------------------------ at random

/// The same rules, computed each time from the ranges in use alone.
class NaiveArena {
public:
    std::optional<std::uint64_t> allocate(std::uint64_t size, std::uint64_t limit) {
        size = Arena::rounded(size);
        std::uint64_t best = 0;
        std::uint64_t best_size = std::numeric_limits<std::uint64_t>::max();
        std::uint64_t end = 0;
        for (const auto& [offset, length] : used) {
            const std::uint64_t gap = offset - end;
            if (gap >= size && gap < best_size && end + size <= limit) {
                best = end;
                best_size = gap;
            }
            end = offset + length;
        }
        if (best_size == std::numeric_limits<std::uint64_t>::max()) {
            if (end + size > limit) return std::nullopt;
            best = end;
        }
        used.emplace(best, size);
        peak = std::max(peak, best + size);
        return best;
    }

    std::map<std::uint64_t, std::uint64_t> used;
    std::uint64_t peak = 0;
};

/// A run of random calls; returns the offsets, for comparison with another run.
std::vector<std::uint64_t> random_run(std::uint64_t seed, bool checked) {
    Random random(seed);
    Arena arena(64 * kUnit);
    NaiveArena naive;
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> log;
    for (int i = 0; i < 2000; ++i) {
        const std::uint64_t what = random.below(100);
        if (what < 50) {
            const std::uint64_t size = 1 + random.below(6 * kUnit);
            const auto offset = arena.allocate(size);
            log.push_back(offset.value_or(kNoLimit));
            if (offset) offsets.push_back(*offset);
            const auto expected = naive.allocate(size, arena.limit());
            if (checked && offset != expected) {
                ADD_FAILURE() << "seed " << seed << " call " << i;
                return log;
            }
            if (!offset && random.chance(0.2)) {
                const std::uint64_t limit = arena.limit();
                arena.set_limit(arena.limit_for(size));
                EXPECT_GT(arena.limit(), limit) << "seed " << seed << " call " << i;
                EXPECT_EQ(Arena(arena).allocate(size), NaiveArena(naive).allocate(size, arena.limit()));
                EXPECT_TRUE(Arena(arena).allocate(size).has_value()) << "seed " << seed << " call " << i;
            }
        } else if (what < 96 && !offsets.empty()) {
            const auto which = static_cast<std::ptrdiff_t>(random.below(offsets.size()));
            arena.free(offsets[static_cast<std::size_t>(which)]);
            naive.used.erase(offsets[static_cast<std::size_t>(which)]);
            offsets.erase(offsets.begin() + which);
        } else if (what < 98) {
            arena.set_limit(random.below(96 * kUnit));
        } else {
            arena.reset_peak();
            naive.peak = naive.used.empty() ? 0 : naive.used.rbegin()->first + naive.used.rbegin()->second;
        }
        if (!checked) continue;
        std::uint64_t in_use = 0;
        std::uint64_t end = 0;
        bool overlap = false;
        for (const auto& [offset, size] : arena.used()) {
            overlap = overlap || offset < end;
            end = offset + size;
            in_use += size;
        }
        if (overlap || arena.used() != naive.used || arena.in_use() != in_use || arena.peak() != naive.peak) {
            ADD_FAILURE() << "seed " << seed << " call " << i << ": in use " << arena.in_use() << ", peak " << arena.peak();
            return log;
        }
    }
    return log;
}

TEST(Arena, DoesWhatTheRulesSayWhateverTheOrderOfCalls) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) random_run(seed, /*checked=*/true);
}

TEST(Arena, TheSameCallsGiveTheSameOffsets) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(random_run(seed, false), random_run(seed, false)) << seed;
}

}  // namespace
}  // namespace salus::client
