#include "client/predictor.h"

#include <vector>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

/// One iteration of these sizes; `survivors` (by ordinal) are alive at its end. Returns which were expected to die.
std::vector<bool> iterate(Predictor& predictor, const std::vector<std::uint64_t>& sizes,
                          const std::vector<std::size_t>& survivors = {}, std::uint64_t stream = 0, std::uint64_t kind = 0) {
    std::vector<bool> dies;
    std::vector<Predictor::Ticket> tickets;
    for (const std::uint64_t size : sizes) {
        const Predictor::Allocation allocation = predictor.allocated(size, stream, kind);
        dies.push_back(allocation.dies);
        tickets.push_back(allocation.ticket);
    }
    for (const std::size_t survivor : survivors) tickets[survivor] = ~Predictor::Ticket{0};
    for (const Predictor::Ticket ticket : tickets) {
        if (ticket != ~Predictor::Ticket{0}) predictor.freed(ticket);
    }
    predictor.boundary();
    return dies;
}

using Dies = std::vector<bool>;

TEST(Predictor, KnowsNothingAtFirst) {
    Predictor predictor;
    EXPECT_EQ(iterate(predictor, {10, 20, 10}), (Dies{false, false, false}));
}

TEST(Predictor, WhatDiedOnceDies) {
    Predictor predictor;
    iterate(predictor, {10, 20}, {1});
    EXPECT_EQ(iterate(predictor, {10, 20}, {1}), (Dies{true, false}));
    EXPECT_EQ(iterate(predictor, {10, 20}, {1}), (Dies{true, false}));
}

TEST(Predictor, EachSurvivalTakesTwiceAsManyDeathsToForget) {
    Predictor predictor;
    iterate(predictor, {10});
    for (int needed = 2; needed <= 64; needed *= 2) {
        EXPECT_EQ(iterate(predictor, {10}, {0}), Dies{true});
        for (int i = 0; i < needed; ++i) EXPECT_EQ(iterate(predictor, {10}), Dies{false}) << needed << ": " << i;
    }
    EXPECT_EQ(iterate(predictor, {10}, {0}), Dies{true});
    for (int i = 0; i < 64; ++i) EXPECT_EQ(iterate(predictor, {10}), Dies{false}) << i;  // never more than 64
    EXPECT_EQ(iterate(predictor, {10}), Dies{true});
}

// An optimizer makes its state in the first iteration, among the blocks that are allocated again.
TEST(Predictor, TheFirstIterationDoesNotSpoilTheLaterOnes) {
    Predictor predictor;
    iterate(predictor, {10, 10, 10, 10}, {2});
    iterate(predictor, {10, 10, 10});
    iterate(predictor, {10, 10, 10});
    EXPECT_EQ(iterate(predictor, {10, 10, 10}), (Dies{true, true, true}));
}

TEST(Predictor, KindsOfIterationsAreLearnedApart) {
    Predictor predictor;
    for (int i = 0; i < 10; ++i) {
        iterate(predictor, {10}, {}, 0, /*kind=*/1);
        iterate(predictor, {10}, {0}, 0, /*kind=*/2);
    }
    EXPECT_EQ(iterate(predictor, {10}, {}, 0, 1), Dies{true});
    EXPECT_EQ(iterate(predictor, {10}, {}, 0, 2), Dies{false});
}

TEST(Predictor, AnotherSizeOrStreamIsAnotherAllocation) {
    Predictor predictor;
    iterate(predictor, {10, 20, 30});
    EXPECT_EQ(iterate(predictor, {10, 21, 30}), (Dies{true, false, true}));
    EXPECT_EQ(iterate(predictor, {10, 20, 30}, {}, /*stream=*/1, /*kind=*/1), (Dies{false, false, false}));
    EXPECT_EQ(iterate(predictor, {10, 20, 30}, {}, /*stream=*/1, /*kind=*/1), (Dies{true, true, true}));
    EXPECT_EQ(iterate(predictor, {10, 20, 30}), (Dies{true, true, true}));  // still known
}

TEST(Predictor, OthersInFrontDoNotMakeItAnother) {
    Predictor predictor;
    iterate(predictor, {10, 20, 20, 30}, {2});
    EXPECT_EQ(iterate(predictor, {5, 10, 6, 20, 20, 30}, {4}), (Dies{false, true, false, true, false, true}));
}

// See Note [Allocations not seen before].
TEST(Predictor, OfAKnownKindNewSizesAreExpectedToDie) {
    Predictor predictor;
    iterate(predictor, {100, 200, 50}, {2});
    iterate(predictor, {110, 210, 50}, {2});
    for (std::uint64_t length = 120; length < 190; length += 10) {
        EXPECT_EQ(iterate(predictor, {length, length + 100, 50}, {2}), (Dies{true, true, false})) << length;
    }
    EXPECT_EQ(iterate(predictor, {100, 101}, {}, 0, /*kind=*/1), (Dies{false, false})) << "another kind";
}

TEST(Predictor, WhatIsKeptInEachIterationIsNotMovedForEver) {
    Predictor predictor;
    iterate(predictor, {1000, 600}, {1});
    iterate(predictor, {1001, 601}, {1});
    int moved = 0;
    for (std::uint64_t i = 2; i < 50; ++i) moved += iterate(predictor, {1000 + i, 600 + i}, {1})[1] ? 1 : 0;
    EXPECT_EQ(moved, 0) << "it survived twice while the kind was learned";
    for (std::uint64_t i = 50; i < 100; ++i) iterate(predictor, {1000 + i, 600 + i});
    EXPECT_EQ(iterate(predictor, {2000, 700}), (Dies{true, true})) << "it has died often since";
}

TEST(Predictor, WhatIsFarLargerThanAllThatDiedIsNotExpectedTo) {
    Predictor predictor;
    for (int i = 0; i < 3; ++i) iterate(predictor, {100, 200});
    EXPECT_EQ(iterate(predictor, {399, 100, 402}), (Dies{true, true, false}));
}

TEST(Predictor, OfOneSequenceTheOrdinalsAreTheTickets) {
    Predictor predictor;
    EXPECT_EQ(predictor.allocations(), 0u);
    EXPECT_EQ(predictor.allocated(10, 0, 0).ticket, 0u);
    EXPECT_EQ(predictor.allocated(10, 0, 0).ticket, 1u);
    EXPECT_EQ(predictor.allocations(), 2u);
    predictor.freed(0);
    EXPECT_TRUE(predictor.was_freed(0));
    EXPECT_FALSE(predictor.was_freed(1));
    predictor.boundary();
    EXPECT_EQ(predictor.allocations(), 0u);
    EXPECT_EQ(predictor.allocated(10, 0, 0).ticket, 0u);
    EXPECT_FALSE(predictor.was_freed(0));
}

TEST(Predictor, AnIterationWithoutAllocationsTeachesNothing) {
    Predictor predictor;
    iterate(predictor, {10});
    iterate(predictor, {});
    EXPECT_EQ(iterate(predictor, {10}), Dies{true});
}

// Records of sizes that never come again must not stay forever. We see that they were dropped because an unrelated record is
// gone, too.
TEST(Predictor, WhatItRemembersIsBounded) {
    Predictor predictor;
    for (int i = 0; i < 10; ++i) iterate(predictor, {10}, {0});  // survives so often that it is not trusted for long
    std::uint64_t size = 1000;
    for (int i = 0; i < 40; ++i) {
        std::vector<std::uint64_t> sizes{11};
        while (sizes.size() < 10'000) sizes.push_back(size++);
        iterate(predictor, sizes);
    }
    EXPECT_EQ(iterate(predictor, {10}), Dies{true});
}

}  // namespace
}  // namespace salus::client
