// Other threads, and functions that the device calls, use the memory at any time.
#include <thread>

#include "client/memory_fixture.h"

namespace salus::client::test {
namespace {

/// One thread plays all roles, because the caller tells the memory which role a thread has.
class MemoryThreadsTest : public MemoryTest {
protected:
    void SetUp() override {
        start(mebibytes(1024));
        map_lane(16 * kMiB);
        begin_turn(kPlenty, 16 * kMiB);
    }
};

TEST_F(MemoryThreadsTest, BeforeAnotherThreadStartsTheLaneIsLeft) {
    void* block = ephemeral(4 * kMiB);
    fill(block, 4 * kMiB, 1);
    ASSERT_TRUE(memory_->in_lane(block));
    memory_->set_threaded(true, /*move_out=*/true);
    EXPECT_FALSE(memory_->in_lane(block));
    EXPECT_TRUE(holds(block, 4 * kMiB, 1));
    std::memset(elsewhere(), 0x55, 16 * kMiB);  // another client has the lane now
    EXPECT_TRUE(holds(block, 4 * kMiB, 1));
    void* next = ephemeral(4 * kMiB);
    EXPECT_TRUE(in_private_window(next));
    EXPECT_TRUE(memory_->boundary());
    memory_->free(block);
    memory_->free(next);
}

TEST_F(MemoryThreadsTest, WithOtherThreadsNoBlockIsEverMoved) {
    void* block = ephemeral(4 * kMiB);
    memory_->set_threaded(true, /*move_out=*/false);  // a second thread has begun an iteration: the first may be writing
    bool moved = false;
    device_->on_take_out = [&](const std::string& call) { moved = moved || call == "make_private"; };
    EXPECT_FALSE(memory_->boundary());  // so the client keeps the lane
    EXPECT_TRUE(memory_->in_lane(block));
    EXPECT_FALSE(moved);
    EXPECT_EQ(page_.boundaries_delayed, 1u);
    memory_->free(block, /*inside=*/false);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_FALSE(moved);
}

// A thread of ours entered it, and leaves it last. The thread of the block came in meanwhile, and goes on with it.
TEST_F(MemoryThreadsTest, ATurnThatAThreadOfOursEndsMovesNoBlock) {
    void* block = ephemeral(4 * kMiB);
    bool moved = false;
    device_->on_take_out = [&](const std::string& call) { moved = moved || call == "make_private"; };
    EXPECT_FALSE(memory_->boundary(Memory::Survivors::kStay));
    EXPECT_TRUE(memory_->in_lane(block));
    EXPECT_FALSE(moved);
    EXPECT_TRUE(memory_->boundary()) << "its own thread may move it";
    EXPECT_TRUE(moved);
    EXPECT_FALSE(memory_->in_lane(block));
    memory_->free(block);
    EXPECT_TRUE(memory_->boundary(Memory::Survivors::kStay));
}

TEST_F(MemoryThreadsTest, WithOtherThreadsAllThatIsUsedCountsAsPersistent) {
    memory_->set_threaded(true, /*move_out=*/true);
    for (int i = 0; i < 40; ++i) {
        void* block = ephemeral(8 * kMiB);
        memory_->free(block);
        EXPECT_TRUE(memory_->boundary());
    }
    EXPECT_EQ(page_.wanted_ephemeral, 0u);
    EXPECT_GE(page_.wanted_persistent, 8 * kMiB);
}

TEST_F(MemoryThreadsTest, WhenTheOtherThreadsHaveEndedTheLaneIsUsedAgain) {
    memory_->set_threaded(true, /*move_out=*/true);
    EXPECT_TRUE(memory_->boundary());
    memory_->set_threaded(false, /*move_out=*/true);
    begin_turn(kPlenty, 16 * kMiB);
    void* block = ephemeral(kMiB);
    EXPECT_TRUE(memory_->in_lane(block));
    memory_->free(block);
}

TEST_F(MemoryThreadsTest, AFunctionThatTheDeviceWaitsForMayFree) {
    device_->work_in_flight = true;
    void* survivor = ephemeral(2 * kMiB);
    void* freed = ephemeral(2 * kMiB);
    device_->on_drain = [&] {  // the stream's last work is a function, which a thread of the driver calls
        if (freed) std::thread([this, block = std::exchange(freed, nullptr)] { memory_->free(block); }).join();
    };
    EXPECT_TRUE(memory_->boundary());
    EXPECT_EQ(memory_->usage().in_use, 2 * kMiB);
    device_->on_drain = {};
    memory_->free(survivor);
}

TEST_F(MemoryThreadsTest, WhileAStreamCapturesTheLaneIsNotGivenUp) {
    device_->work_in_flight = true;
    constexpr device::Stream kOther = 7;
    void* late = *memory_->allocate_on(0, 2 * kMiB, /*inside=*/true);
    memory_->used_on(late, kOther);
    memory_->free(late);
    device_->capturing = true;
    const int drains = device_->drains_of_everything;
    EXPECT_FALSE(memory_->boundary());
    EXPECT_EQ(device_->drains_of_everything, drains);  // that would spoil the graph
    EXPECT_EQ(memory_->give_back(), 0u);               // nobody can tell what is still in use
    device_->capturing = false;
    EXPECT_TRUE(memory_->boundary());
}

TEST_F(MemoryThreadsTest, WithoutIterationsWhatOtherStreamsUsedDoesNotPileUp) {
    device_->work_in_flight = true;
    std::uint64_t most = 0;
    for (int i = 0; i < 60; ++i) {
        void* block = *memory_->allocate_on(0, 32 * kMiB, /*inside=*/false);
        ASSERT_NE(block, nullptr);
        memory_->used_on(block, 7);
        memory_->free(block, /*inside=*/false);
        most = std::max(most, device_->held);
    }
    EXPECT_LE(most, 192 * kMiB);
}

TEST_F(MemoryThreadsTest, WhatOtherStreamsStillUseIsNotUsedAgain) {
    device_->work_in_flight = true;
    device_->has_passed = false;
    std::set<void*> blocks;
    for (int i = 0; i < 8; ++i) {
        void* block = *memory_->allocate_on(0, 32 * kMiB, /*inside=*/false);
        EXPECT_TRUE(blocks.insert(block).second);
        memory_->used_on(block, 7);
        memory_->free(block, /*inside=*/false);
    }
}

}  // namespace
}  // namespace salus::client::test
