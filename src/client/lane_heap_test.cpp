#include "client/lane_heap.h"

#include <gtest/gtest.h>

namespace salus::client {
namespace {

constexpr std::uint64_t kLaneUnit = Arena::kGranule;
constexpr std::uint64_t kLaneSize = 16 * kLaneUnit;

class LaneHeapTest : public ::testing::Test {
protected:
    LaneHeapTest() {
        heap_.set_mapped(kLaneSize);
        heap_.arena().set_limit(kLaneSize);
    }
    device::Range allocate(std::uint64_t size = 4 * kLaneUnit) { return {heap_.allocate(size).value(), size}; }
    /// Frees with nothing in flight.
    bool free(device::Range range, WorkInFlight::Mark after = 0) {
        heap_.died(range);
        return heap_.release(range, after);
    }
    device::Range evacuated() {
        const device::Range range = allocate();
        heap_.begin_move(range);
        EXPECT_FALSE(heap_.end_move(true));
        return range;
    }
    bool whole_lane_is_free() {
        const auto offset = heap_.allocate(kLaneSize);
        if (offset) free({*offset, kLaneSize});
        return offset.has_value();
    }

    LaneHeap heap_;
};

TEST_F(LaneHeapTest, ALowerLaneLowersTheLimit) {
    heap_.set_mapped(8 * kLaneUnit);
    EXPECT_EQ(heap_.arena().limit(), 8 * kLaneUnit);
    EXPECT_FALSE(heap_.allocate(9 * kLaneUnit));
    heap_.set_mapped(kLaneSize);
    EXPECT_EQ(heap_.arena().limit(), 8 * kLaneUnit) << "how much may be used is another's to say";
}

TEST_F(LaneHeapTest, WhatIsEvacuatedKeepsItsPlaceUntilTheLaneIsBack) {
    const device::Range range = evacuated();
    EXPECT_EQ(heap_.alive(), 0u);
    EXPECT_TRUE(heap_.is_evacuated(range.offset));
    EXPECT_FALSE(free(range, 5)) << "it is private memory that was freed";
    EXPECT_FALSE(heap_.is_evacuated(range.offset));
    EXPECT_TRUE(heap_.any_dead());
    EXPECT_FALSE(whole_lane_is_free());
    EXPECT_TRUE(heap_.take_dead(5).empty()) << "work that came after mark 5 may use it";
    ASSERT_EQ(heap_.take_dead(6).size(), 1u);
    EXPECT_FALSE(whole_lane_is_free());
    heap_.restored(range);
    EXPECT_TRUE(whole_lane_is_free());
}

TEST_F(LaneHeapTest, WhatCannotBeMovedStays) {
    const device::Range range = allocate();
    heap_.begin_move(range);
    EXPECT_FALSE(heap_.end_move(false));
    EXPECT_EQ(heap_.alive(), 1u);
    EXPECT_TRUE(free(range));
    EXPECT_TRUE(whole_lane_is_free());
}

// The block is freed during the move. `late`: it is released only after the move.
TEST_F(LaneHeapTest, ABlockThatDiesWhileItMovesKeepsItsPlaceUntilThen) {
    for (const bool moved : {false, true}) {
        for (const bool late : {false, true}) {
            SCOPED_TRACE(moved);
            SCOPED_TRACE(late);
            const device::Range range = allocate();
            heap_.begin_move(range);
            heap_.died(range);
            EXPECT_EQ(heap_.alive(), 0u);
            if (!late) heap_.release(range, 0);
            EXPECT_FALSE(whole_lane_is_free());
            EXPECT_EQ(heap_.end_move(moved), !late);
            EXPECT_EQ(heap_.alive(), 0u);
            EXPECT_EQ(heap_.release(range, 0), !moved);
            EXPECT_EQ(heap_.any_dead(), moved);
            for (const device::Range& dead : heap_.take_dead(1)) heap_.restored(dead);
            EXPECT_TRUE(whole_lane_is_free());
        }
    }
}

}  // namespace
}  // namespace salus::client
