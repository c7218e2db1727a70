// While one thread waits for the device or for a disk, others allocate and free.
#include <thread>
#include <utility>

#include "client/gate_fixture.h"
#include "client/memory_fixture.h"

namespace salus::client::test {
namespace {

/// If an allocation waited for the held-up thread, the test would never end: only the allocating thread opens the gate.
class MemoryWaitingTest : public MemoryTest {
protected:
    void SetUp() override {
        start(mebibytes(1024));
        map_lane(16 * kMiB);
        begin_turn(kPlenty, 16 * kMiB);
    }

    /// Runs `act` in a thread, and `meanwhile` here when `act` is held up at the gate.
    template <typename Act, typename Meanwhile>
    void while_held_up(const Act& act, const Meanwhile& meanwhile) {
        std::thread thread(act);
        gate_.wait_until_reached();
        meanwhile();
        gate_.open();
        thread.join();
    }
    void allocate_and_free() {
        void* block = persistent(4 * kMiB);
        ASSERT_NE(block, nullptr);
        fill(block, 4 * kMiB, 9);
        memory_->set_room(kPlenty);
        void* inside = persistent(4 * kMiB, /*inside=*/true);
        ASSERT_NE(inside, nullptr);
        EXPECT_TRUE(holds(block, 4 * kMiB, 9));
        memory_->free(block);
        memory_->free(inside);
        void* small = persistent(1000);
        ASSERT_NE(small, nullptr);
        memory_->free(small);
    }

    Gate gate_;
};

TEST_F(MemoryWaitingTest, WhileABoundaryDrainsTheDevice) {
    device_->work_in_flight = true;
    void* survivor = ephemeral(2 * kMiB);
    fill(survivor, 2 * kMiB, 1);
    device_->on_drain = [&] { gate_.pass(); };
    bool clean = false;
    while_held_up([&] { clean = memory_->boundary(); }, [&] { allocate_and_free(); });
    EXPECT_TRUE(clean);
    EXPECT_FALSE(memory_->in_lane(survivor));
    EXPECT_TRUE(holds(survivor, 2 * kMiB, 1));
    memory_->free(survivor);
}

// While a boundary waits for the device's earlier work, a thread that has left its iteration gives the device more work with
// its block and frees the block.
TEST_F(MemoryWaitingTest, ABlockThatIsFreedDuringABoundaryIsWaitedFor) {
    for (const bool threaded : {true, false}) {
        SCOPED_TRACE(threaded ? "the block stays where it is" : "the block would be moved");
        device_->work_in_flight = true;
        void* block = ephemeral(2 * kMiB);
        ASSERT_TRUE(memory_->in_lane(block));
        if (threaded) memory_->set_threaded(true, /*move_out=*/false);
        int fences_before_free = 0;
        device_->on_drain = [&] {
            if (!block) return;
            fences_before_free = device_->fences;
            memory_->free(std::exchange(block, nullptr));
        };
        EXPECT_TRUE(memory_->boundary());
        EXPECT_GT(device_->fences, fences_before_free) << "the work from before it was freed is not marked";
        device_->on_drain = nullptr;
        memory_->set_threaded(false, /*move_out=*/false);
    }
}

TEST_F(MemoryWaitingTest, WhileMemoryIsGivenBack) {
    device_->work_in_flight = true;
    memory_->free(persistent(8 * kMiB));
    device_->on_drain = [&] { gate_.pass(); };
    while_held_up([&] { memory_->give_back(); }, [&] { allocate_and_free(); });
}

TEST_F(MemoryWaitingTest, WhileAnotherAllocationWaitsForTheDevice) {
    device_->work_in_flight = true;
    void* late = *memory_->allocate_on(0, 16 * kMiB, /*inside=*/true);
    memory_->used_on(late, 7);
    memory_->free(late);
    device_->held_most = device_->held + 20 * kMiB;
    device_->on_drain = [&] { gate_.pass(); };
    void* large = nullptr;
    while_held_up([&] { large = persistent(32 * kMiB); }, [&] { allocate_and_free(); });
    EXPECT_NE(large, nullptr);
    memory_->free(large);
}

TEST_F(MemoryWaitingTest, WhileAStreamIsWaitedFor) {
    device_->work_in_flight = true;
    memory_->free(*memory_->allocate_on(0, 2 * kMiB, /*inside=*/true));
    device_->fail_order = true;
    device_->on_drain = [&] { gate_.pass(); };
    while_held_up([&] { memory_->wait_for_stream(7); }, [&] { allocate_and_free(); });
}

TEST_F(MemoryWaitingTest, WhileTheHomeLeavesAStreamThatIsGone) {
    device_->work_in_flight = true;
    memory_->free(*memory_->allocate_on(5, 2 * kMiB, /*inside=*/false));
    EXPECT_FALSE(memory_->allocate_on(6, 2 * kMiB, /*inside=*/true));
    device_->stream_is_gone = true;
    device_->on_drain = [&] { gate_.pass(); };
    while_held_up([&] { memory_->boundary(); }, [&] { allocate_and_free(); });
    device_->stream_is_gone = false;
    EXPECT_TRUE(memory_->allocate_on(6, 2 * kMiB, /*inside=*/false));
}

TEST_F(MemoryWaitingTest, WhileTheLaneGrowsItsOldPartIsUsed) {
    device_->on_map_lane = [&] { gate_.pass(); };
    lane_memory(32 * kMiB);
    while_held_up([&] { EXPECT_TRUE(memory_->map_lane(32 * kMiB)); },
                  [&] {
                      void* block = ephemeral(4 * kMiB);
                      EXPECT_TRUE(memory_->in_lane(block));
                      memory_->free(block);
                      allocate_and_free();
                  });
    EXPECT_EQ(memory_->mapped(), 32 * kMiB);
}

TEST_F(MemoryWaitingTest, BeforeTheLaneShrinksItsWorkUpToNowIsWaitedFor) {
    device_->work_in_flight = true;
    memory_->free(ephemeral(8 * kMiB));  // the device may still work on it
    const int fences = device_->fences;
    int fences_at_drain = 0;
    device_->on_drain = [&] { fences_at_drain = device_->fences; };
    ASSERT_TRUE(memory_->map_lane(2 * kMiB));
    EXPECT_GT(fences_at_drain, fences);
}

TEST_F(MemoryWaitingTest, WhileTheLaneIsLeft) {
    device_->on_drain = [&] { gate_.pass(); };
    while_held_up([&] { memory_->unmap_lane(); },
                  [&] {
                      void* block = ephemeral(4 * kMiB);
                      EXPECT_TRUE(in_private_window(block));
                      memory_->free(block);
                      allocate_and_free();
                  });
}

TEST_F(MemoryWaitingTest, WhileABlockIsEvacuatedItCanBeFreed) {
    for (const bool in_flight : {false, true}) {
        SCOPED_TRACE(in_flight);
        device_->work_in_flight = in_flight;
        begin_turn(kPlenty, 16 * kMiB);
        const std::uint64_t before = memory_->private_bytes();
        void* block = ephemeral(2 * kMiB);
        ASSERT_TRUE(memory_->in_lane(block));
        Gate gate;
        device_->on_make_private = [&] { gate.pass(); };
        std::thread boundary([&] { EXPECT_TRUE(memory_->boundary()); });
        gate.wait_until_reached();
        memory_->free(block);
        void* other = ephemeral(2 * kMiB);
        EXPECT_TRUE(in_private_window(other)) << "nothing new is placed in a lane that is being cleared";
        allocate_and_free();
        gate.open();
        boundary.join();
        device_->on_make_private = {};
        memory_->free(other);
        EXPECT_TRUE(memory_->boundary());  // restores the lane
        EXPECT_EQ(memory_->private_bytes(), before);
        begin_turn(kPlenty, 16 * kMiB);
        void* all = ephemeral(16 * kMiB);
        EXPECT_TRUE(memory_->in_lane(all)) << "the whole lane is free";
        memory_->free(all);
        EXPECT_TRUE(memory_->boundary());
    }
}

TEST_F(MemoryWaitingTest, ABlockThatIsFreedWhileItCannotBeEvacuatedLeavesTheLane) {
    device_->fail_make_private = true;
    void* block = ephemeral(2 * kMiB);
    device_->on_make_private = [&] { gate_.pass(); };
    while_held_up([&] { EXPECT_TRUE(memory_->boundary()); }, [&] { memory_->free(block); });
    begin_turn(kPlenty, 16 * kMiB);
    void* all = ephemeral(16 * kMiB);
    EXPECT_TRUE(memory_->in_lane(all));
    memory_->free(all);
}

TEST_F(MemoryWaitingTest, WhatIsFreedWhileTheDeviceDrainsIsNotUnmapped) {
    device_->work_in_flight = true;
    void* survivor = ephemeral(2 * kMiB);
    void* block = persistent(8 * kMiB, /*inside=*/false);
    device_->on_drain = [&] { gate_.pass(); };
    int discarded = 0;
    device_->on_take_out = [&](const std::string& call) { discarded += call == "discard_private" ? 1 : 0; };
    device_->held_most_to_evacuate = 0;  // so that all kept memory is given back
    while_held_up([&] { EXPECT_FALSE(memory_->boundary()); }, [&] { memory_->free(block); });
    EXPECT_EQ(discarded, 0) << "work that came after the mark may use it";
    device_->on_drain = {};
    device_->held_most_to_evacuate = kPlenty;
    EXPECT_GT(memory_->give_back(), 0u);
    memory_->free(survivor);
}

TEST_F(MemoryWaitingTest, WhileMemoryIsWrittenOut) {
    void* kept = persistent(4 * kMiB);
    void* freed = persistent(4 * kMiB);
    std::byte* evacuated_block = evacuated(2 * kMiB, 3);
    fill(kept, 4 * kMiB, 1);
    fill(freed, 4 * kMiB, 2);
    device_->on_page_out = [&] { gate_.pass(); };
    void* again = nullptr;
    while_held_up([&] { EXPECT_TRUE(memory_->page_out()); },
                  [&] {
                      allocate_and_free();
                      memory_->free(freed);
                      memory_->free(evacuated_block);
                      again = persistent(4 * kMiB);
                      EXPECT_EQ(again, freed) << "what goes out is another's by now";
                      fill(again, 4 * kMiB, 4);
                  });
    EXPECT_TRUE(memory_->paged());
    EXPECT_TRUE(holds(again, 4 * kMiB, 4));
    allocate_and_free();
    ASSERT_TRUE(memory_->page_in());
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_TRUE(holds(again, 4 * kMiB, 4));
    EXPECT_TRUE(memory_->boundary());
    begin_turn(kPlenty, 16 * kMiB);
    void* all = ephemeral(16 * kMiB);
    EXPECT_TRUE(memory_->in_lane(all));
    for (void* block : {kept, again, all}) memory_->free(block);
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryWaitingTest, WhileMemoryIsReadBack) {
    void* kept = persistent(4 * kMiB);
    void* freed = persistent(4 * kMiB);
    std::byte* evacuated_block = evacuated(2 * kMiB, 3);
    fill(kept, 4 * kMiB, 1);
    ASSERT_TRUE(memory_->page_out());
    device_->on_page_in = [&] { gate_.pass(); };
    while_held_up([&] { EXPECT_TRUE(memory_->page_in()); },
                  [&] {
                      memory_->free(freed);
                      memory_->free(evacuated_block);
                      allocate_and_free();
                  });
    EXPECT_TRUE(holds(kept, 4 * kMiB, 1));
    EXPECT_TRUE(memory_->boundary());
    begin_turn(kPlenty, 16 * kMiB);
    void* all = ephemeral(16 * kMiB);
    EXPECT_TRUE(memory_->in_lane(all));
    memory_->free(all);
    memory_->free(kept);
}

// Otherwise a thread that starts now could write to a block that is being moved.
TEST_F(MemoryWaitingTest, ThreadsStartOnlyWhenNothingIsBeingMoved) {
    void* block = ephemeral(2 * kMiB);
    device_->on_make_private = [&] { gate_.pass(); };
    std::thread boundary([&] { EXPECT_TRUE(memory_->boundary()); });
    gate_.wait_until_reached();
    std::atomic<bool> may_start{false};
    std::thread starts([&] {
        memory_->set_threaded(true, /*move_out=*/true);
        may_start = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(may_start);
    gate_.open();
    boundary.join();
    starts.join();
    EXPECT_FALSE(memory_->in_lane(block));
    memory_->free(block);
}

}  // namespace
}  // namespace salus::client::test
