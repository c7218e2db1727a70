#include "client/private_heap.h"

#include <gtest/gtest.h>

namespace salus::client {
namespace {

constexpr std::uint64_t kHeapUnit = Arena::kGranule;

/// Counts the backed bytes, and backs no more than `most`.
struct CountingWindow : device::PrivateWindow {
    CountingWindow() : PrivateWindow(nullptr, 64 * kHeapUnit) {}
    bool back(device::Range range) override {
        if (held + range.size > most) return false;
        held += range.size;
        return true;
    }
    void discard(device::Range range) override { held -= range.size; }

    std::uint64_t held = 0;
    std::uint64_t most = 64 * kHeapUnit;
};

class PrivateHeapTest : public ::testing::Test {
protected:
    device::Range allocate(std::uint64_t units) {
        const device::Range range{heap_.place(units * kHeapUnit).value(), units * kHeapUnit};
        PrivateHeap::Backing backing = heap_.start_backing(range);
        EXPECT_TRUE(heap_.go_on(backing));
        return range;
    }

    CountingWindow window_;
    PrivateHeap heap_{window_};
};

TEST_F(PrivateHeapTest, WhatIsKeptBacksTheNext) {
    heap_.free(allocate(4), /*keep=*/true, {});
    EXPECT_EQ(window_.held, 4 * kHeapUnit);
    const device::Range next = allocate(6);
    EXPECT_EQ(window_.held, 6 * kHeapUnit);
    heap_.free(next, /*keep=*/false, {});
    EXPECT_EQ(window_.held, 0u);
    EXPECT_EQ(heap_.leftovers().bytes(), 0u);
}

TEST_F(PrivateHeapTest, WhatCannotBeCompletedIsKeptForLater) {
    const device::Range first = allocate(4);
    heap_.free(first, /*keep=*/true, {});
    window_.most = 8 * kHeapUnit;
    const device::Range large{heap_.place(20 * kHeapUnit).value(), 20 * kHeapUnit};
    PrivateHeap::Backing backing = heap_.start_backing(large);
    EXPECT_FALSE(heap_.go_on(backing));
    EXPECT_FALSE(backing.complete());
    heap_.break_off(backing, {1, 1});
    heap_.unplace(large);
    EXPECT_EQ(heap_.leftovers().bytes(), window_.held) << "no more, and no less";
    heap_.leftovers().give_back_before(Leftovers::kAll, Leftovers::kAll);
    EXPECT_EQ(window_.held, 0u);
    EXPECT_TRUE(heap_.used().empty());
}

TEST_F(PrivateHeapTest, CountsWhatIsInUseAndItsPeak) {
    heap_.count(100);
    heap_.count(-60);
    EXPECT_EQ(heap_.in_use(), 40u);
    EXPECT_EQ(heap_.peak(), 100u);
    heap_.reset_peak();
    EXPECT_EQ(heap_.peak(), 40u);
}

}  // namespace
}  // namespace salus::client
