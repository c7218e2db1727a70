// A client's memory on a GPU, over the stand-in: nothing is lost, and nothing is unmapped under work in flight.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;

constexpr std::uint64_t kLaneSize = 64 * kMiB;

TEST_F(CudaMemoryTest, ABlockOfNoBytesIsABlock) {
    in_process([] {
        const World world;
        ControlPage page;
        ScriptedProvider provider;
        const auto device = world.client();
        Memory memory(page, *device, provider);
        void* block = memory.allocate(0, Kind::kAuto, /*inside=*/false);
        EXPECT_NE(block, nullptr);
        memory.free(block);
    });
}

// The stand-in ends a context under whose work memory is unmapped, as a real one does.
TEST_F(CudaMemoryTest, NothingIsUnmappedUnderWorkInFlight) {
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        Tenant tenant(world);
        Memory& memory = tenant.memory();
        cuda::Stream side = nullptr;
        ASSERT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        const auto side_stream = reinterpret_cast<Stream>(side);
        const auto work = [&](void* block, std::uint64_t size, bool aside) {
            ASSERT_NE(block, nullptr);
            if (aside) memory.used_on(block, side_stream);
            ASSERT_EQ(gpu.work(aside ? side : nullptr, address_of(block), size, 1, 3'000), kSuccess);
        };
        const auto is_alive = [&] {
            return gpu.stream_synchronize(nullptr) == kSuccess && gpu.stream_synchronize(side) == 0;
        };
        for (const bool aside : {false, true}) {
            SCOPED_TRACE(aside ? "aside" : "at home");
            // Without a lane: leftovers of a profiling turn are given back.
            memory.turn_begins();
            void* block = memory.allocate_on(0, 20 * kMiB, true).value();
            work(block, 20 * kMiB, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            EXPECT_TRUE(memory.boundary());
            ASSERT_TRUE(is_alive());
            EXPECT_TRUE(memory.boundary());
            EXPECT_EQ(backed(tenant.device()), 0u);

            // In the lane, which shrinks, is evacuated, and goes.
            tenant.join(3 * kLaneSize);
            tenant.begin(0, 3 * kLaneSize);
            block = memory.allocate(3 * kLaneSize, Kind::kEphemeral, true);
            work(block, 3 * kLaneSize, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            tenant.shrink(kLaneSize);
            ASSERT_TRUE(is_alive());
            EXPECT_TRUE(memory.boundary());  // what another stream used is free
            tenant.begin(0, kLaneSize);
            block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
            work(block, 2 * kMiB, aside);
            EXPECT_TRUE(memory.boundary());
            ASSERT_TRUE(is_alive());
            EXPECT_EQ(static_cast<std::byte*>(block)[2 * kMiB - 1], std::byte{1});
            work(block, 2 * kMiB, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            EXPECT_TRUE(memory.boundary());
            ASSERT_TRUE(is_alive());
            tenant.begin(0, kLaneSize);
            block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
            ASSERT_TRUE(memory.in_lane(block));
            work(block, 2 * kMiB, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            memory.unmap_lane();
            ASSERT_TRUE(is_alive());
        }
        EXPECT_EQ(backed(tenant.device()), 0u);
    });
}

// Without record_stream: a script that keeps the block for as long as the other stream reads it need not say so.
TEST_F(CudaMemoryTest, WhatIsEvacuatedMayBeInUseOnAStreamThatNobodyNamed) {
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        Tenant tenant(world);
        Memory& memory = tenant.memory();
        cuda::Stream side = nullptr;
        ASSERT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        tenant.join(kLaneSize);
        tenant.begin(0, kLaneSize);
        void* block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
        ASSERT_TRUE(memory.in_lane(block));
        ASSERT_EQ(gpu.work(side, address_of(block), 2 * kMiB, 7, 20'000), kSuccess);
        EXPECT_TRUE(memory.boundary());
        EXPECT_FALSE(memory.in_lane(block));
        ASSERT_EQ(gpu.stream_synchronize(side), kSuccess);
        EXPECT_EQ(static_cast<std::byte*>(block)[2 * kMiB - 1], std::byte{7});

        memory.free(block);
        EXPECT_TRUE(memory.boundary());
        tenant.begin(0, kLaneSize);
        block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
        ASSERT_TRUE(memory.in_lane(block));
        ASSERT_EQ(gpu.set_capturing(side, 1), kSuccess);
        EXPECT_FALSE(memory.boundary()) << "what a capture does cannot be waited for";
        ASSERT_EQ(gpu.set_capturing(side, 0), kSuccess);
        EXPECT_TRUE(memory.boundary());
        memory.free(block);
    });
}

// -------------------------------------------------------------------------------------------------- all of it together

// The second survivor lies in the piece that became private for the first.
TEST_F(CudaMemoryTest, ASurvivorInAPieceThatIsPrivateAlreadyKeepsItsContent) {
    in_process([] {
        const World world;
        Tenant a(world);
        Tenant b(world);
        a.join(kPiece);
        b.join(kPiece);
        a.begin(0, kPiece);
        void* first = a.memory().allocate(kMiB, Kind::kEphemeral, true);
        fill(first, kMiB, 1);
        EXPECT_TRUE(a.memory().boundary());
        fill(b.device().lane->start(), 2 * kMiB, 99);
        a.begin(0, kPiece);
        void* second = a.memory().allocate(kMiB, Kind::kEphemeral, true);
        ASSERT_TRUE(a.memory().in_lane(second));
        fill(second, kMiB, 2);
        EXPECT_TRUE(holds(first, kMiB, 1));
        a.memory().free(first);
        EXPECT_TRUE(a.memory().boundary());
        EXPECT_FALSE(a.memory().in_lane(second));
        fill(b.device().lane->start(), 2 * kMiB, 98);
        EXPECT_TRUE(holds(second, kMiB, 2));
        EXPECT_EQ(backed(a.device()), kPiece);
        a.memory().free(second);
        EXPECT_TRUE(a.memory().boundary());
        EXPECT_EQ(backed(a.device()), 0u);
    });
}

/// Some bytes of every granule: enough to tell blocks apart.
void sign(void* block, std::uint64_t size, std::uint64_t key) {
    for (std::uint64_t at = 0; at < size; at += client::Arena::kGranule)
        fill(static_cast<std::byte*>(block) + at, sizeof key, key + at);
}
bool is_signed(void* block, std::uint64_t size, std::uint64_t key) {
    for (std::uint64_t at = 0; at < size; at += client::Arena::kGranule) {
        if (!holds(static_cast<std::byte*>(block) + at, sizeof key, key + at)) return false;
    }
    return true;
}

/// A tenant that does anything, and knows what its blocks hold.
class Restless {
public:
    Restless(const World& world, std::uint64_t seed) : tenant_(world), random_(seed) {}

    Tenant& tenant() { return tenant_; }

    void turn(std::uint64_t lane) {
        tenant_.begin(512 * kMiB, std::min<std::uint64_t>(lane, kLaneSize + random_.below(2) * kLaneSize));
        for (int i = 0; i < 12; ++i) {
            if (blocks_.size() < 10 && random_.chance(0.6)) allocate(/*inside=*/true);
            else if (!blocks_.empty()) release(random_.below(blocks_.size()));
        }
        // Few are kept: every one costs a copy of a piece.
        while (blocks_.size() > 3 || (!blocks_.empty() && random_.chance(0.6))) release(random_.below(blocks_.size()));
        ASSERT_TRUE(tenant_.memory().boundary());
        tenant_.device().fences->drain();
        if (random_.chance(0.3)) allocate(/*inside=*/false);
        if (!blocks_.empty() && random_.chance(0.3)) release(random_.below(blocks_.size()));
    }
    void verify() const {
        for (const Held& held : blocks_) ASSERT_TRUE(is_signed(held.block, held.size, held.key)) << held.size;
    }
    void end() {
        while (!blocks_.empty()) release(0);
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(tenant_.memory().boundary());
            tenant_.device().fences->drain();
        }
    }

private:
    struct Held {
        void* block;
        std::uint64_t size;
        std::uint64_t key;
    };

    void allocate(bool inside) {
        const std::uint64_t size = kMiB + random_.below(random_.chance(0.1) ? 70 * kMiB : 4 * kMiB);
        const Kind kind = random_.chance(0.6) ? Kind::kEphemeral : static_cast<Kind>(random_.below(3));
        const Held held{tenant_.memory().allocate(size, kind, inside), size, random_.next()};
        ASSERT_NE(held.block, nullptr);
        sign(held.block, held.size, held.key);
        blocks_.push_back(held);
    }
    void release(std::uint64_t which) {
        const Held held = blocks_[which];
        EXPECT_TRUE(is_signed(held.block, held.size, held.key)) << held.size;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
        tenant_.memory().free(held.block);
    }

    Tenant tenant_;
    Random random_;
    std::vector<Held> blocks_;
};

TEST_F(CudaMemoryTest, ThreeClientsTakeTurnsInALaneThatChanges) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(8192 * kMiB);
    environment["SALUS_STANDIN_LATENCY"] = "50";
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        in_process([&] {
            const World world;
            Random random(seed);
            std::array<std::unique_ptr<Restless>, 3> all;
            for (std::size_t i = 0; i < all.size(); ++i) {
                all[i] = std::make_unique<Restless>(world, 100 * seed + i);
                all[i]->tenant().join(kLaneSize);
            }
            std::uint64_t evacuations = 0;
            for (int turn = 0; turn < 40 && !::testing::Test::HasFailure(); ++turn) {
                Restless& one = *all[random.below(all.size())];
                one.turn(one.tenant().memory().mapped());
                for (const auto& client : all) client->verify();
                const std::uint64_t change = random.below(6);
                if (change == 0) {  // all are told, then the memory goes
                    for (const auto& client : all) client->tenant().shrink(kLaneSize);
                    world.lanes->trim(kLane, bytes_of(kLaneSize));
                } else if (change == 1) {
                    one.tenant().memory().unmap_lane();
                    one.verify();
                    one.tenant().join((1 + random.below(3)) * kLaneSize);
                }
                for (const auto& client : all) client->verify();
            }
            for (const auto& client : all) {
                evacuations += client->tenant().page().evacuations;
                client->end();
                EXPECT_EQ(client->tenant().memory().private_bytes(), 0u);
                EXPECT_EQ(backed(client->tenant().device()), 0u);
                EXPECT_EQ(client->tenant().memory().usage().in_use, 0u);
                client->tenant().memory().unmap_lane();
            }
            EXPECT_GT(evacuations, 5u);
            world.lanes->release(kLane);
            EXPECT_EQ(world.used_mib(), kContextMiB);
            EXPECT_EQ(world.standin.stream_synchronize(nullptr), kSuccess);
        });
    }
}

}  // namespace
}  // namespace salus::device
