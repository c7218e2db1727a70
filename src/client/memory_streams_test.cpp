// An asynchronous device: memory is reused, or taken out of the address space, only after work in flight that uses it. See
// Note [Streams].
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "client/memory.h"
#include "client/memory_fixture.h"

namespace salus::client::test {
namespace {

using device::Stream;

constexpr Stream kHome = 11;
constexpr Stream kSide = 22;

class MemoryStreamsTest : public MemoryTest {
protected:
    MemoryStreamsTest() { restart(mebibytes(64)); }
    void restart(Bytes capacity, Limit* limit = nullptr) {
        start(capacity, limit);
        device_->work_in_flight = true;
    }

    /// Null if the stream is refused.
    void* on(Stream stream, std::uint64_t size, bool inside = true) {
        return memory_->allocate_on(stream, size, inside).value_or(nullptr);
    }
    bool is_turned_away(Stream stream, bool inside = true) {
        const std::optional<void*> block = memory_->allocate_on(stream, kMiB, inside);
        if (block) memory_->free(*block);
        return !block;
    }
    /// An iteration on the home stream that frees all it allocates.
    void iterate_at_home() {
        turn_begins();
        memory_->free(on(kHome, kMiB));
        EXPECT_TRUE(memory_->boundary());
    }
    /// Begins a turn and allocates the block.
    void* block_in_lane() {
        map_lane(8 * kMiB);
        page_.wanted_persistent = 64 * kMiB;
        page_.wanted_ephemeral = 8 * kMiB;
        turn_begins();
        void* block = ephemeral(4 * kMiB);
        EXPECT_TRUE(memory_->in_lane(block));
        return block;
    }
    /// From now on, memory may leave the address space only after another drain.
    void expect_drained_first() {
        device_->on_take_out = [this, before = device_->drains](const std::string& call) {
            EXPECT_GT(device_->drains, before) << call;
        };
    }
};

// ------------------------------------------------------------------------------------------------------------- the home

TEST_F(MemoryStreamsTest, TheFirstStreamIsAtHomeAndOthersAreTurnedAway) {
    EXPECT_EQ(memory_->allocate_on(kSide, kManagedMin - 1, true), std::nullopt) << "small ones are not ours";
    EXPECT_FALSE(is_turned_away(kHome));
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_TRUE(is_turned_away(kSide, /*inside=*/false));
    EXPECT_FALSE(is_turned_away(kHome, /*inside=*/false));
    EXPECT_EQ(device_->used, (std::set<Stream>{kHome}));
    EXPECT_EQ(memory_->private_bytes(), 0u);
    EXPECT_EQ(memory_->usage().allocations, 2u);
}

TEST_F(MemoryStreamsTest, AnIterationThatNeededNothingAtHomeMovesItToWhereItWasTurnedAway) {
    iterate_at_home();
    turn_begins();
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_TRUE(is_turned_away(kSide)) << "it moves at the boundary";
    EXPECT_TRUE(device_->ordered.empty());
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->ordered, (std::vector<std::pair<Stream, Stream>>{{kHome, kSide}}));
    turn_begins();
    EXPECT_FALSE(is_turned_away(kSide));
    EXPECT_TRUE(is_turned_away(kHome));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->marked, (std::set<Stream>{kSide}));
    EXPECT_EQ(device_->ordered.size(), 1u) << "the new home was used";
}

TEST_F(MemoryStreamsTest, WhereTheIterationUsesItTheHomeStays) {
    iterate_at_home();
    turn_begins();
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_FALSE(is_turned_away(kHome));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(memory_->boundary()) << "what was noted holds for one iteration";
    EXPECT_TRUE(device_->ordered.empty());
    EXPECT_FALSE(is_turned_away(kHome));
}

// For example a loader that brings the next batch between iterations, on a stream of its own.
TEST_F(MemoryStreamsTest, WhatAsksOutsideOfIterationsNeverMovesIt) {
    iterate_at_home();
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(is_turned_away(kSide, /*inside=*/false));
        turn_begins();
        EXPECT_TRUE(memory_->boundary()) << "the iteration needs nothing";
    }
    EXPECT_TRUE(device_->ordered.empty());
    EXPECT_FALSE(is_turned_away(kHome, /*inside=*/false));

    // Nor does such a request keep the home from moving.
    turn_begins();
    memory_->free(on(kHome, kMiB, /*inside=*/false));
    EXPECT_TRUE(is_turned_away(kHome + 1));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(is_turned_away(kHome));
}

TEST_F(MemoryStreamsTest, WhereStreamsCannotBeOrderedTheHomeStays) {
    iterate_at_home();
    device_->fail_order = true;  // for example because one of them captures a graph
    turn_begins();
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_FALSE(is_turned_away(kHome));
}

// ------------------------------------------------------------------------------------------------------ used again later

TEST_F(MemoryStreamsTest, WhatIsLateIsWaitedForBeforeMoreIsAskedFor) {
    for (const bool in_lane : {false, true}) {
        SCOPED_TRACE(in_lane);
        restart(mebibytes(64));
        map_lane(8 * kMiB);
        begin_turn(in_lane ? 0 : 8 * kMiB, 8 * kMiB);
        const auto take = [&] { return in_lane ? ephemeral(6 * kMiB) : persistent(6 * kMiB, /*inside=*/true); };
        void* block = take();
        ASSERT_EQ(memory_->in_lane(block), in_lane);
        memory_->used_on(block, kSide);
        memory_->free(block);
        const int drains = device_->drains;
        void* next = take();
        EXPECT_NE(next, nullptr) << "there is room for it by any account";
        EXPECT_GT(device_->drains, drains);
        EXPECT_TRUE(provider_.asked.empty());
        memory_->free(next);
    }
}

TEST_F(MemoryStreamsTest, AtHomeMemoryIsUsedAgainAtOnce) {
    void* a = on(kHome, 4 * kMiB);
    memory_->used_on(a, kHome);  // already known
    memory_->free(a);
    EXPECT_EQ(on(kHome, 4 * kMiB), a);
    EXPECT_EQ(memory_->private_bytes(), 4 * kMiB);
    EXPECT_EQ(device_->drains, 0);
}

TEST_F(MemoryStreamsTest, ABlockThatAnotherStreamUsesIsUsedAgainOnceItsFenceHasPassed) {
    void* a = on(kHome, 4 * kMiB);
    memory_->used_on(a, kSide);
    EXPECT_EQ(device_->used, (std::set<Stream>{kHome, kSide}));
    memory_->free(a);
    memory_->free(a);  // twice: nothing happens
    EXPECT_EQ(memory_->private_bytes(), 4 * kMiB) << "not yet";
    const auto is_used_again = [&] {
        void* b = on(kHome, 4 * kMiB);
        memory_->free(b);
        return b == a;
    };
    EXPECT_FALSE(is_used_again());
    EXPECT_TRUE(memory_->boundary());  // this marks its work; earlier marks do not count
    EXPECT_EQ(device_->marked, (std::set<Stream>{kHome, kSide}));
    EXPECT_FALSE(is_used_again());
    device_->has_passed = false;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_FALSE(is_used_again());
    device_->has_passed = true;
    EXPECT_FALSE(is_used_again()) << "that is looked at at boundaries";
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(is_used_again());
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryStreamsTest, SoIsOneInTheLane) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    void* a = ephemeral(4 * kMiB);
    memory_->used_on(a, kSide);
    memory_->free(a);
    void* b = ephemeral(4 * kMiB);
    EXPECT_TRUE(memory_->in_lane(b));
    EXPECT_NE(b, a);
    memory_->free(b);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(ephemeral(4 * kMiB), a);
    EXPECT_EQ(device_->drains, 0);
}

TEST_F(MemoryStreamsTest, ABoundaryThatDrainsReleasesAllThatIsLate) {
    map_lane(8 * kMiB);
    begin_turn(4 * kMiB, 8 * kMiB);
    void* late = persistent(4 * kMiB, /*inside=*/true);
    memory_->used_on(late, kSide);
    memory_->free(late);
    void* survivor = ephemeral(2 * kMiB);
    device_->has_passed = false;
    expect_drained_first();
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->drains, 1);
    EXPECT_FALSE(memory_->in_lane(survivor));
    EXPECT_EQ(persistent(4 * kMiB), late);
}

TEST_F(MemoryStreamsTest, TooManyLateBytesAreWaitedFor) {
    for (const bool too_many : {false, true}) {
        restart(mebibytes(512));
        device_->has_passed = false;
        // Late bytes count as in use. More than half of those in use plus 64 MiB is too many.
        void* late = on(kHome, too_many ? 129 * kMiB : 128 * kMiB);
        memory_->used_on(late, kSide);
        memory_->free(late);
        map_lane(kMiB);
        EXPECT_TRUE(memory_->boundary());
        EXPECT_EQ(device_->drains, too_many ? 1 : 0);
        EXPECT_EQ(memory_->private_bytes(), too_many ? 0 : 128 * kMiB);
    }
}

TEST_F(MemoryStreamsTest, ABlockTakenUnderAnotherHomeIsLate) {
    void* a = on(kHome, 4 * kMiB, /*inside=*/false);
    void* b = on(kHome, 4 * kMiB, /*inside=*/false);
    EXPECT_TRUE(is_turned_away(kSide));
    EXPECT_TRUE(memory_->boundary());
    ASSERT_FALSE(is_turned_away(kSide));
    memory_->free(a);
    memory_->used_on(b, kSide);
    memory_->free(b);
    void* c = on(kSide, 4 * kMiB);
    EXPECT_TRUE(c != a && c != b);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(device_->marked.contains(kHome)) << "work there may still use them";
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(on(kSide, 8 * kMiB), a);
    EXPECT_EQ(device_->drains, 1) << "without a lane what is left over is given back";
}

// A framework reports once that a stream uses a block; work may go on there until the block is freed.
TEST_F(MemoryStreamsTest, TheFenceAfterABlockWasFreedMarksAllStreamsThatUsedIt) {
    void* kept = on(kHome, 4 * kMiB);
    memory_->used_on(kept, kSide);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(memory_->boundary());
        turn_begins();
    }
    EXPECT_EQ(device_->marked, (std::set<Stream>{kHome})) << "nobody waits for it";
    memory_->free(kept);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->marked, (std::set<Stream>{kHome, kSide}));
}

TEST_F(MemoryStreamsTest, AFenceInMidIterationHidesNoStreamFromTheNext) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    void* survivor = ephemeral(2 * kMiB);
    memory_->used_on(survivor, kSide);
    device_->held_most = 0;
    EXPECT_EQ(persistent(kMiB), nullptr);
    EXPECT_EQ(device_->fences, 1);
    expect_drained_first();
    EXPECT_TRUE(memory_->boundary());  // evacuates it; work on the other stream has gone on
    EXPECT_TRUE(device_->marked.contains(kSide));
}

TEST_F(MemoryStreamsTest, WhoWantsItUnsafeGetsIt) {
    memory_->reuse_at_once();
    void* a = on(kHome, 4 * kMiB);
    memory_->used_on(a, kSide);
    memory_->free(a);
    EXPECT_EQ(on(kHome, 4 * kMiB), a);
    EXPECT_FALSE(is_turned_away(kSide));
    EXPECT_TRUE(device_->used.contains(kSide));
}

// ------------------------------------------------------------------------------------------------------------ evacuation

TEST_F(MemoryStreamsTest, WhatIsEvacuatedHasDrained) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    expect_drained_first();
    evacuated(2 * kMiB, 1);
    EXPECT_EQ(device_->fences, 1);
    EXPECT_EQ(device_->drains, 1);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->drains, 1) << "with nothing to do";
}

TEST_F(MemoryStreamsTest, WhereAnEvacuatedBlockWasTheLaneComesBackAtTheNextBoundary) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    std::byte* kept = evacuated(2 * kMiB, 7);
    std::byte* other = elsewhere();
    fill(other + offset_in_lane(kept), 2 * kMiB, 8);
    expect_drained_first();
    begin_turn(2 * kMiB, 8 * kMiB);
    memory_->free(kept);
    EXPECT_EQ(memory_->private_bytes(), 0u);
    EXPECT_TRUE(holds(kept, 2 * kMiB, 7)) << "work in flight may read it";
    void* next = ephemeral(2 * kMiB);
    EXPECT_NE(next, kept);
    memory_->free(next);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->drains, 2);
    EXPECT_TRUE(holds(kept, 2 * kMiB, 8));
    EXPECT_EQ(ephemeral(2 * kMiB), kept);
}

TEST_F(MemoryStreamsTest, OneThatAnotherStreamUsesComesBackAfterBoth) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    std::byte* kept = evacuated(2 * kMiB, 7);
    memory_->used_on(kept, kSide);
    memory_->free(kept);
    device_->has_passed = false;
    expect_drained_first();
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(holds(kept, 2 * kMiB, 7));
    EXPECT_EQ(memory_->private_bytes(), 2 * kMiB);
    device_->has_passed = true;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(memory_->private_bytes(), 0u);
    EXPECT_EQ(device_->drains, 2);
    EXPECT_EQ(ephemeral(2 * kMiB), kept);
}

TEST_F(MemoryStreamsTest, ALaneIsLeftOrShrunkAfterADrain) {
    map_lane(8 * kMiB);
    begin_turn(0, 8 * kMiB);
    memory_->free(ephemeral(8 * kMiB));
    EXPECT_TRUE(memory_->boundary());
    expect_drained_first();
    ASSERT_TRUE(memory_->map_lane(4 * kMiB));
    expect_drained_first();
    memory_->unmap_lane();
    EXPECT_EQ(device_->drains, 2);
    memory_->unmap_lane();
    EXPECT_EQ(device_->drains, 2) << "there is none any more";
    expect_drained_first();
    map_lane(4 * kMiB);
    ASSERT_TRUE(memory_->add_lane_memory(0, lane_memory(4 * kMiB, LaneId{1})));
    EXPECT_EQ(memory_->mapped(), 0u);
    EXPECT_EQ(device_->drains, 3);
}

// ------------------------------------------------------------------------------------------------------------- leftovers

TEST_F(MemoryStreamsTest, LeftoversAreGivenBackWhenAFenceHasPassed) {
    map_lane(kMiB);
    void* a = persistent(4 * kMiB, /*inside=*/true);
    memory_->free(a);
    device_->has_passed = false;
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->held, 4 * kMiB) << "something in flight may use it";
    EXPECT_EQ(page_.held_bytes, 4 * kMiB);
    EXPECT_EQ(page_.wanted_persistent, with_slack(4 * kMiB)) << "the service is to know of it";
    device_->has_passed = true;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->held, 0u);
    EXPECT_EQ(page_.held_bytes, 0u);
    EXPECT_EQ(device_->drains, 0);
}

TEST_F(MemoryStreamsTest, ThoseOfTheLastIterationsAreKept) {
    map_lane(kMiB);
    memory_->free(persistent(4 * kMiB, /*inside=*/true));
    for (const std::uint64_t held : {4 * kMiB, 4 * kMiB, std::uint64_t{0}}) {
        EXPECT_TRUE(memory_->boundary());
        EXPECT_EQ(device_->held, held);
    }
}

TEST_F(MemoryStreamsTest, WithoutALaneTheyAreWaitedFor) {
    memory_->free(persistent(4 * kMiB, /*inside=*/true));
    EXPECT_EQ(device_->held, 4 * kMiB);
    device_->has_passed = false;
    expect_drained_first();
    EXPECT_TRUE(memory_->boundary());  // the turn was a profiling turn: others want the memory
    EXPECT_EQ(device_->held, 0u);
    EXPECT_EQ(device_->drains, 1);
}

TEST_F(MemoryStreamsTest, TooManyAreWaitedForAsWell) {
    restart(mebibytes(512));
    map_lane(kMiB);
    memory_->free(persistent(130 * kMiB, /*inside=*/true));
    EXPECT_EQ(device_->held, 130 * kMiB) << "not before the boundary";
    device_->has_passed = false;
    expect_drained_first();
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->held, 0u);
    EXPECT_EQ(device_->drains, 1);
}

TEST_F(MemoryStreamsTest, AloneTheyStayToBeUsedAgain) {
    void* a = persistent(4 * kMiB);
    memory_->free(a);
    memory_->set_alone(true);
    EXPECT_EQ(device_->held, 4 * kMiB);
    void* b = persistent(4 * kMiB);
    EXPECT_EQ(b, a);
    EXPECT_EQ(device_->held, 4 * kMiB);
}

// -------------------------------------------------------------------------------------------------------- out of memory

TEST_F(MemoryStreamsTest, WhatIsKeptForLaterIsGivenUpWhenMemoryIsShort) {
    map_lane(kMiB);
    void* a = persistent(4 * kMiB);
    void* b = persistent(4 * kMiB);
    fill(b, 4 * kMiB, 1);
    memory_->free(a);
    device_->held_most = 12 * kMiB;
    expect_drained_first();
    void* c = persistent(6 * kMiB);  // fits only if the first block's leftovers are given back
    ASSERT_NE(c, nullptr);
    EXPECT_EQ(device_->fences, 1) << "a drain is for what was marked";
    EXPECT_EQ(device_->marked.size(), 1u) << "the home, whoever asked for memory";
    EXPECT_EQ(device_->drains, 1);
    EXPECT_EQ(device_->held, 10 * kMiB);
    EXPECT_TRUE(holds(b, 4 * kMiB, 1));
    EXPECT_EQ(persistent(4 * kMiB), nullptr);
    EXPECT_EQ(persistent(2 * kMiB), a);
    EXPECT_EQ(device_->held, 12 * kMiB);
}

TEST_F(MemoryStreamsTest, WhatCannotBeBackedIsNullAndNothingIsLost) {
    void* a = persistent(4 * kMiB);
    void* b = persistent(4 * kMiB);
    void* c = persistent(4 * kMiB);
    fill(c, 4 * kMiB, 3);
    memory_->free(a);
    memory_->free(b);
    memory_->free(persistent(2 * kMiB));  // reuses part of the first
    device_->fail_back_private = true;
    EXPECT_EQ(persistent(16 * kMiB), nullptr);
    EXPECT_EQ(device_->drains, 1);
    EXPECT_EQ(device_->held, 4 * kMiB) << "what was left over was given up for it";
    EXPECT_EQ(persistent(8 * kMiB), nullptr);
    EXPECT_EQ(memory_->private_bytes(), 4 * kMiB);
    EXPECT_EQ(page_.private_bytes, 4 * kMiB);
    EXPECT_EQ(memory_->usage().in_use, 4 * kMiB);
    EXPECT_EQ(memory_->usage().allocations, 4u);

    device_->fail_back_private = false;
    EXPECT_EQ(persistent(8 * kMiB), a);
    EXPECT_TRUE(holds(c, 4 * kMiB, 3));
    memory_->free(a);
    memory_->free(c);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->held, 0u);
}

// If a range is backed only in part, all backed parts are kept: old ones, and those backed before memory ran out.
TEST_F(MemoryStreamsTest, WhatWasBackedInPartIsKept) {
    std::vector<void*> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(persistent(2 * kMiB));
    memory_->free(blocks[0]);
    memory_->free(blocks[2]);
    memory_->free(blocks[4]);
    device_->held_most = 6 * kMiB;
    EXPECT_EQ(persistent(32 * kMiB), nullptr);  // begins at the last freed block; the other two are given back
    EXPECT_EQ(device_->held, 6 * kMiB);
    memory_->free(blocks[1]);
    memory_->free(blocks[3]);  // now 10 MiB in a row are free, with parts 2, 4 and 5 of 5 backed
    EXPECT_EQ(persistent(9 * kMiB), nullptr);
    EXPECT_LE(device_->held, 6 * kMiB);
    device_->held_most = 10 * kMiB;
    EXPECT_EQ(persistent(10 * kMiB), blocks[0]);
    EXPECT_EQ(device_->held, 10 * kMiB);
    memory_->free(blocks[0]);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->held, 0u);
    EXPECT_EQ(page_.held_bytes, 0u);
}

TEST_F(MemoryStreamsTest, InAnIterationThatIsNotLearned) {
    turn_begins();
    device_->fail_back_private = true;
    EXPECT_EQ(on(kHome, 16 * kMiB), nullptr);
    device_->fail_back_private = false;
    memory_->free(on(kHome, 2 * kMiB));
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(page_.wanted_ephemeral, 2 * kMiB);
    EXPECT_EQ(page_.wanted_persistent, with_slack(0));
}

// --------------------------------------------------------------------------------------------------------------- figures

TEST_F(MemoryStreamsTest, UsageIsOfManagedBlocksAndWhatIsKeptForThem) {
    map_lane(8 * kMiB);
    begin_turn(8 * kMiB, 8 * kMiB);
    const auto expect = [&](std::uint64_t in_use, std::uint64_t in_use_peak, std::uint64_t reserved,
                            std::uint64_t reserved_peak, std::uint64_t allocations, std::uint64_t frees,
                            std::uint64_t allocated, std::uint64_t freed) {
        const Memory::Usage usage = memory_->usage();
        EXPECT_EQ(usage.in_use, in_use * kMiB);
        EXPECT_EQ(usage.in_use_peak, in_use_peak * kMiB);
        EXPECT_EQ(usage.reserved, reserved * kMiB);
        EXPECT_EQ(usage.reserved_peak, reserved_peak * kMiB);
        EXPECT_EQ(usage.allocations, allocations);
        EXPECT_EQ(usage.frees, frees);
        EXPECT_EQ(usage.allocated, allocated * kMiB);
        EXPECT_EQ(usage.freed, freed * kMiB);
    };
    expect(0, 0, 0, 0, 0, 0, 0, 0);
    void* weights = persistent(4 * kMiB);
    void* scratch = ephemeral(6 * kMiB);
    expect(10, 10, 10, 10, 2, 0, 10, 0);
    memory_->free(scratch);
    expect(4, 10, 4, 10, 2, 1, 10, 6);
    memory_->free(weights);
    expect(0, 10, 4, 10, 2, 2, 10, 10);  // kept for the next
    memory_->reset_peaks();
    expect(0, 0, 4, 4, 2, 2, 10, 10);
    void* late = ephemeral(2 * kMiB);
    memory_->used_on(late, kSide);
    memory_->free(late);
    expect(0, 2, 6, 6, 3, 3, 12, 12);  // not free yet
}

// ------------------------------------------------------------------------------------------------- for how long it is late

TEST_F(MemoryStreamsTest, AStreamThatIsFarBehindIsMarkedUntilItIsThrough) {
    void* block = on(kHome, 4 * kMiB);
    memory_->used_on(block, kSide);
    memory_->free(block);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(device_->marked.contains(kSide));
    for (int i = 0; i < 3; ++i) {
        device_->has_passed = !device_->marked.contains(kSide);  // the home stream has finished, the other one has not
        iterate_at_home();
        EXPECT_TRUE(device_->marked.contains(kSide)) << i;
    }
    EXPECT_NE(on(kHome, 4 * kMiB), block);
}

TEST_F(MemoryStreamsTest, ALaneIsNotHandedOverUnderAStreamThatIsFarBehind) {
    void* block = block_in_lane();
    memory_->used_on(block, kSide);
    memory_->free(block);
    device_->has_passed = false;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(memory_->boundary());
    EXPECT_TRUE(device_->marked.contains(kSide)) << "a hand-over would wait for what is marked";
}

TEST_F(MemoryStreamsTest, WithoutBoundariesWhatIsLateComesBackWhenMemoryRunsOut) {
    device_->held_most = 32 * kMiB;
    memory_->set_alone(true);
    for (int i = 0; i < 100; ++i) {
        void* block = on(kHome, 4 * kMiB, /*inside=*/false);
        ASSERT_NE(block, nullptr) << i;
        memory_->used_on(block, kSide);
        memory_->free(block);
    }
}

TEST_F(MemoryStreamsTest, WhatIsKeptIsGivenBackWhenAskedFor) {
    void* kept = on(kHome, 3 * kMiB, /*inside=*/false);
    void* block = on(kHome, 4 * kMiB, /*inside=*/false);
    void* other = on(kHome, 8 * kMiB, /*inside=*/false);
    memory_->used_on(other, kSide);
    memory_->free(block);
    memory_->free(other);
    expect_drained_first();
    EXPECT_EQ(device_->held, 15 * kMiB);
    EXPECT_EQ(memory_->give_back(), 12 * kMiB);
    EXPECT_EQ(device_->held, 3 * kMiB);
    EXPECT_EQ(memory_->give_back(), 0u);
    memory_->free(kept);
}

TEST_F(MemoryStreamsTest, WhatIsKeptMakesRoomForWhatIsEvacuated) {
    void* block = block_in_lane();
    memory_->free(on(kHome, 12 * kMiB, /*inside=*/false));
    ASSERT_EQ(device_->held, 12 * kMiB);
    device_->held_most_to_evacuate = 14 * kMiB;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_FALSE(memory_->in_lane(block));
    EXPECT_EQ(device_->held, 0u);
}

TEST_F(MemoryStreamsTest, WhatIsAliveStaysInTheLaneUntilEverythingHasDrained) {
    void* block = block_in_lane();
    device_->fail_drain = true;  // some stream captures a graph
    EXPECT_FALSE(memory_->boundary());
    EXPECT_TRUE(memory_->in_lane(block));
    device_->fail_drain = false;
    EXPECT_TRUE(memory_->boundary());
    EXPECT_FALSE(memory_->in_lane(block));
    EXPECT_EQ(device_->drains_of_everything, 2);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(device_->drains_of_everything, 2) << "there is nothing to evacuate";
}

// ---------------------------------------------------------------------------------------- Note [The limit of a process]

class MemoryLimitTest : public MemoryStreamsTest {
protected:
    MemoryLimitTest() { restart(mebibytes(64), &limit_); }

    struct Most : Limit {
        bool fits(std::uint64_t held) override { return held + elsewhere <= most; }
        bool hold(std::uint64_t held) override {
            if (fits(held)) now = held;
            return fits(held);
        }
        void holds(std::uint64_t held) override { now = held; }

        std::uint64_t most = 8 * kMiB, elsewhere = 0, now = 0;
    };
    Most limit_;
};

TEST_F(MemoryLimitTest, PrivateBlocksAreLimitedWithWhatTheProgramTakesItself) {
    turn_begins();
    void* const first = on(kHome, 4 * kMiB);
    ASSERT_TRUE(first);
    EXPECT_EQ(limit_.now, 4 * kMiB);
    limit_.elsewhere = 2 * kMiB;
    const std::size_t asked = provider_.asked.size();
    EXPECT_EQ(memory_->allocate_on(kHome, 3 * kMiB, true), std::optional<void*>(nullptr));
    EXPECT_EQ(provider_.asked.size(), asked) << "the service need not make room";
    EXPECT_EQ(limit_.now, 4 * kMiB);
    void* const second = on(kHome, 2 * kMiB);
    EXPECT_TRUE(second) << "up to the last byte";
    limit_.elsewhere = 0;
    EXPECT_TRUE(on(kHome, 2 * kMiB)) << "the program has freed some";
    EXPECT_FALSE(on(kHome, kMiB, /*inside=*/false)) << "outside of iterations, too";
}

TEST_F(MemoryLimitTest, KeptMemoryIsReusedOrGivenBackBeforeABlockIsRefused) {
    turn_begins();
    void* const first = on(kHome, 2 * kMiB);
    void* const second = on(kHome, 4 * kMiB);
    void* const third = on(kHome, 2 * kMiB);
    memory_->free(first);
    EXPECT_EQ(limit_.now, 8 * kMiB) << "it is kept";
    const int drains = device_->drains;
    EXPECT_EQ(on(kHome, 2 * kMiB), first);
    EXPECT_EQ(device_->drains, drains) << "nothing more is held";
    memory_->free(first);
    memory_->free(third);
    EXPECT_TRUE(on(kHome, 4 * kMiB)) << "too large for the first's place";
    EXPECT_EQ(device_->held, 8 * kMiB) << "what was kept there is given back";
    EXPECT_EQ(limit_.now, 8 * kMiB);
    EXPECT_FALSE(on(kHome, kMiB));
    memory_->free(second);
    memory_->give_back();
    EXPECT_EQ(limit_.now, 4 * kMiB);
}

TEST_F(MemoryLimitTest, BlocksInTheLaneCountWhileTheyAreThere) {
    map_lane(16 * kMiB);
    begin_turn(64 * kMiB, 16 * kMiB);
    memory_->free(on(kHome, kMiB));  // makes it the home stream
    std::vector<void*> blocks;
    while (void* block = ephemeral(2 * kMiB)) blocks.push_back(block);
    EXPECT_EQ(blocks.size(), 4u);
    EXPECT_TRUE(memory_->in_lane(blocks.back()));
    EXPECT_EQ(limit_.now, 8 * kMiB);
    memory_->free(blocks.back());
    EXPECT_EQ(limit_.now, 6 * kMiB);
    EXPECT_TRUE(ephemeral(2 * kMiB));
}

}  // namespace
}  // namespace salus::client::test
