#include "library/holdings.h"

#include <gtest/gtest.h>

namespace salus::library {
namespace {

constexpr std::uint64_t context = 0x100, other_context = 0x200;

TEST(Holdings, AreLimitedTogetherWithWhatIsSetAside) {
    Holdings holdings(100);
    EXPECT_TRUE(holdings.reserve(60));
    EXPECT_FALSE(holdings.reserve(41)) << "another thread, before the first has its memory";
    EXPECT_FALSE(holdings.reserve(~std::uint64_t{0})) << "no sum overflows";
    EXPECT_TRUE(holdings.reserve(40));
    holdings.unreserve(40);
    holdings.name(1, 60, context);
    EXPECT_EQ(holdings.total(), 60u);
    EXPECT_TRUE(Holdings(0).reserve(~std::uint64_t{0})) << "no limit";
}

TEST(Holdings, WhatIsFreedIsTakenOutOnceAndPutBackIfThatFails) {
    Holdings holdings(0);
    holdings.reserve(60);
    holdings.name(1, 60, context);
    EXPECT_EQ(holdings.take_out(2), 0u) << "nobody knows it";
    EXPECT_EQ(holdings.take_out(1), 60u);
    EXPECT_EQ(holdings.take_out(1), 0u);
    EXPECT_EQ(holdings.total(), 0u);
    holdings.put_back(1, 60);
    EXPECT_EQ(holdings.total(), 60u);
    EXPECT_EQ(holdings.take_out(1), 60u);
}

TEST(Holdings, AHandleLastsUntilItIsReleasedAndMappedNowhere) {
    Holdings holdings(0);
    holdings.reserve(10);
    holdings.name(7, 10, 0);
    holdings.map(1000, 7);
    holdings.map(2000, 7);
    holdings.take_out(7);
    EXPECT_EQ(holdings.total(), 10u);
    holdings.unmap(1000, 10);
    EXPECT_EQ(holdings.total(), 10u);
    holdings.unmap(1900, 200);
    EXPECT_EQ(holdings.total(), 0u);

    holdings.reserve(10);
    holdings.name(8, 10, 0);
    holdings.map(1000, 8);
    holdings.unmap(1000, 10);
    EXPECT_EQ(holdings.total(), 10u) << "it may be mapped again";
    holdings.take_out(8);
    EXPECT_EQ(holdings.total(), 0u);
}

TEST(Holdings, EndWithTheirContext) {
    Holdings holdings(0);
    for (const std::uint64_t name : {1u, 2u, 3u}) {
        holdings.reserve(10);
        holdings.name(name, 10, name == 3 ? other_context : context);
    }
    holdings.context_stays(holdings.context_ends(context));
    EXPECT_EQ(holdings.total(), 30u);
    holdings.context_ended(holdings.context_ends(context));
    EXPECT_EQ(holdings.total(), 10u);
    EXPECT_EQ(holdings.take_out(3), 10u);
}

// The driver gives a name again as soon as it is free, which other threads may hear of first.
TEST(Holdings, OfAnotherThatHasTheNameAlreadyStay) {
    Holdings holdings(0);
    holdings.reserve(20);
    holdings.name(7, 10, context);
    holdings.map(1000, 7);
    EXPECT_EQ(holdings.take_out(7), 0u) << "it is mapped";
    holdings.name(7, 10, context);
    holdings.unmap(1000, 10);
    EXPECT_EQ(holdings.total(), 10u);
    EXPECT_EQ(holdings.take_out(7), 10u);

    holdings.reserve(30);
    holdings.name(1, 10, context);
    const std::uint64_t ending = holdings.context_ends(context);
    holdings.name(1, 10, context);
    holdings.name(2, 10, context);
    holdings.context_ended(ending);
    EXPECT_EQ(holdings.total(), 20u);
    EXPECT_EQ(holdings.take_out(1), 10u);
    EXPECT_EQ(holdings.take_out(2), 10u);
}

TEST(Holdings, AreLimitedTogetherWithWhatTheClientsMemoryHolds) {
    Holdings holdings(100);
    EXPECT_TRUE(holdings.reserve(30));
    EXPECT_FALSE(holdings.fits(71));
    EXPECT_FALSE(holdings.hold(71));
    EXPECT_EQ(holdings.total_with_served(), 30u) << "it was refused";
    EXPECT_TRUE(holdings.hold(70));
    EXPECT_EQ(holdings.total_with_served(), 100u);
    EXPECT_EQ(holdings.total(), 30u);
    EXPECT_FALSE(holdings.reserve(1));
    holdings.holds(20);
    EXPECT_TRUE(holdings.fits_beside(50));
    EXPECT_FALSE(holdings.fits_beside(51));
    EXPECT_TRUE(holdings.reserve(50));
    holdings.holds(40);  // blocks that survive their iteration need memory beyond the limit
    EXPECT_FALSE(holdings.reserve(1));
    EXPECT_FALSE(holdings.fits_beside(1));
    EXPECT_TRUE(Holdings(0).hold(~std::uint64_t{0})) << "no limit";
}

}  // namespace
}  // namespace salus::library
