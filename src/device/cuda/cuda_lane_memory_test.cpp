// The service's side of a GPU.
#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;

TEST_F(CudaMemoryTest, LanesAreMadeOfPieces) {
    in_process([] {
        const World world;
        LaneMemory& lanes = *world.lanes;
        const auto count = [&](std::size_t first, std::size_t end) {
            return lanes.pass_on(kLane, first, end).value().size();
        };
        EXPECT_EQ(lanes.traits().name, "cuda");
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
            EXPECT_EQ(world.used_mib(), kContextMiB + static_cast<std::int64_t>(row.pieces) * 2);
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
        EXPECT_EQ(world.used_mib(), kContextMiB + 4);
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
        EXPECT_EQ(world.used_mib(), kContextMiB + 2) << "others may want the rest";
        EXPECT_EQ(world.lanes->pass_on(kLane, 0, 9).value().size(), 1u);
        EXPECT_TRUE(world.lanes->provide(LaneId{1}, bytes_of(2 * kPiece)).ok());
    });
}

TEST_F(CudaMemoryTest, UsageTellsOthersFromClientsAndLanes) {
    test::Part other(environment, [](const Line& line) {
        const Standin gpu = Standin::start();
        const cuda::AllocationProperties properties;
        cuda::Handle handle = 0;
        EXPECT_EQ(gpu.memory_create(&handle, 40 * kMiB, &properties, 0), kSuccess);
        line.say();
        line.hear();
    });
    other.line().hear();
    test::Part client(environment, [&](const Line& line) {
        const World world;
        const auto memory = world.client();
        EXPECT_TRUE(memory->own->back({0, 2 * kPiece}));
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

}  // namespace
}  // namespace salus::device
