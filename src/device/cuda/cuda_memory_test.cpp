// Both sides of a GPU's memory over the stand-in: pieces, evacuation, what happens when memory is short, work in flight.
// Each test runs in a process of its own: the driver that is loaded there stays.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "client/memory.h"
#include "client/memory_fixture.h"
#include "device/cuda/cuda_client_memory.h"
#include "device/cuda/cuda_lane_memory.h"
#include "device/cuda/nvml.h"
#include "os/descriptor.h"
#include "tests/standin/standin_fixture.h"

namespace salus::device {
namespace {

using client::Kind;
using client::Memory;
using client::Needs;
using client::test::fill;
using client::test::holds;
using client::test::readable;
using client::test::ScriptedProvider;
using cuda::kPiece;
using cuda::kPrivatePiece;
using cuda::kSuccess;
using test::Line;
using test::Part;
using test::Standin;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr LaneId kLane{0};
constexpr int kContextMiB = 64;

constexpr Bytes bytes_of(std::uint64_t size) { return {static_cast<std::int64_t>(size)}; }

/// In its process: a service's side, and clients'.
struct World {
    World() {
        const Result<cuda::Gpu> opened = cuda::open_gpu();
        EXPECT_TRUE(opened.ok()) << opened.error();
        gpu = opened.value();
        lanes = make_cuda_lane_memory(gpu);
    }

    std::unique_ptr<ClientMemory> client() const {
        auto made = make_cuda_client_memory(bytes_of(1024 * kMiB), gpu.uuid);
        EXPECT_TRUE(made.ok()) << made.error();
        return std::move(made).value();
    }
    /// The client gets what it lacks of a lane of this size.
    void pass_on(ClientMemory& client, std::uint64_t size, std::size_t first = 0) const {
        ASSERT_TRUE(lanes->provide(kLane, bytes_of(size)).ok());
        auto pieces = lanes->pass_on(kLane, first, lanes->pieces_for(bytes_of(size)));
        ASSERT_TRUE(pieces.ok()) << pieces.error();
        ASSERT_TRUE(client.add_lane_memory(first, std::move(pieces).value()));
    }
    void map_lane(ClientMemory& client, std::uint64_t size) const {
        pass_on(client, size);
        ASSERT_TRUE(client.resize_lane(size));
    }
    std::int64_t used_mib() const {
        return cuda::Nvml::open(gpu.uuid).value().used()->count / static_cast<std::int64_t>(kMiB);
    }

    Standin standin = Standin::start();
    cuda::Gpu gpu;
    std::unique_ptr<LaneMemory> lanes;
};

class CudaMemoryTest : public test::StandinTest {
protected:
    CudaMemoryTest() { environment["SALUS_STANDIN_LATENCY"] = "1000"; }
};

/// One byte of each MiB, which tells pieces apart and costs next to nothing.
void mark(std::byte* start, std::uint64_t size, int value) {
    for (std::uint64_t at = 0; at < size; at += kMiB)
        start[at] = static_cast<std::byte>(value + static_cast<int>(at / kMiB));
}
bool is_marked(const std::byte* start, std::uint64_t size, int value) {
    for (std::uint64_t at = 0; at < size; at += kMiB) {
        if (!readable(start + at) || start[at] != static_cast<std::byte>(value + static_cast<int>(at / kMiB))) return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------------ the service

TEST_F(CudaMemoryTest, LanesAreMadeOfPieces) {
    in_process([] {
        const World world;
        LaneMemory& lanes = *world.lanes;
        const auto count = [&](std::size_t first, std::size_t end) {
            return lanes.pass_on(kLane, first, end).value().size();
        };
        EXPECT_EQ(lanes.name(), "cuda");
        EXPECT_EQ(lanes.identity(), "GPU-5a1d5a1d-0000-4000-8000-000000000000");
        EXPECT_EQ(lanes.capacity(), mebibytes(1024));
        EXPECT_EQ(count(0, 9), 0u) << "a lane that never was";
        const struct {
            std::uint64_t size;
            std::size_t pieces;
        } rows[] = {{0, 0}, {1, 1}, {kPiece, 1}, {kPiece + 1, 2}, {3 * kPiece, 3}, {kPiece, 3}, {0, 3}};
        for (const auto& row : rows) {
            EXPECT_TRUE(lanes.provide(kLane, bytes_of(row.size)).ok());
            EXPECT_EQ(count(0, 9), row.pieces) << row.size;
            EXPECT_EQ(world.used_mib(), kContextMiB + static_cast<std::int64_t>(row.pieces) * 64);
            if (row.size >= kPiece * row.pieces) {
                EXPECT_EQ(lanes.pieces_for(bytes_of(row.size)), row.pieces);
            }
        }
        EXPECT_EQ(count(1, 2), 1u);
        EXPECT_EQ(count(3, 9), 0u);
        EXPECT_EQ(count(7, 9), 0u);
        const std::vector<os::Descriptor> passed = lanes.pass_on(kLane, 2, 3).value();
        lanes.trim(kLane, bytes_of(kPiece + 1));
        EXPECT_EQ(count(0, 9), 2u);
        EXPECT_EQ(world.used_mib(), kContextMiB + 128);
        lanes.trim(LaneId{7}, Bytes{});
        lanes.release(LaneId{7});
        lanes.release(kLane);
        EXPECT_EQ(count(0, 9), 0u);
        EXPECT_EQ(world.used_mib(), kContextMiB);
    });
}

TEST_F(CudaMemoryTest, ALaneThatDoesNotFitTakesNothing) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(kContextMiB * kMiB + 3 * kPiece);
    in_process([] {
        const World world;
        EXPECT_TRUE(world.lanes->provide(kLane, bytes_of(kPiece)).ok());
        const Result<bool> provided = world.lanes->provide(kLane, bytes_of(4 * kPiece));
        EXPECT_FALSE(provided.ok());
        EXPECT_EQ(provided.error(), "no memory for a lane: CUDA_ERROR_OUT_OF_MEMORY");
        EXPECT_EQ(world.used_mib(), kContextMiB + 64) << "others may want the rest";
        EXPECT_EQ(world.lanes->pass_on(kLane, 0, 9).value().size(), 1u);
        EXPECT_TRUE(world.lanes->provide(LaneId{1}, bytes_of(2 * kPiece)).ok());
    });
}

TEST_F(CudaMemoryTest, UsageTellsOthersFromClientsAndLanes) {
    Part other(environment, [](const Line& line) {
        const Standin gpu = Standin::start();
        const cuda::AllocationProperties properties;
        cuda::Handle handle = 0;
        EXPECT_EQ(gpu.memory_create(&handle, 40 * kMiB, &properties, 0), kSuccess);
        line.say();
        line.hear();
    });
    other.line().hear();
    Part client(environment, [&](const Line& line) {
        const World world;
        const auto memory = world.client();
        EXPECT_TRUE(memory->back_private({0, kPrivatePiece}));
        line.say();
        line.hear();
    });
    client.line().hear();
    in_process([&] {  // as a service: without a context
        Standin::load();
        const auto gpu = cuda::open_gpu();
        const auto lanes = make_cuda_lane_memory(gpu.value());
        EXPECT_TRUE(lanes->provide(kLane, bytes_of(2 * kPiece)).ok());
        const auto usage = lanes->usage({client.pid()});
        ASSERT_TRUE(usage.has_value());
        EXPECT_EQ(usage->others, mebibytes(kContextMiB + 40));
        EXPECT_EQ(usage->clients, (std::map<int, Bytes>{{client.pid(), mebibytes(kContextMiB + 4)}}));
        const auto both = lanes->usage({client.pid(), other.pid(), 1});
        EXPECT_EQ(both->others, Bytes{});
        EXPECT_EQ(both->clients.size(), 2u) << "who uses nothing is not there";
        EXPECT_EQ(lanes->usage({})->others, mebibytes(2 * kContextMiB + 44));
        EXPECT_TRUE(lanes->is_mapped_in(client.pid()));
        EXPECT_FALSE(lanes->is_mapped_in(::getpid()));
        EXPECT_FALSE(lanes->is_mapped_in(1));
    });
    client.line().say();
    other.line().say();
}

// ------------------------------------------------------------------------------------------------------------ the lane

TEST_F(CudaMemoryTest, AWindowShowsAsMuchOfTheLaneAsItIsTold) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        EXPECT_EQ(a->lane_unit(), kPiece);
        EXPECT_TRUE(a->asynchronous() && !a->is_host());
        EXPECT_TRUE(a->resize_lane(0));
        EXPECT_FALSE(a->resize_lane(1)) << "no memory ever came";
        EXPECT_FALSE(a->add_lane_memory(1, {})) << "the first ones are missing";
        EXPECT_TRUE(a->add_lane_memory(0, {})) << "a lane of size 0";
        EXPECT_TRUE(a->resize_lane(0));
        EXPECT_FALSE(readable(a->lane_window()));

        world.pass_on(*a, 3 * kPiece);
        world.map_lane(*b, 3 * kPiece);
        const auto shown = [&] {
            std::size_t pieces = 0;
            while (pieces < 5 && readable(a->lane_window() + pieces * kPiece) &&
                   readable(a->lane_window() + (pieces + 1) * kPiece - 1)) {
                ++pieces;
            }
            return pieces;
        };
        EXPECT_EQ(shown(), 0u);
        EXPECT_TRUE(a->resize_lane(1));
        EXPECT_EQ(shown(), 1u);
        EXPECT_FALSE(a->resize_lane(kPiece + 1)) << "pieces that are not shown are given up";
        world.pass_on(*a, 3 * kPiece, 1);
        EXPECT_TRUE(a->resize_lane(kPiece + 1));
        EXPECT_EQ(shown(), 2u);
        mark(b->lane_window(), 2 * kPiece, 1);
        EXPECT_TRUE(is_marked(a->lane_window(), 2 * kPiece, 1)) << "one memory";
        EXPECT_FALSE(a->resize_lane(4 * kPiece));
        EXPECT_EQ(shown(), 2u);

        // What one gives up is there as long as another shows it.
        world.lanes->trim(kLane, bytes_of(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 192);
        EXPECT_TRUE(b->resize_lane(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 128);
        EXPECT_TRUE(a->resize_lane(kPiece));
        EXPECT_EQ(world.used_mib(), kContextMiB + 64);
        EXPECT_EQ(shown(), 1u);
        EXPECT_TRUE(is_marked(a->lane_window(), kPiece, 1));
        a->drop_lane();
        EXPECT_EQ(shown(), 0u);
        EXPECT_FALSE(a->resize_lane(kPiece));
        EXPECT_FALSE(a->resize_lane(~std::uint64_t{0} / 2));
    });
}

TEST_F(CudaMemoryTest, WhatIsEvacuatedKeepsContentAndAddress) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        world.map_lane(*a, 3 * kPiece);
        world.map_lane(*b, 3 * kPiece);
        std::byte* window = a->lane_window();
        mark(window, 3 * kPiece, 1);
        const Range range{kPiece - 2 * kMiB, 4 * kMiB};  // in two pieces
        ASSERT_TRUE(a->make_private(range));
        EXPECT_EQ(a->backed(), 2 * kPiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 5 * 64);
        EXPECT_TRUE(is_marked(window, 3 * kPiece, 1));
        mark(b->lane_window(), 3 * kPiece, 100);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 1)) << "all of the pieces is private";
        EXPECT_FALSE(is_marked(window + 2 * kPiece, kPiece, 1 + 128));
        mark(window, 2 * kPiece, 50);
        EXPECT_TRUE(is_marked(b->lane_window(), 2 * kPiece, 100)) << "nor does another see it";

        // A second block in the first piece: it is private until both are gone.
        ASSERT_TRUE(a->make_private({0, kMiB}));
        EXPECT_EQ(a->backed(), 2 * kPiece);
        EXPECT_TRUE(a->restore_lane(range));
        EXPECT_EQ(a->backed(), kPiece);
        EXPECT_TRUE(is_marked(window, kPiece, 50));
        EXPECT_TRUE(is_marked(window + kPiece, kPiece, 100 + 64));
        EXPECT_TRUE(a->restore_lane({0, kMiB}));
        EXPECT_EQ(a->backed(), 0u);
        EXPECT_TRUE(is_marked(window, 3 * kPiece, 100));
        EXPECT_EQ(world.used_mib(), kContextMiB + 3 * 64);
    });
}

TEST_F(CudaMemoryTest, LanesShrinkGrowAndGoAroundAnEvacuatedPiece) {
    in_process([] {
        const World world;
        const auto a = world.client();
        const auto b = world.client();
        world.map_lane(*a, 3 * kPiece);
        world.map_lane(*b, 4 * kPiece);
        std::byte* window = a->lane_window();
        mark(window + kPiece, kPiece, 1);
        ASSERT_TRUE(a->make_private({kPiece, kMiB}));
        mark(b->lane_window(), 4 * kPiece, 100);
        const auto look = [&](bool first, bool third, bool fourth) {
            EXPECT_EQ(readable(window), first);
            EXPECT_TRUE(!first || is_marked(window, kPiece, 100));
            EXPECT_TRUE(is_marked(window + kPiece, kPiece, 1));
            EXPECT_EQ(readable(window + 2 * kPiece), third);
            EXPECT_TRUE(!third || is_marked(window + 2 * kPiece, kPiece, 100 + 128));
            EXPECT_EQ(readable(window + 3 * kPiece), fourth);
            EXPECT_TRUE(!fourth || is_marked(window + 3 * kPiece, kPiece, 100 + 192));
        };
        look(true, true, false);
        ASSERT_TRUE(a->resize_lane(kPiece + kMiB));  // ends within it
        look(true, false, false);
        ASSERT_TRUE(a->resize_lane(kMiB));  // before it
        look(true, false, false);
        world.pass_on(*a, 4 * kPiece, 1);
        ASSERT_TRUE(a->resize_lane(4 * kPiece));
        look(true, true, true);
        a->drop_lane();
        look(false, false, false);

        // Another lane shows there once it is dead, as far as it reaches.
        ASSERT_TRUE(world.lanes->provide(LaneId{1}, bytes_of(kPiece)).ok());
        ASSERT_TRUE(a->add_lane_memory(0, world.lanes->pass_on(LaneId{1}, 0, 1).value()));
        ASSERT_TRUE(a->resize_lane(kPiece));
        EXPECT_TRUE(readable(window));
        EXPECT_TRUE(is_marked(window + kPiece, kPiece, 1));
        ASSERT_TRUE(a->restore_lane({kPiece, kMiB}));
        EXPECT_FALSE(readable(window + kPiece));
        EXPECT_EQ(a->backed(), 0u);
        a->drop_lane();
        world.map_lane(*a, 2 * kPiece);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 100));
    });
}

// -------------------------------------------------------------------------------------------------------- private memory

TEST_F(CudaMemoryTest, PrivatePiecesStayWhileAnyOfThemIsWanted) {
    in_process([] {
        const World world;
        const auto a = world.client();
        std::byte* window = a->private_window();
        ASSERT_TRUE(a->back_private({0, kMiB}));
        ASSERT_TRUE(a->back_private({kMiB, 5 * kMiB}));  // the rest of the first, and of the second a half
        EXPECT_EQ(a->backed(), 2 * kPrivatePiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 8);
        mark(window, 6 * kMiB, 1);
        a->discard_private({0, kMiB});
        EXPECT_EQ(a->backed(), 2 * kPrivatePiece);
        a->discard_private({kMiB, 4 * kMiB});
        EXPECT_EQ(a->backed(), kPrivatePiece);
        EXPECT_FALSE(readable(window));
        EXPECT_TRUE(is_marked(window + 5 * kMiB, kMiB, 6));
        a->discard_private({5 * kMiB, kMiB});
        EXPECT_EQ(a->backed(), 0u);
        EXPECT_EQ(world.used_mib(), kContextMiB);
    });
}

TEST_F(CudaMemoryTest, WhatDoesNotFitIsNotTakenInPart) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(kContextMiB * kMiB + 5 * kPrivatePiece);
    environment["SALUS_STANDIN_FAIL"] = "cuMemCreate:11";  // there are nine, unless what is too large is tried
    in_process([] {
        const World world;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, 5 * kMiB}));
        mark(a->private_window(), 5 * kMiB, 1);
        EXPECT_FALSE(a->back_private({5 * kMiB, 20 * kMiB}));
        EXPECT_FALSE(a->back_private({5 * kMiB, 400 * kMiB})) << "which is not even tried";
        EXPECT_EQ(a->backed(), 2 * kPrivatePiece);
        EXPECT_EQ(world.used_mib(), kContextMiB + 8);
        EXPECT_TRUE(is_marked(a->private_window(), 5 * kMiB, 1));
        EXPECT_TRUE(a->back_private({5 * kMiB, 15 * kMiB}));
        EXPECT_TRUE(is_marked(a->private_window(), 5 * kMiB, 1));
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
    std::unique_ptr<ClientMemory> a = world.client();
    const auto add = [&](std::size_t first, std::uint64_t size) {
        return twice([&] {
            const std::int64_t before = world.used_mib();
            const Result<bool> provided = world.lanes->provide(kLane, bytes_of(size));
            if (!provided) {
                EXPECT_EQ(world.used_mib(), before);
                return false;
            }
            auto pieces = world.lanes->pass_on(kLane, first, world.lanes->pieces_for(bytes_of(size)));
            return pieces.ok() && a->add_lane_memory(first, std::move(pieces).value());
        });
    };
    std::byte* window = a->lane_window();
    ASSERT_TRUE(add(0, 2 * kPiece));
    ASSERT_TRUE(twice([&] {
        const bool ok = a->resize_lane(2 * kPiece);
        EXPECT_EQ(readable(window), ok);
        EXPECT_EQ(readable(window + kPiece), ok);
        return ok;
    }));
    mark(window, 2 * kPiece, 1);

    const Range block{kPiece - kMiB, 2 * kMiB};
    ASSERT_TRUE(twice([&] {
        const bool ok = a->make_private(block);
        EXPECT_EQ(a->backed(), ok ? 2 * kPiece : 0);
        EXPECT_TRUE(is_marked(window, 2 * kPiece, 1));
        return ok;
    }));
    EXPECT_EQ(world.used_mib(), kContextMiB + 4 * 64);
    ASSERT_TRUE(add(2, 4 * kPiece));
    ASSERT_TRUE(twice([&] {
        const bool ok = a->resize_lane(4 * kPiece);
        EXPECT_EQ(readable(window + 2 * kPiece), ok);
        EXPECT_EQ(readable(window + 3 * kPiece), ok);
        return ok;
    }));
    mark(window + 2 * kPiece, 2 * kPiece, 7);
    EXPECT_TRUE(is_marked(window, 2 * kPiece, 1));

    ASSERT_TRUE(twice([&] {
        const bool ok = a->back_private({0, 10 * kMiB});
        EXPECT_EQ(a->backed(), 2 * kPiece + (ok ? 3 * kPrivatePiece : 0));
        return ok;
    }));
    mark(a->private_window(), 10 * kMiB, 3);

    // Where the lane cannot come back there is memory all the same: other blocks may lie there.
    const bool restored = a->restore_lane(block);
    failures += restored ? 0 : 1;
    EXPECT_EQ(a->backed(), 3 * kPrivatePiece + (restored ? 0 : kPiece));
    mark(window, 2 * kPiece, 9);
    EXPECT_TRUE(is_marked(window, 2 * kPiece, 9));
    EXPECT_TRUE(is_marked(window + 2 * kPiece, 2 * kPiece, 7));
    EXPECT_TRUE(is_marked(a->private_window(), 10 * kMiB, 3));
    a->discard_private({0, 40 * kMiB});
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

// -------------------------------------------------------------------------------------------------------- work in flight

TEST_F(CudaMemoryTest, DrainWaitsForWhatTheFenceMarked) {
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, kPrivatePiece}));
        const auto at = reinterpret_cast<cuda::Address>(a->private_window());
        cuda::Stream side = nullptr;
        ASSERT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        const auto stream = reinterpret_cast<Stream>(side);
        EXPECT_TRUE(a->passed()) << "nothing was marked";
        a->drain();

        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 0), kSuccess);
        a->fence();
        EXPECT_TRUE(a->passed()) << "that it is used was not said";
        a->uses(stream);
        a->fence();
        EXPECT_FALSE(a->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->drain();
        EXPECT_TRUE(a->passed());
        EXPECT_EQ(a->private_window()[kMiB - 1], std::byte{5});

        // The default stream, too, and what comes after another.
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 6, 20'000), kSuccess);
        a->order(0, stream);
        ASSERT_EQ(gpu.work(side, at, kMiB, 7, 0), kSuccess);
        a->uses(0);
        a->uses(stream);
        a->fence();
        EXPECT_EQ(a->private_window()[0], std::byte{5});
        a->drain();
        EXPECT_EQ(a->private_window()[0], std::byte{7});

        // Of a graph that is being captured nothing runs; of what came before nobody can tell.
        EXPECT_FALSE(a->captures());
        ASSERT_EQ(gpu.set_capturing(side, 1), kSuccess);
        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 8, 0), kSuccess);
        a->uses(stream);
        a->fence();
        EXPECT_TRUE(a->captures());
        EXPECT_FALSE(a->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->drain();
    });
}

TEST_F(CudaMemoryTest, WhatRanBeforeACaptureIsStillWaitedFor) {
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, kPrivatePiece}));
        const auto at = reinterpret_cast<cuda::Address>(a->private_window());
        cuda::Stream side = nullptr;
        ASSERT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        const auto stream = reinterpret_cast<Stream>(side);
        a->turn_begins(stream);
        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 0), kSuccess);
        a->uses(stream);
        a->fence();
        ASSERT_EQ(gpu.set_capturing(side, 1), kSuccess);
        for (int boundary = 0; boundary < 2; ++boundary) {
            a->uses(stream);
            a->fence();
            EXPECT_FALSE(a->order(stream, 0));
        }
        EXPECT_FALSE(a->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->drain();
        EXPECT_EQ(a->private_window()[0], std::byte{5});
        EXPECT_FALSE(a->passed());
        ASSERT_EQ(gpu.set_capturing(side, 0), kSuccess);
        a->fence();
        a->drain();
        EXPECT_TRUE(a->passed());
        EXPECT_FALSE(a->captures());
    });
}

TEST_F(CudaMemoryTest, WhatAnotherGpusContextIsCurrentForIsDoneInOurs) {
    environment["SALUS_STANDIN_DEVICES"] = "2";
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, kPrivatePiece}));
        const auto at = reinterpret_cast<cuda::Address>(a->private_window());
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 5, 50'000), kSuccess);
        cuda::Context others = nullptr;
        ASSERT_EQ(gpu.retain_primary_context(&others, 1), kSuccess);
        ASSERT_EQ(gpu.set_current(others), kSuccess);
        a->uses(0);
        a->fence();
        EXPECT_FALSE(a->passed());
        a->drain();
        EXPECT_EQ(a->private_window()[0], std::byte{5});
        cuda::Context current = nullptr;
        ASSERT_EQ(gpu.get_current(&current), kSuccess);
        EXPECT_EQ(current, others) << "the script's own choice stands";
    });
}

TEST_F(CudaMemoryTest, AStreamThatWasDestroyedIsWaitedForOnceAndForgotten) {
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, kPrivatePiece}));
        const auto at = reinterpret_cast<cuda::Address>(a->private_window());
        cuda::Stream side = nullptr;
        ASSERT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        const auto stream = reinterpret_cast<Stream>(side);
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 50'000), kSuccess);
        a->uses(stream);
        ASSERT_EQ(gpu.stream_destroy(side), kSuccess);
        a->fence();
        a->fence();  // it stays in doubt until somebody has waited
        EXPECT_FALSE(a->passed());
        a->drain();
        EXPECT_EQ(a->private_window()[0], std::byte{5});
        a->fence();
        EXPECT_TRUE(a->passed());
        EXPECT_TRUE(a->order(stream, 0)) << "or the home could never leave it";
    });
}

TEST_F(CudaMemoryTest, WhatCannotBeMarkedIsWaitedForAllTheSame) {
    environment["SALUS_STANDIN_FAIL"] = "cuEventCreate:1";
    in_process([] {
        const World world;
        const Standin& gpu = world.standin;
        const auto a = world.client();
        ASSERT_TRUE(a->back_private({0, kPrivatePiece}));
        const auto at = reinterpret_cast<cuda::Address>(a->private_window());
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 5, 100'000), kSuccess);
        a->uses(0);
        a->fence();
        EXPECT_FALSE(a->passed());
        a->drain();
        EXPECT_EQ(a->private_window()[0], std::byte{5});
        a->fence();
        a->drain();
        EXPECT_TRUE(a->passed()) << "the next fence has marked it";
    });
}

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

TEST_F(CudaMemoryTest, TheHelpersThreadNeedsNoContextOfItsOwn) {
    in_process([] {
        const World world;
        const auto a = world.client();
        std::thread([&] {
            world.map_lane(*a, kPiece);
            mark(a->lane_window(), kPiece, 1);
            EXPECT_TRUE(a->make_private({0, kMiB}));
            EXPECT_TRUE(is_marked(a->lane_window(), kPiece, 1));
            a->drain();
        }).join();
    });
}

/// A client as the library has it, except that there is no service: whatever it asks for, the lane grows by.
class Tenant {
public:
    explicit Tenant(const World& world) : world_(world), device_(world.client()), memory_(page_, *device_, provider_) {
        memory_.set_alone(false);
        memory_.set_room(std::uint64_t{1} << 40);
        provider_.answer = [this](Needs all) {
            if (all.ephemeral > memory_.mapped()) grow(all.ephemeral);
            memory_.set_room(std::max(all.persistent, memory_.private_bytes()));
            return true;
        };
    }

    Memory& memory() { return memory_; }
    ClientMemory& device() { return *device_; }
    ControlPage& page() { return page_; }

    void join(std::uint64_t size) {
        ASSERT_TRUE(world_.lanes->provide(kLane, bytes_of(size)).ok());
        pieces_ = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.add_lane_memory(0, world_.lanes->pass_on(kLane, 0, pieces_).value()));
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void grow(std::uint64_t size) {
        ASSERT_TRUE(world_.lanes->provide(kLane, bytes_of(size)).ok());
        const std::size_t pieces = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.add_lane_memory(pieces_, world_.lanes->pass_on(kLane, pieces_, pieces).value()));
        pieces_ = pieces;
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void shrink(std::uint64_t size) {
        pieces_ = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void begin(std::uint64_t persistent, std::uint64_t ephemeral) {
        page_.persistent = persistent;
        page_.ephemeral = ephemeral;
        memory_.turn_begins();
    }

private:
    const World& world_;
    ControlPage page_;
    ScriptedProvider provider_;
    std::unique_ptr<ClientMemory> device_;
    Memory memory_;
    std::size_t pieces_ = 0;
};

cuda::Address address_of(void* block) { return reinterpret_cast<cuda::Address>(block); }

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
            EXPECT_EQ(tenant.device().backed(), 0u);

            // In the lane, which shrinks, is evacuated, and goes.
            tenant.join(3 * kPiece);
            tenant.begin(0, 3 * kPiece);
            block = memory.allocate(3 * kPiece, Kind::kEphemeral, true);
            work(block, 3 * kPiece, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            tenant.shrink(kPiece);
            ASSERT_TRUE(is_alive());
            EXPECT_TRUE(memory.boundary());  // what another stream used is free
            tenant.begin(0, kPiece);
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
            tenant.begin(0, kPiece);
            block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
            ASSERT_TRUE(memory.in_lane(block));
            work(block, 2 * kMiB, aside);
            memory.free(block);
            EXPECT_TRUE(memory.boundary());
            memory.unmap_lane();
            ASSERT_TRUE(is_alive());
        }
        EXPECT_EQ(tenant.device().backed(), 0u);
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
        tenant.join(kPiece);
        tenant.begin(0, kPiece);
        void* block = memory.allocate(2 * kMiB, Kind::kEphemeral, true);
        ASSERT_TRUE(memory.in_lane(block));
        ASSERT_EQ(gpu.work(side, address_of(block), 2 * kMiB, 7, 20'000), kSuccess);
        EXPECT_TRUE(memory.boundary());
        EXPECT_FALSE(memory.in_lane(block));
        ASSERT_EQ(gpu.stream_synchronize(side), kSuccess);
        EXPECT_EQ(static_cast<std::byte*>(block)[2 * kMiB - 1], std::byte{7});

        memory.free(block);
        EXPECT_TRUE(memory.boundary());
        tenant.begin(0, kPiece);
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
        void* first = a.memory().allocate(2 * kMiB, Kind::kEphemeral, true);
        fill(first, 2 * kMiB, 1);
        EXPECT_TRUE(a.memory().boundary());
        fill(b.device().lane_window(), 8 * kMiB, 99);
        a.begin(0, kPiece);
        void* second = a.memory().allocate(2 * kMiB, Kind::kEphemeral, true);
        ASSERT_TRUE(a.memory().in_lane(second));
        fill(second, 2 * kMiB, 2);
        EXPECT_TRUE(holds(first, 2 * kMiB, 1));
        a.memory().free(first);
        EXPECT_TRUE(a.memory().boundary());
        EXPECT_FALSE(a.memory().in_lane(second));
        fill(b.device().lane_window(), 8 * kMiB, 98);
        EXPECT_TRUE(holds(second, 2 * kMiB, 2));
        EXPECT_EQ(a.device().backed(), kPiece);
        a.memory().free(second);
        EXPECT_TRUE(a.memory().boundary());
        EXPECT_EQ(a.device().backed(), 0u);
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
        tenant_.begin(512 * kMiB, std::min<std::uint64_t>(lane, kPiece + random_.below(2) * kPiece));
        for (int i = 0; i < 12; ++i) {
            if (blocks_.size() < 10 && random_.chance(0.6)) allocate(/*inside=*/true);
            else if (!blocks_.empty()) release(random_.below(blocks_.size()));
        }
        // Few are kept: every one costs a copy of a piece.
        while (blocks_.size() > 3 || (!blocks_.empty() && random_.chance(0.6))) release(random_.below(blocks_.size()));
        ASSERT_TRUE(tenant_.memory().boundary());
        tenant_.device().drain();
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
            tenant_.device().drain();
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
                all[i]->tenant().join(kPiece);
            }
            std::uint64_t evacuations = 0;
            for (int turn = 0; turn < 40 && !::testing::Test::HasFailure(); ++turn) {
                Restless& one = *all[random.below(all.size())];
                one.turn(one.tenant().memory().mapped());
                for (const auto& client : all) client->verify();
                const std::uint64_t change = random.below(6);
                if (change == 0) {  // all are told, then the memory goes
                    for (const auto& client : all) client->tenant().shrink(kPiece);
                    world.lanes->trim(kLane, bytes_of(kPiece));
                } else if (change == 1) {
                    one.tenant().memory().unmap_lane();
                    one.verify();
                    one.tenant().join((1 + random.below(3)) * kPiece);
                }
                for (const auto& client : all) client->verify();
            }
            for (const auto& client : all) {
                evacuations += client->tenant().page().evacuations;
                client->end();
                EXPECT_EQ(client->tenant().memory().private_bytes(), 0u);
                EXPECT_EQ(client->tenant().device().backed(), 0u);
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
