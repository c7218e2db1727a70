// Memory of cuMemAlloc and the like, and contexts, on the stand-in.
#include <cstring>
#include <string>
#include <thread>

#include "device/cuda/nvml.h"
#include "tests/standin/launches_fixture.h"

namespace salus::test {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20, kContextMebibytes = 64;

/// Of the whole device, as its management library has it.
std::int64_t used_mebibytes() {
    auto nvml = device::cuda::Nvml::open("GPU-5a1d5a1d-0000-4000-8000-000000000000");
    EXPECT_TRUE(nvml.ok());
    return nvml.value().used()->count / kMebibyte;
}

TEST_F(StandinTest, BlocksAreChargedAndRefusedAsMemoryIs) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(100 * kMebibyte);
    Part(environment, [](const Line&) {
        const Program gpu;
        Program::Address start = 0, other = 0;
        std::size_t pitch = 0;
        EXPECT_EQ(gpu.allocate(&start, 20 * kMebibyte), 0);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes + 20);
        EXPECT_EQ(gpu.allocate(&other, 17 * kMebibyte), error::kOutOfMemory);
        EXPECT_EQ(gpu.allocate(&other, SIZE_MAX), error::kOutOfMemory);
        EXPECT_EQ(gpu.allocate(&other, 0), error::kInvalidValue);
        EXPECT_EQ(gpu.allocate(nullptr, 64), error::kInvalidValue);
        EXPECT_EQ(gpu.memory_info(&pitch, nullptr), 0);
        EXPECT_EQ(pitch, 16u * kMebibyte);
        EXPECT_EQ(gpu.allocate_pitch(&other, &pitch, 100, 2048, 3), error::kInvalidValue);
        EXPECT_EQ(gpu.allocate_pitch(&other, &pitch, 100, 2048, 4), 0);
        EXPECT_EQ(pitch, 512u);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes + 21);
        EXPECT_EQ(gpu.free_memory(start + 8), error::kInvalidValue);
        EXPECT_EQ(gpu.memory_unmap(start, 20 * kMebibyte), error::kInvalidValue) << "nobody mapped it";
        EXPECT_EQ(gpu.free_memory(start), 0);
        EXPECT_EQ(gpu.free_memory(start), error::kInvalidValue);
        EXPECT_EQ(gpu.free_memory(0), 0);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes + 1);
        EXPECT_EQ(gpu.allocate_managed(&start, kMebibyte, 0), error::kInvalidValue);
        EXPECT_EQ(gpu.allocate_managed(&start, kMebibyte, 1), 0);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes + 2);
    });
    in_process([] {
        Standin::load();
        EXPECT_EQ(used_mebibytes(), 0) << "its process has ended";
    });
}

TEST_F(StandinTest, FreeingWaitsForTheWorkAndFreeingOnAStreamDoesNot) {
    in_process([] {
        const Program gpu;
        const auto stream = gpu.stream();
        auto start = gpu.block(8 * kMebibyte);
        EXPECT_EQ(gpu.fill(start, 1, stream, 20'000), 0);
        EXPECT_EQ(gpu.free_memory(start), 0);
        EXPECT_EQ(gpu.stream_query(stream), 0) << "drained";

        EXPECT_EQ(gpu.allocate_async(&start, 8 * kMebibyte, stream), 0);
        EXPECT_EQ(gpu.hold(stream, 1), 0);
        EXPECT_EQ(gpu.fill(start, 1, stream), 0);
        EXPECT_EQ(gpu.free_async(start, stream), 0);
        EXPECT_EQ(gpu.free_async(start, stream), error::kInvalidValue) << "a second time";
        EXPECT_EQ(gpu.free_memory(start), error::kInvalidValue);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes + 8);
        EXPECT_EQ(gpu.hold(stream, 0), 0);
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes);
        EXPECT_EQ(gpu.free_async(gpu.block(), stream), 0) << "of cuMemAlloc: that is fine";
        EXPECT_EQ(gpu.context_synchronize(), 0);
    });
}

TEST_F(StandinTest, CopiesToAndFromTheHost) {
    in_process([] {
        const Program gpu;
        const auto stream = gpu.stream();
        const auto start = gpu.block();
        char out[8] = "", pinned[8] = "";
        char in[8] = "first";
        EXPECT_EQ(gpu.copy_to_device(start, in, 8), 0);
        EXPECT_EQ(gpu.copy_to_host(out, start, 8), 0);
        EXPECT_STREQ(out, "first");
        EXPECT_EQ(gpu.copy_to_device(start, in, 0), 0);
        EXPECT_EQ(gpu.copy_to_device(start, nullptr, 8), error::kInvalidValue);
        EXPECT_EQ(gpu.copy_to_device(0, in, 8), error::kInvalidValue);
        EXPECT_EQ(gpu.copy_to_host(nullptr, start, 8), error::kInvalidValue);

        EXPECT_EQ(gpu.hold(stream, 1), 0);
        EXPECT_EQ(gpu.copy_to_device_async(start, std::strcpy(in, "second"), 8, stream), 0);
        std::strcpy(in, "third");  // it was copied at the call
        EXPECT_EQ(gpu.host_register(pinned, sizeof pinned, 0), 0);
        EXPECT_EQ(gpu.copy_to_host_async(pinned, start, 8, stream), 0);
        EXPECT_STREQ(pinned, "") << "it is copied later";
        EXPECT_EQ(gpu.hold(stream, 0), 0);
        EXPECT_EQ(gpu.copy_to_host_async(out, start, 8, stream), 0);
        EXPECT_STREQ(out, "second") << "memory that is not registered is waited for";
        EXPECT_STREQ(pinned, "second");
    });
}

TEST_F(StandinTest, AThreadHasAStackOfContexts) {
    in_process([] {
        const Program gpu;
        Program::Context primary = nullptr, second = nullptr, popped = nullptr;
        unsigned flags = 1;
        int active = 0;
        EXPECT_EQ(gpu.get_current(&primary), 0);
        EXPECT_EQ(gpu.context_create(&second, 0, 7), 101) << "no such device";
        EXPECT_EQ(gpu.context_create(&second, 0, 0), 0);
        EXPECT_EQ(used_mebibytes(), 2 * kContextMebibytes);
        EXPECT_EQ(gpu.get_current(&popped), 0);
        EXPECT_EQ(popped, second);
        gpu.block(4 * kMebibyte);
        const auto stream = gpu.stream();
        EXPECT_EQ(gpu.context_pop(nullptr), 0);
        EXPECT_EQ(gpu.context_push(second), 0);
        EXPECT_EQ(gpu.context_pop(&popped), 0);
        EXPECT_EQ(popped, second);
        EXPECT_EQ(gpu.context_pop(&popped), 0);
        EXPECT_EQ(popped, primary);
        EXPECT_EQ(gpu.context_pop(&popped), error::kInvalidContext);
        EXPECT_EQ(gpu.context_push(nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.context_push(second), 0);
        std::thread([&] {
            EXPECT_EQ(gpu.context_destroy(primary), error::kInvalidContext) << "a primary one is released";
            EXPECT_EQ(gpu.context_destroy(second), 0);
            EXPECT_EQ(gpu.context_push(second), error::kInvalidContext);
        }).join();
        EXPECT_EQ(gpu.stream_query(stream), error::kContextIsDestroyed);
        EXPECT_EQ(used_mebibytes(), kContextMebibytes) << "with its memory";

        EXPECT_EQ(gpu.set_current(primary), 0);
        gpu.block(4 * kMebibyte);
        EXPECT_EQ(gpu.primary_context_state(0, &flags, &active), 0);
        EXPECT_EQ(active, 1);
        EXPECT_EQ(gpu.primary_context_release(0), 0);
        EXPECT_EQ(gpu.primary_context_state(0, &flags, &active), 0);
        EXPECT_EQ(active, 0);
        EXPECT_EQ(used_mebibytes(), 0);
        EXPECT_EQ(gpu.primary_context_release(0), error::kInvalidContext);
        EXPECT_EQ(gpu.context_synchronize(), error::kContextIsDestroyed);
        EXPECT_EQ(gpu.make_current(), 0);
        EXPECT_EQ(gpu.set_bytes(gpu.block(), 1, 1), 0) << "it is there again";
        EXPECT_EQ(gpu.context_synchronize(), 0);
    });
}

}  // namespace
}  // namespace salus::test
