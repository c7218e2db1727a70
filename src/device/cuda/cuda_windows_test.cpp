// A client's windows on a GPU: pieces, evacuation, what happens when memory is short.
#include <fstream>
#include <functional>
#include <thread>

#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;

// ------------------------------------------------------------------------------------------------------------ the lane

TEST_F(CudaMemoryTest, AWindowShowsAsMuchOfTheLaneAsItIsTold) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        EXPECT_TRUE(a->traits.asynchronous && !a->traits.is_host);
        EXPECT_TRUE(a->lane->resize(0));
        EXPECT_FALSE(a->lane->resize(1)) << "no memory ever came";
        EXPECT_FALSE(a->lane->add_memory(1, {})) << "the first ones are missing";
        EXPECT_TRUE(a->lane->add_memory(0, {})) << "a lane of size 0";
        EXPECT_TRUE(a->lane->resize(0));
        EXPECT_FALSE(readable(a->lane->start()));

        world.pass_on(*a, 3 * kPiece);
        world.map_lane(*b, 3 * kPiece);
        const auto shown = [&] {
            std::size_t pieces = 0;
            while (pieces < 5 && readable(a->lane->start() + pieces * kPiece) &&
                   readable(a->lane->start() + (pieces + 1) * kPiece - 1)) {
                ++pieces;
            }
            return pieces;
        };
        EXPECT_EQ(shown(), 0u);
        EXPECT_TRUE(a->lane->resize(1));
        EXPECT_EQ(shown(), 1u);
        EXPECT_FALSE(a->lane->resize(kPiece + 1)) << "pieces that are not shown are given up";
        world.pass_on(*a, 3 * kPiece, 1);
        EXPECT_TRUE(a->lane->resize(kPiece + 1));
        EXPECT_EQ(shown(), 2u);
        mark(b->lane->start(), 2 * kPiece, 1);
        EXPECT_TRUE(is_marked(a->lane->start(), 2 * kPiece, 1)) << "one memory";
        EXPECT_FALSE(a->lane->resize(4 * kPiece));
        EXPECT_EQ(shown(), 2u);

        // What one gives up is there as long as another shows it.
        world.lanes->trim(kLane, bytes_of(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 6);
        EXPECT_TRUE(b->lane->resize(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 4);
        EXPECT_TRUE(a->lane->resize(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 2);
        EXPECT_EQ(shown(), 1u);
        EXPECT_TRUE(is_marked(a->lane->start(), kPiece, 1));
        a->lane->drop();
        EXPECT_EQ(shown(), 0u);
        EXPECT_FALSE(a->lane->resize(kPiece));
        EXPECT_FALSE(a->lane->resize(~std::uint64_t{0} / 2));
    });
}

TEST_F(CudaMemoryTest, WhatIsEvacuatedKeepsContentAndAddress) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        world.map_lane(*a, 3 * kPiece);
        world.map_lane(*b, 3 * kPiece);
        std::byte* window = a->lane->start();
        mark(window, 3 * kPiece, 1);
        const Range range{kPiece - kMiB, 2 * kMiB};  // in two pieces
        ASSERT_TRUE(a->lane->make_private(range));
        EXPECT_EQ(backed(*a), 2 * kPiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 5 * 2);
        EXPECT_TRUE(is_marked(window, 3 * kPiece, 1));
        mark(b->lane->start(), 3 * kPiece, 100);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 1)) << "all of the pieces is private";
        EXPECT_FALSE(is_marked(window + 2 * kPiece, kPiece, 1 + 4));
        mark(window, 2 * kPiece, 50);
        EXPECT_TRUE(is_marked(b->lane->start(), 2 * kPiece, 100)) << "nor does another see it";

        // A second block in the first piece: it is private until both are gone.
        ASSERT_TRUE(a->lane->make_private({0, kMiB}));
        EXPECT_EQ(backed(*a), 2 * kPiece);
        EXPECT_TRUE(a->lane->restore(range));
        EXPECT_EQ(backed(*a), kPiece);
        EXPECT_TRUE(is_marked(window, kPiece, 50));
        EXPECT_TRUE(is_marked(window + kPiece, kPiece, 100 + 2));
        EXPECT_TRUE(a->lane->restore({0, kMiB}));
        EXPECT_EQ(backed(*a), 0u);
        EXPECT_TRUE(is_marked(window, 3 * kPiece, 100));
        EXPECT_EQ(world.used_mib(), kContextMiB + 3 * 2);
    });
}

TEST_F(CudaMemoryTest, LanesShrinkGrowAndGoAroundAnEvacuatedPiece) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        world.map_lane(*a, 3 * kPiece);
        world.map_lane(*b, 4 * kPiece);
        std::byte* window = a->lane->start();
        mark(window + kPiece, kPiece, 1);
        ASSERT_TRUE(a->lane->make_private({kPiece, kMiB}));
        mark(b->lane->start(), 4 * kPiece, 100);
        const auto look = [&](bool first, bool third, bool fourth) {
            EXPECT_EQ(readable(window), first);
            EXPECT_TRUE(!first || is_marked(window, kPiece, 100));
            EXPECT_TRUE(is_marked(window + kPiece, kPiece, 1));
            EXPECT_EQ(readable(window + 2 * kPiece), third);
            EXPECT_TRUE(!third || is_marked(window + 2 * kPiece, kPiece, 100 + 4));
            EXPECT_EQ(readable(window + 3 * kPiece), fourth);
            EXPECT_TRUE(!fourth || is_marked(window + 3 * kPiece, kPiece, 100 + 6));
        };
        look(true, true, false);
        ASSERT_TRUE(a->lane->resize(kPiece + kMiB));  // ends within it
        look(true, false, false);
        ASSERT_TRUE(a->lane->resize(kMiB));  // before it
        look(true, false, false);
        world.pass_on(*a, 4 * kPiece, 1);
        ASSERT_TRUE(a->lane->resize(4 * kPiece));
        look(true, true, true);
        a->lane->drop();
        look(false, false, false);

        // Another lane shows there once it is dead, as far as it reaches.
        ASSERT_TRUE(world.lanes->provide(LaneId{1}, bytes_of(kPiece)).ok());
        ASSERT_TRUE(a->lane->add_memory(0, world.lanes->pass_on(LaneId{1}, 0, 1).value()));
        ASSERT_TRUE(a->lane->resize(kPiece));
        EXPECT_TRUE(readable(window));
        EXPECT_TRUE(is_marked(window + kPiece, kPiece, 1));
        ASSERT_TRUE(a->lane->restore({kPiece, kMiB}));
        EXPECT_FALSE(readable(window + kPiece));
        EXPECT_EQ(backed(*a), 0u);
        a->lane->drop();
        world.map_lane(*a, 2 * kPiece);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 100));
    });
}

// A lane grows through pieces of all sizes, shrinks and is renewed. It takes little more than was asked for.
TEST_F(CudaMemoryTest, ALaneOfAnySizeTakesLittleMore) {
    in_process([] {
        const World world;
        const auto a = world.client();
        std::byte* window = a->lane->start();
        const std::uint64_t sizes[] = {kMiB, 13 * kMiB, 17 * kMiB + 1, 41 * kMiB, 65 * kMiB, 130 * kMiB, 300 * kMiB};
        std::size_t pieces = 0;
        const auto look = [&](std::uint64_t size, std::uint64_t marked) {
            const auto taken = static_cast<std::uint64_t>(world.used_mib() - kContextMiB) * kMiB;
            EXPECT_GE(taken, size);
            EXPECT_LT(taken, size + std::max(2 * kMiB, size / 4)) << size;
            EXPECT_EQ(taken, world.lanes->traits().lane_pieces.rounded_up(size)) << "what a client asks for";
            EXPECT_TRUE(readable(window + size - 1));
            EXPECT_FALSE(readable(window + taken));
            EXPECT_TRUE(is_marked(window, marked, 1));
        };
        const auto grow = [&] {
            std::uint64_t marked = 0;
            for (const std::uint64_t size : sizes) {
                world.pass_on(*a, size, pieces);
                pieces = world.lanes->pieces_for(bytes_of(size));
                ASSERT_TRUE(a->lane->resize(size));
                look(size, marked);
                mark(window, marked = size, 1);
            }
        };
        grow();
        ASSERT_TRUE(a->lane->make_private({41 * kMiB, 2 * kMiB}));  // in a piece of 8 MiB
        EXPECT_EQ(backed(*a), 8 * kMiB);
        EXPECT_TRUE(is_marked(window, 300 * kMiB, 1));
        ASSERT_TRUE(a->lane->restore({41 * kMiB, 2 * kMiB}));
        for (auto size = std::rbegin(sizes); size != std::rend(sizes); ++size) {
            ASSERT_TRUE(a->lane->resize(*size));
            world.lanes->trim(kLane, bytes_of(*size));
            look(*size, *size);
        }
        a->lane->drop();
        ASSERT_TRUE(world.lanes->renew(kLane));
        EXPECT_EQ(world.used_mib(), kContextMiB);
        pieces = 0;
        grow();
    });
}

// -------------------------------------------------------------------------------------------------------- private memory

TEST_F(CudaMemoryTest, PrivatePiecesStayWhileAnyOfThemIsWanted) {
    in_process([] {
        const World world;
        const auto a = world.client();
        std::byte* window = a->own->start();
        ASSERT_TRUE(a->own->back({0, kMiB}));
        ASSERT_TRUE(a->own->back({kMiB, 2 * kMiB}));  // the rest of the first, and of the second a half
        EXPECT_EQ(backed(*a), 2 * kPiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 4);
        mark(window, 3 * kMiB, 1);
        a->own->discard({0, kMiB});
        EXPECT_EQ(backed(*a), 2 * kPiece);
        a->own->discard({kMiB, kMiB + kMiB / 2});
        EXPECT_EQ(backed(*a), kPiece);
        EXPECT_FALSE(readable(window));
        EXPECT_TRUE(is_marked(window + 2 * kMiB, kMiB, 3));
        a->own->discard({2 * kMiB + kMiB / 2, kMiB / 2});
        EXPECT_EQ(backed(*a), 0u);
        EXPECT_EQ(world.used_mib(), kContextMiB);
    });
}

// Weights, a gap where activations were, and a workspace.
TEST_F(CudaMemoryTest, PrivateMemoryOfAnySizeTakesLittleMore) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const Range weights{0, 99 * kMiB}, activations{99 * kMiB, 22 * kMiB}, workspace{121 * kMiB, 32 * kMiB};
        for (const Range& range : {weights, activations, workspace}) {
            ASSERT_TRUE(a->own->back(range));
            mark(a->own->start() + range.offset, range.size, 1);
        }
        a->own->discard(activations);
        EXPECT_LE(backed(*a), weights.size + workspace.size + 2 * kPiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + static_cast<std::int64_t>(backed(*a) / kMiB));
        EXPECT_TRUE(is_marked(a->own->start(), weights.size, 1));
        EXPECT_TRUE(is_marked(a->own->start() + workspace.offset, workspace.size, 1));
        // Far from the start the pieces are larger.
        ASSERT_TRUE(a->own->back({301 * kMiB, kMiB}));
        EXPECT_LE(backed(*a), weights.size + workspace.size + 2 * kPiece + 4 * kMiB);
        EXPECT_TRUE(readable(a->own->start() + 301 * kMiB));
        a->own->discard({301 * kMiB, kMiB});
        a->own->discard(weights);
        a->own->discard(workspace);
        EXPECT_EQ(backed(*a), 0u);
        EXPECT_EQ(world.used_mib(), kContextMiB);
    });
}

TEST_F(CudaMemoryTest, WhatDoesNotFitIsNotTakenInPart) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(kContextMiB * kMiB + 10 * kPiece);
    environment["SALUS_STANDIN_FAIL"] = "cuMemCreate:20";  // there are 18, unless what is too large is tried
    in_process([] {
        const World world;
        const auto a = world.client();
        ASSERT_TRUE(a->own->back({0, 5 * kMiB}));
        mark(a->own->start(), 5 * kMiB, 1);
        EXPECT_FALSE(a->own->back({5 * kMiB, 20 * kMiB}));
        EXPECT_FALSE(a->own->back({5 * kMiB, 400 * kMiB})) << "which is not even tried";
        EXPECT_EQ(backed(*a), 3 * kPiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 6);
        EXPECT_TRUE(is_marked(a->own->start(), 5 * kMiB, 1));
        EXPECT_TRUE(a->own->back({5 * kMiB, 15 * kMiB}));
        EXPECT_TRUE(is_marked(a->own->start(), 5 * kMiB, 1));
    });
}

// -------------------------------------------------------------------------------------------------------- out of memory

/// All that a client does, with a second try of whatever fails. What it holds must survive that.
void try_everything() {
    const World world;
    int failures = 0;
    const auto twice = [&](const std::function<bool()>& attempt) {
        if (attempt()) return true;
        ++failures;
        return attempt();
    };
    std::unique_ptr<ClientDevice> a = world.client();
    const auto add = [&](std::size_t first, std::uint64_t size) {
        return twice([&] {
            const std::int64_t before = world.used_mib();
            const Result<bool> provided = world.lanes->provide(kLane, bytes_of(size));
            if (!provided) {
                EXPECT_EQ(world.used_mib(), before);
                return false;
            }
            auto pieces = world.lanes->pass_on(kLane, first, world.lanes->pieces_for(bytes_of(size)));
            return pieces.ok() && a->lane->add_memory(first, std::move(pieces).value());
        });
    };
    std::byte* window = a->lane->start();
    ASSERT_TRUE(add(0, 2 * kPiece));
    ASSERT_TRUE(twice([&] {
        const bool ok = a->lane->resize(2 * kPiece);
        EXPECT_EQ(readable(window), ok);
        EXPECT_EQ(readable(window + kPiece), ok);
        return ok;
    }));
    mark(window, 2 * kPiece, 1);

    const Range block{kPiece - kMiB, 2 * kMiB};
    ASSERT_TRUE(twice([&] {
        const bool ok = a->lane->make_private(block);
        EXPECT_EQ(backed(*a), ok ? 2 * kPiece : 0);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 1));
        return ok;
    }));
    EXPECT_EQ(world.used_mib(), kContextMiB + 4 * 2);
    ASSERT_TRUE(add(2, 4 * kPiece));
    ASSERT_TRUE(twice([&] {
        const bool ok = a->lane->resize(4 * kPiece);
        EXPECT_EQ(readable(window + 2 * kPiece), ok);
        EXPECT_EQ(readable(window + 3 * kPiece), ok);
        return ok;
    }));
    mark(window + 2 * kPiece, 2 * kPiece, 7);
    EXPECT_TRUE(is_marked(window, 2 * kPiece, 1));

    ASSERT_TRUE(twice([&] {
        const bool ok = a->own->back({0, 5 * kMiB});
        EXPECT_EQ(backed(*a), 2 * kPiece + (ok ? 3 * kPiece : 0));
        return ok;
    }));
    mark(a->own->start(), 5 * kMiB, 3);

    // Where the lane cannot come back there is memory all the same: other blocks may lie there.
    const bool restored = a->lane->restore(block);
    failures += restored ? 0 : 1;
    EXPECT_EQ(backed(*a), 3 * kPiece + (restored ? 0 : kPiece));
    mark(window, 2 * kPiece, 9);
    EXPECT_TRUE(is_marked(window, 2 * kPiece, 9));
    EXPECT_TRUE(is_marked(window + 2 * kPiece, 2 * kPiece, 7));
    EXPECT_TRUE(is_marked(a->own->start(), 5 * kMiB, 3));
    a->own->discard({0, 40 * kMiB});
    EXPECT_EQ(failures, 1);
    a.reset();
    world.lanes->release(kLane);
    EXPECT_EQ(world.used_mib(), kContextMiB);
}

TEST_F(CudaMemoryTest, AnyCallMayFailAndWhatThereWasIsThere) {
    const struct {
        const char* function;
        int calls;
    } rows[] = {
        {"cuMemCreate", 9},     {"cuMemExportToShareableHandle", 4}, {"cuMemImportFromShareableHandle", 4}, {"cuMemMap", 13},
        {"cuMemSetAccess", 11}, {"cuMemcpyDtoDAsync_v2", 2}};
    for (const auto& row : rows) {
        for (int call = 1; call <= row.calls; ++call) {
            environment["SALUS_STANDIN_FAIL"] = row.function + (":" + std::to_string(call));
            SCOPED_TRACE(environment["SALUS_STANDIN_FAIL"]);
            in_process(try_everything);
        }
    }
}

TEST_F(CudaMemoryTest, TheHelpersThreadNeedsNoContextOfItsOwn) {
    in_process([] {
        const World world;
        const auto a = world.client();
        std::thread([&] {
            world.map_lane(*a, kPiece);
            mark(a->lane->start(), kPiece, 1);
            EXPECT_TRUE(a->lane->make_private({0, kMiB}));
            EXPECT_TRUE(is_marked(a->lane->start(), kPiece, 1));
            a->fences->drain();
        }).join();
    });
}

// Address space is not memory, but there is an end to it, too.
TEST_F(CudaMemoryTest, AClientThatCannotBeMadeKeepsNoAddressSpace) {
    environment["SALUS_STANDIN_FAIL"] = "cuMemAddressReserve:2";
    in_process([] {
        const World world;
        const auto reserved = [] {
            std::uint64_t pages = 0;
            std::ifstream("/proc/self/statm") >> pages;
            return pages * 4096;
        };
        const std::uint64_t before = reserved();
        EXPECT_FALSE(make_cuda_client_device(bytes_of(1024 * kMiB), world.gpu.uuid).ok());
        EXPECT_LT(reserved(), before + 1024 * kMiB);
        EXPECT_GT(world.client()->lane->size(), 1024 * kMiB);  // the next one is
        EXPECT_LT(reserved(), before + 1024 * kMiB);
    });
}

}  // namespace
}  // namespace salus::device
