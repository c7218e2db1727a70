// Memory of a GPU goes to the host and comes back, over the stand-in.
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;
using PageMove = Memory::PageMove;

constexpr std::uint64_t kPagedLane = 64 * kMiB;

class CudaPagerTest : public CudaMemoryTest {
protected:
    CudaPagerTest() { environment["SALUS_STANDIN_LATENCY"] = "300"; }
};

struct PagedWorld : World {
    PagedWorld() { paging.on = true; }
};

/// Blocks of many sizes, private and evacuated, with their content.
class Blocks {
public:
    explicit Blocks(Tenant& tenant) : tenant_(tenant) {
        Memory& memory = tenant.memory();
        tenant.join(kPagedLane);
        tenant.begin(0, kPagedLane);
        const std::uint64_t first = 5 * kMiB;
        add(memory.allocate(first, Kind::kEphemeral, true), first);
        EXPECT_TRUE(memory.in_lane(blocks_.front().start));
        EXPECT_TRUE(memory.boundary());  // evacuated
        for (const std::uint64_t mib : {1u, 2u, 3u, 7u, 70u, 1u, 30u, 2u})
            add(memory.allocate(mib * kMiB, Kind::kPersistent, true), mib * kMiB);
        memory.unmap_lane();
    }
    bool are_right() const {
        return std::ranges::all_of(blocks_, [](const Block& block) { return holds(block.start, block.size, block.size); });
    }
    bool are_there() const {
        return std::ranges::all_of(blocks_, [](const Block& block) { return readable(block.start); });
    }
    bool are_away() const {
        return std::ranges::none_of(blocks_, [](const Block& block) { return readable(block.start); });
    }
    void free(std::size_t index) {
        tenant_.memory().free(blocks_[index].start);
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    void free_all() {
        while (!blocks_.empty()) free(0);
    }
    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const Block& block : blocks_) sum += block.size;
        return sum;
    }

private:
    struct Block {
        void* start;
        std::uint64_t size;
    };
    void add(void* start, std::uint64_t size) {
        ASSERT_NE(start, nullptr);
        fill(start, size, size);
        blocks_.push_back({start, size});
    }

    Tenant& tenant_;
    std::vector<Block> blocks_;
};

std::uint64_t placed(const Tenant& tenant) {
    std::uint64_t sum = 0;
    for (const auto& bytes : const_cast<Tenant&>(tenant).page().paged_bytes) sum += bytes;
    return sum;
}

TEST_F(CudaPagerTest, BlocksComeBackAtTheirAddressesWithTheirContent) {
    in_process([] {
        const PagedWorld world;
        Tenant tenant(world);
        Blocks blocks(tenant);
        world.lanes->release(kLane);
        Memory& memory = tenant.memory();
        const std::uint64_t held = backed(tenant.device());
        for (int round = 0; round < 3; ++round) {
            PageMove out;
            ASSERT_TRUE(memory.page_out(&out));
            EXPECT_TRUE(memory.paged() && memory.is_away());
            EXPECT_TRUE(blocks.are_away());
            EXPECT_EQ(out.left, 0u);
            EXPECT_EQ(out.bytes, held);
            EXPECT_GT(out.ns, 0u);
            EXPECT_EQ(backed(tenant.device()), 0u);
            EXPECT_EQ(tenant.page().held_bytes, 0u);
            EXPECT_EQ(placed(tenant), held);
            EXPECT_EQ(world.used_mib(), kContextMiB);
            EXPECT_TRUE(memory.page_out());  // it is out already

            PageMove in;
            ASSERT_TRUE(memory.page_in(&in));
            EXPECT_TRUE(memory.page_in());  // it is in already
            EXPECT_FALSE(memory.paged() || memory.is_away());
            EXPECT_EQ(in.bytes, held);
            EXPECT_EQ(backed(tenant.device()), held);
            EXPECT_EQ(tenant.page().held_bytes, held);
            EXPECT_EQ(placed(tenant), 0u);
            EXPECT_TRUE(blocks.are_right());
        }
        blocks.free_all();
        EXPECT_EQ(memory.private_bytes(), 0u);
    });
}

TEST_F(CudaPagerTest, WhatIsFreedMeanwhileNeedNotComeBack) {
    in_process([] {
        const PagedWorld world;
        Tenant tenant(world);
        Blocks blocks(tenant);
        Memory& memory = tenant.memory();
        ASSERT_TRUE(memory.page_out());
        while (blocks.bytes() > 20 * kMiB) blocks.free(1);
        EXPECT_EQ(memory.allocate(8 * kMiB, Kind::kPersistent, true), nullptr) << "there is nothing to put behind it";
        EXPECT_FALSE(memory.allocate_on(0, 8 * kMiB, true));
        memory.give_back();
        ASSERT_TRUE(memory.page_in());
        EXPECT_TRUE(blocks.are_right());
        EXPECT_LT(backed(tenant.device()), 60 * kMiB) << "but what lies beside it in a run does";
        void* block = memory.allocate(8 * kMiB, Kind::kPersistent, true);
        ASSERT_NE(block, nullptr);
        fill(block, 8 * kMiB, 1);
        EXPECT_TRUE(blocks.are_right());
        memory.free(block);
        blocks.free_all();
        memory.give_back();
        EXPECT_EQ(tenant.device().own->backed(), 0u);
    });
}

// Others free memory while their threads clean up, at any moment of both ways.
TEST_F(CudaPagerTest, BlocksMayBeFreedWhileTheyMove) {
    in_process([] {
        const PagedWorld world;
        Tenant tenant(world);
        Memory& memory = tenant.memory();
        for (int round = 0; round < 3; ++round) {
            std::vector<void*> dying;
            Blocks blocks(tenant);
            for (int i = 0; i < 30; ++i) dying.push_back(memory.allocate(3 * kMiB, Kind::kPersistent, true));
            std::thread frees([&] {
                for (void* block : dying) {
                    memory.free(block);
                    std::this_thread::sleep_for(std::chrono::microseconds(200));
                    memory.give_back();
                }
            });
            EXPECT_TRUE(memory.page_out());
            EXPECT_TRUE(memory.page_in());
            frees.join();
            EXPECT_TRUE(blocks.are_right());
            blocks.free_all();
            EXPECT_TRUE(memory.boundary());
            EXPECT_TRUE(memory.boundary());
            memory.give_back();
            EXPECT_EQ(memory.private_bytes(), 0u);
            EXPECT_EQ(backed(tenant.device()), 0u);
        }
    });
}

TEST_F(CudaPagerTest, NothingLeavesUnderWorkInFlight) {
    in_process([] {
        const PagedWorld world;
        const Standin& gpu = world.standin;
        Tenant tenant(world);
        Memory& memory = tenant.memory();
        cuda::Stream unknown = nullptr;
        ASSERT_EQ(gpu.stream_create(&unknown, cuda::kStreamNonBlocking), kSuccess);
        void* block = memory.allocate(30 * kMiB, Kind::kPersistent, true);
        ASSERT_EQ(gpu.work(unknown, address_of(block), 30 * kMiB, 9, 20'000), kSuccess);
        ASSERT_TRUE(memory.page_out());
        EXPECT_EQ(gpu.stream_synchronize(unknown), kSuccess);
        ASSERT_TRUE(memory.page_in());
        const auto* bytes = static_cast<const std::byte*>(block);
        EXPECT_TRUE(bytes[0] == std::byte{9} && bytes[30 * kMiB - 1] == std::byte{9});
        memory.free(block);
    });
}

TEST_F(CudaPagerTest, IfTheDeviceLacksMemoryTheRestComesLater) {
    in_process([] {
        const PagedWorld world;
        Tenant tenant(world);
        Blocks blocks(tenant);
        Memory& memory = tenant.memory();
        ASSERT_TRUE(memory.page_out());
        world.lanes->release(kLane);
        std::size_t free = 0, total = 0;
        ASSERT_EQ(world.standin.memory_info(&free, &total), kSuccess);
        const cuda::AllocationProperties properties;
        cuda::Handle handle = 0;
        ASSERT_EQ(world.standin.memory_create(&handle, free - 100 * kMiB, &properties, 0), kSuccess);
        EXPECT_FALSE(memory.page_in());
        EXPECT_TRUE(tenant.device().pager->lacks_memory());
        EXPECT_TRUE(memory.paged());
        EXPECT_GT(backed(tenant.device()), 0u);
        EXPECT_FALSE(memory.page_in());
        ASSERT_EQ(world.standin.memory_release(handle), kSuccess);
        EXPECT_TRUE(memory.page_in());
        EXPECT_TRUE(blocks.are_right());
    });
}

// Whatever fails on the way out stays, and is there. What fails on the way in is tried again.
TEST_F(CudaPagerTest, AnyCallMayFailAndNothingIsLost) {
    const struct {
        const char* function;
        int calls;
    } rows[] = {{"cuMemUnmap", 3},     {"cuMemcpyDtoHAsync_v2", 3}, {"cuMemCreate", 70},   {"cuMemMap", 70},
                {"cuMemSetAccess", 5}, {"cuEventRecord", 3},        {"cuStreamCreate", 1}, {"cuEventCreate", 4}};
    for (const auto& row : rows) {
        for (int call = 1; call <= row.calls; call += row.calls > 20 ? 17 : 1) {
            environment["SALUS_STANDIN_FAIL"] = row.function + (":" + std::to_string(call));
            SCOPED_TRACE(environment["SALUS_STANDIN_FAIL"]);
            in_process([] {
                const PagedWorld world;
                Tenant tenant(world);
                Memory& memory = tenant.memory();
                std::vector<void*> blocks;
                for (int i = 0; i < 3; ++i) {
                    void* block = memory.allocate(24 * kMiB, Kind::kPersistent, true);
                    if (!block) continue;  // that call was to fail
                    fill(block, 24 * kMiB, static_cast<std::uint64_t>(i));
                    blocks.push_back(block);
                }
                const auto are_right = [&] {
                    for (std::size_t i = 0; i < blocks.size(); ++i) {
                        if (!holds(blocks[i], 24 * kMiB, i) && !holds(blocks[i], 24 * kMiB, i + 1)) return false;
                    }
                    return true;
                };
                for (int round = 0; round < 2; ++round) {
                    PageMove out;
                    if (memory.page_out(&out)) {
                        EXPECT_EQ(out.left, backed(tenant.device()));
                        EXPECT_EQ(placed(tenant), out.bytes);
                        for (int tries = 0; tries < 3 && !memory.page_in(); ++tries)
                            EXPECT_TRUE(tenant.device().pager->lacks_memory());
                    } else {
                        EXPECT_EQ(placed(tenant), 0u);
                    }
                    EXPECT_FALSE(memory.paged());
                    ASSERT_TRUE(are_right());
                }
                for (void* block : blocks) memory.free(block);
            });
        }
    }
}

// Two processes change places: each has more than half of the device.
TEST_F(CudaPagerTest, TwoProcessesChangePlacesAtOnce) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(500 * kMiB);
    const auto run = [](const Line& line) {
        const PagedWorld world;
        Tenant tenant(world);
        Memory& memory = tenant.memory();
        void* block = memory.allocate(250 * kMiB, Kind::kPersistent, true);
        ASSERT_NE(block, nullptr);
        const auto key = static_cast<std::uint64_t>(::getpid());
        fill(block, 250 * kMiB, key);
        ASSERT_TRUE(memory.page_out());
        line.say(1);
        for (int what = line.hear(); what != 0; what = line.hear()) {
            if (what == 1) {
                while (!memory.page_in()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                EXPECT_TRUE(holds(block, 250 * kMiB, key));
            } else {
                EXPECT_TRUE(memory.page_out());
            }
            line.say(1);
        }
    };
    test::Part a(environment, run);
    EXPECT_EQ(a.line().hear(), 1);
    test::Part b(environment, run);
    EXPECT_EQ(b.line().hear(), 1);
    a.line().say(1);
    EXPECT_EQ(a.line().hear(), 1);
    const test::Part* in = &a;
    const test::Part* out = &b;
    for (int i = 0; i < 4; ++i) {
        in->line().say(2);
        out->line().say(1);
        EXPECT_EQ(in->line().hear(), 1);
        EXPECT_EQ(out->line().hear(), 1);
        std::swap(in, out);
    }
    a.line().say(0);
    b.line().say(0);
}

}  // namespace
}  // namespace salus::device
