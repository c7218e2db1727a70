// Lane or private, what is learned, evacuation, growth, threads.
#include "client/memory.h"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "client/memory_fixture.h"
#include "os/clock.h"

namespace salus::client::test {
namespace {

// -------------------------------------------------------------------------------------------------------------- learning

TEST_F(MemoryTest, TheFirstIterationsArePrivateAndTheThirdIsInTheLane) {
    void* weights = persistent(8 * kMiB);
    for (int i = 0; i < 2; ++i) {
        turn_begins();
        void* a = automatic(3 * kMiB);
        void* b = automatic(5 * kMiB);
        EXPECT_TRUE(in_private_window(a) && in_private_window(b));
        EXPECT_FALSE(memory_->in_lane(a) || memory_->in_lane(b));
        memory_->free(a);
        memory_->free(b);
        EXPECT_TRUE(memory_->boundary());
        EXPECT_EQ(page_.wanted_ephemeral, 8 * kMiB);
        EXPECT_EQ(page_.wanted_persistent, with_slack(8 * kMiB));
        EXPECT_EQ(page_.missed_bytes, static_cast<std::uint64_t>(i + 1) * 8 * kMiB);
        EXPECT_EQ(page_.lane_bytes, 0u);
    }
    map_lane(page_.wanted_ephemeral);
    turn_begins();
    void* a = automatic(3 * kMiB);
    void* b = automatic(5 * kMiB);
    EXPECT_TRUE(memory_->in_lane(a) && memory_->in_lane(b));
    EXPECT_EQ(page_.private_bytes, 8 * kMiB);
    EXPECT_EQ(page_.lane_bytes, 8 * kMiB);
    memory_->free(a);
    memory_->free(b);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.missed_bytes, 16 * kMiB);  // no more were missed
    EXPECT_EQ(page_.lane_peak, 8 * kMiB);
    EXPECT_EQ(page_.wanted_ephemeral, 8 * kMiB);
    EXPECT_EQ(page_.wanted_persistent, with_slack(8 * kMiB));
    EXPECT_TRUE(provider_.asked.empty());
    memory_->free(weights);
}

TEST_F(MemoryTest, ThePageShowsTheMemoryOverAnIteration) {
    void* weights = persistent(8 * kMiB);
    const auto curve = [&] {
        std::vector<std::uint64_t> steps(page_.curve_steps);
        for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = page_.curve[i];
        return steps;
    };
    const auto iterate = [&](std::uint64_t size) {
        page_.begun_ns = os::now_ns();
        turn_begins();
        memory_->free(automatic(size));
        EXPECT_TRUE(memory_->boundary());
    };
    EXPECT_TRUE(curve().empty()) << "no iteration has ended";
    iterate(4 * kMiB);
    const std::vector<std::uint64_t> first = curve();
    ASSERT_FALSE(first.empty());
    EXPECT_EQ(std::ranges::max(first), 12 * kMiB);
    EXPECT_EQ(page_.curve_least, 8 * kMiB);
    EXPECT_GT(page_.curve_step_ns, 0u);
    memory_->free(memory_->allocate(64 * kMiB, Kind::kAuto, /*inside=*/false));  // between two iterations
    iterate(16 * kMiB);
    EXPECT_EQ(curve(), first) << "it is drawn once a second";
    page_.begun_ns = os::now_ns() + 2'000'000'000;  // as if that much later
    turn_begins();
    memory_->free(automatic(16 * kMiB));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(std::ranges::max(curve()), 24 * kMiB);
    memory_->free(weights);
}

// Blocks come and go within the iteration, so T is less than their sum, and fragmentation counts.
TEST_F(MemoryTest, TAndPAreWhatTheIterationThenTakesInTheLane) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        start(mebibytes(256));
        page_.lane_peak = 0;
        const auto iterate_at_random = [&] {
            Random random(seed);
            std::vector<void*> blocks;
            turn_begins();
            for (int i = 0; i < 60; ++i) {
                if (random.chance(0.55) || blocks.empty()) {
                    blocks.push_back(automatic(kMiB + random.below(4 * kMiB)));
                    ASSERT_NE(blocks.back(), nullptr);
                } else {
                    const auto which = static_cast<std::ptrdiff_t>(random.below(blocks.size()));
                    memory_->free(blocks[static_cast<std::size_t>(which)]);
                    blocks.erase(blocks.begin() + which);
                }
            }
            for (void* block : blocks) memory_->free(block);
            EXPECT_TRUE(memory_->boundary());
        };
        iterate_at_random();
        const std::uint64_t learned = page_.wanted_ephemeral;
        EXPECT_EQ(page_.wanted_persistent, with_slack(0));
        iterate_at_random();
        EXPECT_EQ(page_.wanted_ephemeral, learned);
        map_lane(learned);
        iterate_at_random();
        EXPECT_EQ(page_.lane_peak, learned) << "seed " << seed;
        EXPECT_EQ(page_.wanted_ephemeral, learned) << "seed " << seed;
        EXPECT_EQ(page_.wanted_persistent, with_slack(0)) << "seed " << seed;
        EXPECT_TRUE(provider_.asked.empty()) << "seed " << seed;
        memory_->unmap_lane();
    }
}

TEST_F(MemoryTest, WhatSurvivesAnIterationIsPersistent) {
    void* weights = persistent(4 * kMiB);
    turn_begins();
    void* optimizer = automatic(6 * kMiB);  // made in the first iteration, and kept
    void* scratch = automatic(2 * kMiB);
    memory_->free(scratch);
    memory_->boundary();
    EXPECT_EQ(page_.wanted_persistent, with_slack(10 * kMiB));
    EXPECT_EQ(page_.wanted_ephemeral, 2 * kMiB);
    EXPECT_EQ(memory_->private_bytes(), 10 * kMiB);
    memory_->free(weights);
    memory_->free(optimizer);
    EXPECT_EQ(memory_->private_bytes(), 0u);
    EXPECT_EQ(page_.private_bytes, 0u);
}

TEST_F(MemoryTest, SmallBlocksAreTheCLibrarysButCounted) {
    std::vector<void*> blocks;
    std::uint64_t usable = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kManagedMin - 1}) {
        blocks.push_back(memory_->allocate(size, Kind::kAuto, /*inside=*/true));
        ASSERT_NE(blocks.back(), nullptr);
        EXPECT_FALSE(memory_->owns(blocks.back()));
        EXPECT_FALSE(memory_->in_lane(blocks.back()));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64, 0u);
        std::memset(blocks.back(), 0x5a, size);
        usable += ::malloc_usable_size(blocks.back());
        EXPECT_EQ(memory_->private_bytes(), usable);
    }
    EXPECT_GE(usable, kManagedMin);
    memory_->boundary();
    EXPECT_EQ(page_.wanted_persistent, with_slack(usable));
    EXPECT_EQ(page_.wanted_ephemeral, 0u);
    for (void* block : blocks) memory_->free(block);
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, ABlockOfTheLeastManagedSizeIsManaged) {
    void* block = automatic(kManagedMin);
    EXPECT_TRUE(memory_->owns(block));
    EXPECT_EQ(memory_->private_bytes(), kManagedMin);
    memory_->free(block);
    memory_->free(block);  // twice: nothing happens
    memory_->free(nullptr);
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, ALargerTIsForgottenAfterAWhile) {
    iterate({12 * kMiB});
    for (int i = 0; i < 15; ++i) iterate({2 * kMiB});
    EXPECT_EQ(page_.wanted_ephemeral, 12 * kMiB);
    map_lane(page_.wanted_ephemeral);
    for (int i = 0; i < 32; ++i) iterate({2 * kMiB});
    EXPECT_EQ(page_.wanted_ephemeral, 2 * kMiB);
    EXPECT_TRUE(provider_.asked.empty());
}

TEST_F(MemoryTest, AnIterationOfOtherSizesIsPrivateAndLearnedAnew) {
    iterate({2 * kMiB, 3 * kMiB});
    map_lane(8 * kMiB);
    begin_turn(8 * kMiB, 5 * kMiB);
    void* known = automatic(2 * kMiB);
    void* other = automatic(4 * kMiB);
    EXPECT_TRUE(memory_->in_lane(known));
    EXPECT_FALSE(memory_->in_lane(other));
    memory_->free(known);
    memory_->free(other);
    memory_->boundary();
    EXPECT_EQ(page_.wanted_ephemeral, 6 * kMiB);  // as if both had been in the lane
}

// ------------------------------------------------------------------------------------------------------------ evacuation

TEST_F(MemoryTest, ASurvivorIsEvacuatedAtItsAddressWithItsContent) {
    iterate({3 * kMiB, 2 * kMiB});
    iterate({3 * kMiB, 2 * kMiB});
    map_lane(page_.wanted_ephemeral);
    turn_begins();
    void* a = automatic(3 * kMiB);
    void* b = automatic(2 * kMiB);
    ASSERT_TRUE(memory_->in_lane(a) && memory_->in_lane(b));
    const std::uint64_t offset = offset_in_lane(b);
    fill(a, 3 * kMiB, 1);
    fill(b, 2 * kMiB, 2);
    memory_->free(a);
    EXPECT_TRUE(memory_->boundary());

    EXPECT_TRUE(holds(b, 2 * kMiB, 2));
    EXPECT_FALSE(memory_->in_lane(b));
    EXPECT_EQ(page_.evacuations, 1u);
    EXPECT_EQ(page_.evacuated_bytes, 2 * kMiB);
    EXPECT_EQ(page_.private_bytes, 2 * kMiB);
    EXPECT_EQ(page_.wanted_persistent, with_slack(2 * kMiB));

    // Another client has the lane now: neither sees the other's memory.
    std::byte* other = elsewhere();
    fill(other + offset, 2 * kMiB, 3);
    EXPECT_TRUE(holds(b, 2 * kMiB, 2));
    fill(b, 2 * kMiB, 4);
    EXPECT_TRUE(holds(other + offset, 2 * kMiB, 3));

    // Once the block is freed, the window shows the lane again.
    memory_->free(b);
    EXPECT_TRUE(holds(b, 2 * kMiB, 3));
    fill(other + offset, 2 * kMiB, 5);
    EXPECT_TRUE(holds(device_->lane_window() + offset, 2 * kMiB, 5));
    EXPECT_EQ(page_.private_bytes, 0u);

    // It survived once, so it is private from now on; the other one is not affected.
    turn_begins();
    void* c = automatic(3 * kMiB);
    void* d = automatic(2 * kMiB);
    EXPECT_TRUE(memory_->in_lane(c));
    EXPECT_FALSE(memory_->in_lane(d));
    EXPECT_TRUE(in_private_window(d));
    memory_->free(c);
    memory_->free(d);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.evacuations, 1u);
}

TEST_F(MemoryTest, ThePlaceOfAnEvacuatedBlockIsNotGivenToAnother) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    std::byte* kept = evacuated(2 * kMiB, 7);
    begin_turn(2 * kMiB, 8 * kMiB);
    void* next = ephemeral(6 * kMiB);
    EXPECT_EQ(static_cast<std::byte*>(next), kept + 2 * kMiB);
    fill(next, 6 * kMiB, 8);
    EXPECT_TRUE(holds(kept, 2 * kMiB, 7));
    memory_->free(next);
    memory_->free(kept);
}

TEST_F(MemoryTest, WhatCannotBeMovedOutKeepsTheGrant) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    void* block = ephemeral(2 * kMiB);
    fill(block, 2 * kMiB, 1);
    device_->fail_make_private = true;
    EXPECT_FALSE(memory_->boundary());
    EXPECT_EQ(page_.boundaries_delayed, 1u);
    EXPECT_EQ(page_.evacuations, 0u);
    EXPECT_TRUE(memory_->in_lane(block));
    EXPECT_TRUE(holds(block, 2 * kMiB, 1));
    device_->fail_make_private = false;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.boundaries_delayed, 1u);
    EXPECT_EQ(page_.evacuations, 1u);
    EXPECT_FALSE(memory_->in_lane(block));
    EXPECT_TRUE(holds(block, 2 * kMiB, 1));
    memory_->free(block);
}

// The lane cannot be mapped again where an evacuated block was: nothing may ever be placed there.
TEST_F(MemoryTest, WhereTheLaneCouldNotBeRestoredNothingIsPlaced) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    std::byte* kept = evacuated(2 * kMiB, 7);
    device_->fail_map_lane = true;
    memory_->free(kept);
    device_->fail_map_lane = false;
    provider_.answer = [](Needs) { return false; };
    begin_turn(2 * kMiB, 8 * kMiB);
    void* next = ephemeral(2 * kMiB);
    EXPECT_NE(next, kept) << "a block was placed where the lane is not";
}

TEST_F(MemoryTest, LanesShrinkGrowAndGoAroundAnEvacuatedBlock) {
    map_lane(12 * kMiB);
    begin_turn(0, 12 * kMiB);
    void* below = ephemeral(4 * kMiB);
    std::byte* kept = static_cast<std::byte*>(ephemeral(4 * kMiB));
    fill(kept, 4 * kMiB, 1);
    memory_->free(below);
    ASSERT_TRUE(memory_->boundary());
    ASSERT_EQ(page_.evacuations, 1u);
    std::byte* window = device_->lane_window();
    ASSERT_EQ(kept, window + 4 * kMiB);
    std::byte* other = elsewhere();
    const auto shows_lane = [&](std::uint64_t offset) {
        fill(other + offset, kStride, offset + 99);
        return readable(window + offset) && holds(window + offset, kStride, offset + 99);
    };
    EXPECT_TRUE(shows_lane(0) && shows_lane(3 * kMiB) && shows_lane(8 * kMiB) && shows_lane(12 * kMiB - kStride));
    EXPECT_FALSE(shows_lane(4 * kMiB));

    ASSERT_TRUE(memory_->map_lane(6 * kMiB));  // ends within the block
    EXPECT_EQ(memory_->mapped(), 6 * kMiB);
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_TRUE(shows_lane(0));
    EXPECT_FALSE(readable(window + 8 * kMiB));

    grow_lane(16 * kMiB);
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_TRUE(shows_lane(0) && shows_lane(8 * kMiB) && shows_lane(16 * kMiB - kStride));

    ASSERT_TRUE(memory_->map_lane(2 * kMiB));  // ends before it
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_FALSE(readable(window + 3 * kMiB));
    EXPECT_FALSE(readable(window + 8 * kMiB));

    memory_->unmap_lane();
    EXPECT_EQ(memory_->mapped(), 0u);
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_FALSE(readable(window));

    // The client gets another lane. Where the block was, the window shows that lane as far as it reaches.
    map_lane(6 * kMiB, LaneId{1});
    other = elsewhere(LaneId{1});
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_TRUE(shows_lane(0));
    memory_->free(kept);
    EXPECT_TRUE(shows_lane(4 * kMiB) && shows_lane(6 * kMiB - kStride));
    EXPECT_FALSE(readable(window + 6 * kMiB));
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, AnEvacuatedBlockFreedWithoutALaneLeavesNothing) {
    map_lane(4 * kMiB);
    begin_turn(0, 4 * kMiB);
    std::byte* kept = evacuated(4 * kMiB, 1);
    memory_->unmap_lane();
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    memory_->free(kept);
    EXPECT_FALSE(readable(kept));
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, ALaneThatCannotBeIsNotMapped) {
    EXPECT_FALSE(memory_->map_lane(kMiB));  // no memory ever came
    ASSERT_TRUE(memory_->add_lane_memory(0, lane_memory(kMiB)));
    EXPECT_FALSE(memory_->map_lane(device_->window_size() + 1));
    EXPECT_EQ(memory_->mapped(), 0u);
    EXPECT_TRUE(memory_->map_lane(kMiB - 1));  // whole granules
    EXPECT_EQ(memory_->mapped(), kMiB);
    device_->fail_map_lane = true;
    EXPECT_FALSE(memory_->map_lane(2 * kMiB));
    EXPECT_EQ(memory_->mapped(), kMiB);
}

// ---------------------------------------------------------------------------------------------------------------- growth

TEST_F(MemoryTest, PrivateGrowthInMidIterationIsAskedForWithAllThatIsNeeded) {
    void* weights = persistent(8 * kMiB);
    page_.allowed_private = 10 * kMiB;
    memory_->turn_begins();
    void* fits = persistent(2 * kMiB, /*inside=*/true);
    EXPECT_TRUE(provider_.asked.empty());

    provider_.answer = [](Needs) { return true; };
    void* more = automatic(4 * kMiB);
    ASSERT_NE(more, nullptr);
    ASSERT_EQ(provider_.asked.size(), 1u);
    EXPECT_EQ(provider_.asked[0].persistent, with_slack(14 * kMiB));
    EXPECT_EQ(provider_.asked[0].ephemeral, 0u);  // it has no lane

    void* within_slack = persistent(2 * kMiB, /*inside=*/true);
    EXPECT_EQ(provider_.asked.size(), 1u);
    for (void* block : {weights, fits, more, within_slack}) memory_->free(block);
}

TEST_F(MemoryTest, ATurnHasWhatTheServiceAllowsNotWhatTheClientWants) {
    map_lane(6 * kMiB);
    provider_.answer = [](Needs) { return true; };
    page_.wanted_persistent = kMiB;
    page_.allowed_private = 8 * kMiB;
    memory_->turn_begins();
    memory_->free(persistent(3 * kMiB, /*inside=*/true));
    EXPECT_TRUE(provider_.asked.empty());
    page_.wanted_persistent = 8 * kMiB;
    page_.allowed_private = kMiB;
    memory_->turn_begins();
    memory_->free(persistent(3 * kMiB, /*inside=*/true));
    EXPECT_EQ(provider_.asked.size(), 1u);
    EXPECT_EQ(page_.allowed_private, kMiB) << "only the service writes it";
}

TEST_F(MemoryTest, WithALaneTheAskerSaysWhatItHasOfIt) {
    map_lane(6 * kMiB);
    begin_turn(2 * kMiB, 4 * kMiB);  // that much may be used
    provider_.answer = [](Needs) { return true; };
    void* block = persistent(3 * kMiB, /*inside=*/true);
    ASSERT_EQ(provider_.asked.size(), 1u);
    EXPECT_EQ(provider_.asked[0].persistent, with_slack(3 * kMiB));
    EXPECT_EQ(provider_.asked[0].ephemeral, 4 * kMiB);
    memory_->free(block);
}

TEST_F(MemoryTest, ALaneThatIsTooSmallIsAskedToGrow) {
    map_lane(4 * kMiB);
    begin_turn(9 * kMiB, 4 * kMiB);
    void* a = ephemeral(3 * kMiB);
    EXPECT_TRUE(provider_.asked.empty());
    provider_.answer = [&](Needs all) {
        grow_lane(all.ephemeral);
        return true;
    };
    void* b = ephemeral(2 * kMiB);
    ASSERT_EQ(provider_.asked.size(), 1u);
    EXPECT_EQ(provider_.asked[0].persistent, 9 * kMiB);
    EXPECT_EQ(provider_.asked[0].ephemeral, 5 * kMiB);
    EXPECT_TRUE(memory_->in_lane(a) && memory_->in_lane(b));
    fill(b, 2 * kMiB, 1);
    EXPECT_TRUE(holds(b, 2 * kMiB, 1));
    memory_->free(a);
    memory_->free(b);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.wanted_ephemeral, 5 * kMiB);
}

// More of the lane may be mapped than this client's T, for the lane's larger clients. It must not use that without asking.
TEST_F(MemoryTest, OfALargerLaneOnlyItsOwnTIsUsed) {
    map_lane(16 * kMiB);
    begin_turn(2 * kMiB, 2 * kMiB);
    void* a = ephemeral(2 * kMiB);
    provider_.answer = [](Needs) { return true; };
    void* b = ephemeral(kMiB);
    ASSERT_EQ(provider_.asked.size(), 1u);
    EXPECT_EQ(provider_.asked[0].ephemeral, 3 * kMiB);
    EXPECT_TRUE(memory_->in_lane(b));
    memory_->free(a);
    memory_->free(b);
}

TEST_F(MemoryTest, WhatIsDeniedIsNull) {
    map_lane(4 * kMiB);
    begin_turn(2 * kMiB, 4 * kMiB);
    provider_.answer = [](Needs) { return false; };
    EXPECT_EQ(ephemeral(5 * kMiB), nullptr);
    EXPECT_EQ(persistent(3 * kMiB, /*inside=*/true), nullptr);
    EXPECT_EQ(automatic(3 * kMiB), nullptr);
    EXPECT_EQ(provider_.asked.size(), 3u);
    EXPECT_EQ(memory_->private_bytes(), 0u);
    void* fits = ephemeral(4 * kMiB);  // smaller requests still work
    EXPECT_TRUE(memory_->in_lane(fits));
    memory_->free(fits);
    EXPECT_TRUE(memory_->boundary());
}

// A job whose large blocks all survive has a lane of size 0. Then it no longer has the room of its profiling turn.
TEST_F(MemoryTest, WithALaneOfNothingTheRoomOfTheProfilingTurnIsNotThereAnyMore) {
    turn_begins();
    EXPECT_TRUE(memory_->boundary());
    map_lane(0);
    begin_turn(4 * kMiB, 0);
    provider_.answer = [](Needs) { return true; };
    EXPECT_NE(automatic(32 * kMiB), nullptr);
    EXPECT_EQ(provider_.asked.size(), 1u);
}

// Otherwise a growing T would be counted twice: once in the lane, and once as the private memory that held it before.
TEST_F(MemoryTest, WhatOneIterationWasGivenBeyondPIsNotAskedForInTheNext) {
    map_lane(8 * kMiB);
    begin_turn(4 * kMiB, 8 * kMiB);
    provider_.answer = [&](Needs needs) {
        if (needs.ephemeral > 8 * kMiB) grow_lane(needs.ephemeral);
        return true;
    };
    memory_->free(persistent(32 * kMiB, /*inside=*/true));
    EXPECT_TRUE(memory_->boundary());
    ASSERT_EQ(provider_.asked.size(), 1u);
    EXPECT_GE(provider_.asked[0].persistent, 32 * kMiB);
    page_.wanted_persistent = 4 * kMiB;  // as it will be once this peak is forgotten
    EXPECT_TRUE(memory_->boundary());
    void* block = ephemeral(16 * kMiB);
    ASSERT_TRUE(memory_->in_lane(block));
    ASSERT_EQ(provider_.asked.size(), 2u);
    EXPECT_LE(provider_.asked[1].persistent, 4 * kMiB);
    memory_->free(block);
}

// If two threads enter together, one may allocate before the other has begun the turn.
TEST_F(MemoryTest, WhoAsksNeverStatesLessThanTheTOfTheJob) {
    map_lane(32 * kMiB);
    begin_turn(0, 32 * kMiB);
    memory_->free(ephemeral(kMiB));
    EXPECT_TRUE(memory_->boundary());
    page_.wanted_ephemeral = 32 * kMiB;
    memory_->unmap_lane();
    map_lane(32 * kMiB, LaneId{1});
    provider_.answer = [](Needs) { return true; };
    void* block = ephemeral(2 * kMiB);
    ASSERT_FALSE(provider_.asked.empty());
    EXPECT_EQ(provider_.asked[0].ephemeral, 32 * kMiB);
    memory_->free(block);
}

// See Note [Other threads].
TEST_F(MemoryTest, WhatAThreadThatIsNotInsideFreesIsNotExpectedToDie) {
    map_lane(8 * kMiB);
    begin_turn(32 * kMiB, 8 * kMiB);
    for (int i = 0; i < 4; ++i) {
        void* ours = automatic(2 * kMiB);
        void* theirs = automatic(kMiB);
        EXPECT_EQ(memory_->in_lane(ours), i > 0);
        EXPECT_FALSE(memory_->in_lane(theirs));
        memory_->free(ours);
        memory_->free(theirs, /*inside=*/false);
        EXPECT_TRUE(memory_->boundary());
    }
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

// A script may catch the out-of-memory error and try a smaller batch. A block that was denied is no part of P or T.
TEST_F(MemoryTest, WhatWasDeniedIsNotLearned) {
    page_.allowed_private = 8 * kMiB;
    memory_->turn_begins();
    provider_.answer = [](Needs) { return false; };
    ASSERT_EQ(automatic(40 * kMiB), nullptr);
    ASSERT_EQ(persistent(50 * kMiB, /*inside=*/true), nullptr);
    void* scratch = automatic(2 * kMiB);
    ASSERT_NE(scratch, nullptr);
    memory_->free(scratch);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.wanted_ephemeral, 2 * kMiB);
    EXPECT_EQ(page_.wanted_persistent, with_slack(0));
}

// An impossible size (for example a negative one) is refused without asking the service, and nothing wraps around.
TEST_F(MemoryTest, ASizeThatCannotBeIsNull) {
    const std::uint64_t most = std::numeric_limits<std::size_t>::max();
    const auto outcome = [&](std::uint64_t size, Kind kind, bool inside) -> std::string {
        try {
            return memory_->allocate(size, kind, inside) ? "a block" : "null";
        } catch (const std::exception& error) {
            return error.what();
        }
    };
    for (const std::uint64_t size : {most, most - Arena::kGranule, most / 2 + 1, device_->window_size() + 1}) {
        for (const Kind kind : {Kind::kPersistent, Kind::kEphemeral, Kind::kAuto}) {
            EXPECT_EQ(outcome(size, kind, /*inside=*/true), "null") << size;
            EXPECT_EQ(outcome(size, kind, /*inside=*/false), "null") << size;
        }
    }
    EXPECT_TRUE(provider_.asked.empty());
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, AloneEverythingIsPrivateAndNobodyIsAsked) {
    map_lane(2 * kMiB);
    begin_turn(0, 2 * kMiB);
    memory_->set_alone(true);
    memory_->set_room(0);
    void* a = ephemeral(2 * kMiB);
    EXPECT_TRUE(memory_->in_lane(a));  // the lane is still there
    void* b = ephemeral(2 * kMiB);
    void* c = automatic(3 * kMiB);
    void* d = persistent(20 * kMiB);
    EXPECT_TRUE(in_private_window(b) && in_private_window(c) && in_private_window(d));
    EXPECT_TRUE(provider_.asked.empty());
    EXPECT_TRUE(provider_.observed.empty());
    for (void* block : {a, b, c, d}) memory_->free(block);
}

TEST_F(MemoryTest, WhoIsLeftAloneWhileAskingGoesOnInPrivateMemory) {
    map_lane(2 * kMiB);
    begin_turn(kMiB, 2 * kMiB);
    provider_.answer = [&](Needs) {
        memory_->set_alone(true);  // the service is gone now
        return false;
    };
    void* a = ephemeral(3 * kMiB);
    ASSERT_NE(a, nullptr);
    EXPECT_TRUE(in_private_window(a));
    memory_->set_alone(false);
    void* b = persistent(3 * kMiB, /*inside=*/true);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(provider_.asked.size(), 2u);
    memory_->free(a);
    memory_->free(b);
}

TEST_F(MemoryTest, OutsideOfIterationsMemoryIsTakenAndTold) {
    memory_->set_room(0);
    std::vector<void*> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(persistent(6 * kMiB));
    EXPECT_TRUE(provider_.asked.empty());
    EXPECT_EQ(provider_.observed, (std::vector<std::uint64_t>{18 * kMiB, 36 * kMiB}));  // in steps of 16 MiB
    for (void* block : blocks) memory_->free(block);
}

TEST_F(MemoryTest, WhatDiesInOneIterationMayBeMoreThanAWindow) {
    start(mebibytes(1));
    ASSERT_EQ(device_->window_size(), 4 * kMiB);
    map_lane(4 * kMiB);
    begin_turn(4 * kMiB, 4 * kMiB);
    void* a = ephemeral(3 * kMiB);
    void* b = automatic(3 * kMiB);
    ASSERT_TRUE(memory_->in_lane(a));
    ASSERT_TRUE(in_private_window(b));
    memory_->free(a);
    memory_->free(b);
    EXPECT_NO_THROW(static_cast<void>(memory_->boundary()));
    EXPECT_GE(page_.wanted_ephemeral, 3 * kMiB);
}

// A client that is alone has no boundaries and learns nothing, so no records may pile up.
TEST_F(MemoryTest, AloneNothingPilesUp) {
    memory_->set_alone(true);
    memory_->free(persistent(kMiB));
    const auto heap = [] {
        const struct mallinfo2 info = ::mallinfo2();
        return info.uordblks + info.hblkhd;
    };
    const std::size_t before = heap();
    for (int i = 0; i < 100'000; ++i) memory_->free(persistent(kMiB));
    const std::size_t after = heap();
    EXPECT_LT(after, before + kMiB);
}

TEST_F(MemoryTest, WhatWasPromisedAndIsNotThereYetIsWaitedFor) {
    turn_begins();
    unsigned waits = 0;
    provider_.wait = [&](unsigned times) {
        EXPECT_EQ(times, waits++);
        EXPECT_EQ(memory_->private_bytes(), 0u) << "nobody holds the books meanwhile";
        device_->fail_back_private = waits < 3;
        return true;
    };
    device_->fail_back_private = true;
    void* block = persistent(4 * kMiB, /*inside=*/true);
    ASSERT_NE(block, nullptr);
    fill(block, 4 * kMiB, 1);
    EXPECT_EQ(waits, 3u);
    EXPECT_EQ(memory_->private_bytes(), 4 * kMiB);
    memory_->free(block);
}

TEST_F(MemoryTest, InAnIterationTheDeviceIsWaitedForInVainOnce) {
    unsigned waits = 0;
    provider_.wait = [&](unsigned times) {
        ++waits;
        return times < 2;
    };
    device_->fail_back_private = true;
    EXPECT_EQ(persistent(4 * kMiB), nullptr);
    EXPECT_EQ(waits, 0u) << "nothing was promised outside of iterations";
    for (unsigned iteration = 1; iteration <= 2; ++iteration) {
        turn_begins();
        for (int i = 0; i < 2; ++i) EXPECT_EQ(persistent(4 * kMiB, /*inside=*/true), nullptr);
        EXPECT_EQ(waits, 3 * iteration);
        EXPECT_TRUE(memory_->boundary());
    }
    memory_->set_alone(true);
    EXPECT_EQ(persistent(4 * kMiB, /*inside=*/true), nullptr);
    EXPECT_EQ(waits, 6u) << "alone, nobody promises";
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

// --------------------------------------------------------------------------------------------------------------- threads

/// The blocks that one thread of the job holds and checks.
class Worker {
public:
    Worker(Memory& memory, std::uint64_t seed) : memory_(memory), random_(seed) {}

    void work(int steps) {
        for (int i = 0; i < steps; ++i) {
            if (blocks_.size() < 8 && random_.chance(0.6)) allocate();
            else if (!blocks_.empty()) release(random_.below(blocks_.size()));
        }
    }
    void release_all() {
        while (!blocks_.empty()) release(0);
    }
    void verify() {
        for (const Held& held : blocks_) {
            if (!holds(held.block, held.size, held.key)) ++wrong;
        }
    }

    std::size_t wrong = 0;
    std::size_t denied = 0;

private:
    struct Held {
        void* block;
        std::size_t size;
        std::uint64_t key;
    };

    void allocate() {
        const bool small = random_.chance(0.2);
        const std::size_t size = small ? 1 + random_.below(100'000) : kMiB + random_.below(2 * kMiB);
        const bool inside = random_.chance(0.8);
        const Kind kind = static_cast<Kind>(random_.below(3));
        const Held held{memory_.allocate(size, kind, inside), size < 8 ? 0 : size - 7, random_.next()};
        if (!held.block) {
            ++denied;
            return;
        }
        fill(held.block, held.size, held.key);
        blocks_.push_back(held);
    }
    void release(std::uint64_t which) {
        const Held held = blocks_[which];
        if (!holds(held.block, held.size, held.key)) ++wrong;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
        memory_.free(held.block);
    }

    Memory& memory_;
    Random random_;
    std::vector<Held> blocks_;
};

TEST_F(MemoryTest, TwoThreadsAllocateAndFreeAtOnce) {
    map_lane(4 * kMiB);
    page_.wanted_ephemeral = 4 * kMiB;
    std::atomic<std::uint64_t> lane_size{4 * kMiB};
    provider_.answer = [&](Needs all) {  // one at a time: it holds the provider's lock
        if (all.ephemeral > lane_size) {
            if (all.ephemeral > kElsewhere) return false;
            lane_size = all.ephemeral;
            grow_lane(all.ephemeral);
        }
        memory_->set_room(all.persistent);
        return true;
    };
    Worker first(*memory_, 1);
    Worker second(*memory_, 2);
    for (int round = 0; round < 30; ++round) {
        turn_begins();
        std::thread thread([&] { first.work(60); });
        second.work(60);
        thread.join();
        ASSERT_TRUE(memory_->boundary());
        first.verify();
        second.verify();
        if (round % 5 == 4) {  // a lane that is taken away between turns, paging, and another one
            memory_->unmap_lane();
            ASSERT_TRUE(memory_->page_out());
            ASSERT_TRUE(memory_->page_in());
            first.verify();
            second.verify();
            lane_size = std::max<std::uint64_t>(page_.wanted_ephemeral, kMiB);
            map_lane(lane_size);
        }
    }
    EXPECT_EQ(first.wrong + second.wrong, 0u);
    EXPECT_GT(page_.evacuations, 0u);
    EXPECT_GT(page_.lane_bytes, 0u);
    first.release_all();
    second.release_all();
    EXPECT_EQ(first.wrong + second.wrong, 0u);
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

// The helper may find or lose a service while a thread of the job reports its memory.
TEST_F(MemoryTest, WhatIsToldIsWhatWasInUse) {
    constexpr int kRounds = 10'000;
    std::atomic<int> round{0};
    std::atomic<int> seen{0};
    std::thread helper([&] {
        for (int i = 1; i <= kRounds; ++i) {
            while (round < i) std::this_thread::yield();
            for (std::atomic<int> spins{0}; spins < i % 100; ++spins) {}  // a little later each time
            memory_->set_alone(false);
            seen = i;
        }
    });
    for (int i = 1; i <= kRounds; ++i) {
        round = i;
        memory_->free(persistent(16 * kMiB));
        while (seen < i) std::this_thread::yield();
    }
    helper.join();
    EXPECT_FALSE(provider_.observed.empty());
    for (const std::uint64_t told : provider_.observed) ASSERT_EQ(told, 16 * kMiB);
}

}  // namespace
}  // namespace salus::client::test
