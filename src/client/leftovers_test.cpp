#include "client/leftovers.h"

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

struct Given {
    std::set<std::uint64_t> units;
    Leftovers leftovers{[this](device::Range range) {
        for (std::uint64_t at = range.offset; at < range.offset + range.size; ++at) {
            EXPECT_TRUE(units.insert(at).second) << at << " is given back twice";
        }
    }};
};

TEST(Leftovers, AreGivenBackWhenNobodyCame) {
    Given given;
    given.leftovers.add({10, 5}, {3, 0});
    given.leftovers.add({20, 5}, {4, 0});
    given.leftovers.give_back_before(3, Leftovers::kAll);
    EXPECT_TRUE(given.units.empty());
    given.leftovers.give_back_before(4, Leftovers::kAll);
    EXPECT_EQ(given.units, (std::set<std::uint64_t>{10, 11, 12, 13, 14}));
    EXPECT_EQ(given.leftovers.bytes(), 5u);
}

TEST(Leftovers, WhatIsTakenAgainIsNotGivenBack) {
    Given given;
    given.leftovers.add({0, 10}, {1, 0});
    given.leftovers.take({3, 4});
    EXPECT_EQ(given.leftovers.bytes(), 6u);
    given.leftovers.give_back_before(Leftovers::kAll, Leftovers::kAll);
    EXPECT_EQ(given.units, (std::set<std::uint64_t>{0, 1, 2, 7, 8, 9}));
    EXPECT_EQ(given.leftovers.bytes(), 0u);
}

TEST(Leftovers, WhatMayBeInUseByWorkInFlightIsNotGivenBack) {
    Given given;
    given.leftovers.add({0, 2}, {1, 7});
    given.leftovers.add({10, 2}, {1, 8});
    given.leftovers.give_back_before(Leftovers::kAll, 8);  // memory freed since mark 8 may be in use
    EXPECT_EQ(given.units, (std::set<std::uint64_t>{0, 1}));
    EXPECT_EQ(given.leftovers.bytes(), 2u);
}

TEST(Leftovers, AgreeWithASetOfUnits) {
    std::mt19937 random(7);
    Given given;
    std::set<std::uint64_t> here;
    std::vector<bool> used(64, false);
    for (int step = 0; step < 20000; ++step) {
        const std::uint64_t offset = random() % 60, size = 1 + random() % 4;
        bool all_used = true, none_used = true;
        for (std::uint64_t at = offset; at < offset + size; ++at) {
            all_used = all_used && used[at];
            none_used = none_used && !used[at];
        }
        if (all_used) {
            given.leftovers.add({offset, size}, {static_cast<std::uint64_t>(step), 0});
            for (std::uint64_t at = offset; at < offset + size; ++at) used[at] = false, here.insert(at);
        } else if (none_used) {
            std::set<std::uint64_t> missing;
            for (const device::Range& part : given.leftovers.take({offset, size})) {
                for (std::uint64_t at = part.offset; at < part.offset + part.size; ++at) missing.insert(at);
            }
            for (std::uint64_t at = offset; at < offset + size; ++at) {
                ASSERT_EQ(missing.count(at), 1 - here.count(at)) << at;
                used[at] = true, here.erase(at);
            }
        }
        ASSERT_EQ(given.leftovers.bytes(), here.size());
    }
    given.leftovers.give_back_before(Leftovers::kAll, Leftovers::kAll);
    EXPECT_EQ(given.units, here);
}

}  // namespace
}  // namespace salus::client
