// Launches on the stand-in: kernels, stream flavours, full queues, device time.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/standin/launches_fixture.h"

namespace salus::test {
namespace {

TEST_F(StandinTest, KernelsRunOnTheirStreamHoweverTheyAreLaunched) {
    in_process([] {
        const Program gpu;
        const auto stream = gpu.stream();
        const auto add = gpu.kernel("add");
        const auto start = gpu.block();
        std::uint64_t address = start, count = 3;
        std::int32_t summand = 5;
        unsigned microseconds = 10;
        void* parameters[] = {&address, &count, &summand, &microseconds};
        const Program::LaunchConfiguration configuration{1, 1, 1, 1, 1, 1, 0, stream, nullptr, 0};
        EXPECT_EQ(gpu.set_bytes(start, 0, Program::kSize), 0);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
        EXPECT_EQ(gpu.launch(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), 0);
        EXPECT_EQ(gpu.launch_configured(&configuration, add, parameters, nullptr), 0);
        EXPECT_EQ(gpu.launch_cooperative(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters), 0);
        EXPECT_EQ(gpu.launch_configured_per_thread(&configuration, add, parameters, nullptr), 0);
        struct {
            std::uint64_t address, count;
            std::int32_t summand;
            unsigned microseconds;
        } packed{start, 2, 100, 0};
        std::size_t size = sizeof packed;
        void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &size, nullptr};
        EXPECT_EQ(gpu.launch(add, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra), 0);
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        std::int32_t found[4] = {};
        EXPECT_EQ(gpu.copy_to_host(found, start, sizeof found), 0);
        EXPECT_EQ((std::vector<std::int32_t>(found, found + 4)), (std::vector<std::int32_t>{120, 120, 20, 0}));
    });
}

TEST_F(StandinTest, RefusesWrongLaunches) {
    in_process([] {
        const Program gpu;
        Program::Module module = nullptr;
        Program::Kernel kernel = nullptr;
        void* none[] = {nullptr};
        EXPECT_EQ(gpu.module_load(&module, "no such kernel"), error::kInvalidImage);
        EXPECT_EQ(gpu.module_load(nullptr, "fill"), error::kInvalidValue);
        EXPECT_EQ(gpu.module_load(&module, "fill"), 0);
        EXPECT_EQ(gpu.module_function(&kernel, module, "add"), error::kNotFound);
        EXPECT_EQ(gpu.module_function(&kernel, nullptr, "fill"), error::kInvalidHandle);
        EXPECT_EQ(gpu.module_function(&kernel, module, "fill"), 0);
        EXPECT_EQ(gpu.launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr), error::kInvalidHandle);
        EXPECT_EQ(gpu.launch(kernel, 0, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr), error::kInvalidValue) << "no grid";
        EXPECT_EQ(gpu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, &kernel, none, nullptr), error::kInvalidHandle)
            << "no such stream";
        EXPECT_EQ(gpu.launch_configured(nullptr, kernel, none, nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.launch_graph(nullptr, nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.module_unload(module), 0);
        EXPECT_EQ(gpu.module_unload(module), error::kInvalidHandle);
        EXPECT_EQ(gpu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr), error::kInvalidHandle) << "unloaded";
    });
}

TEST_F(StandinTest, AKernelOnFreedMemoryIsTheEndOfTheContext) {
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        EXPECT_EQ(gpu.free_memory(start), 0);
        EXPECT_EQ(gpu.fill(start, 1, nullptr), 0) << "the driver does not look";
        EXPECT_EQ(gpu.context_synchronize(), error::kIllegalAddress);
        EXPECT_EQ(gpu.fill(start, 1, nullptr), error::kIllegalAddress);
    });
}

TEST_F(StandinTest, TheNullStreamIsTheThreadsOwnInThePerThreadFlavour) {
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        EXPECT_EQ(gpu.hold(Program::kPerThread, 1), 0);
        EXPECT_EQ(gpu.set_bytes_async_per_thread(start, 7, 1, nullptr), 0);
        EXPECT_EQ(gpu.stream_query_per_thread(nullptr), error::kNotReady);
        EXPECT_EQ(gpu.stream_query(Program::kPerThread), error::kNotReady);
        EXPECT_EQ(gpu.stream_query(nullptr), 0) << "the legacy stream";
        EXPECT_EQ(gpu.stream_query_per_thread(Program::kLegacy), 0);
        std::thread([&] {
            EXPECT_EQ(gpu.make_current(), 0);
            EXPECT_EQ(gpu.stream_query(Program::kPerThread), 0) << "another thread has another";
            EXPECT_EQ(gpu.set_bytes_async(start + 1, 8, 1, Program::kPerThread), 0);
            EXPECT_EQ(gpu.stream_synchronize_per_thread(nullptr), 0);
        }).join();
        EXPECT_EQ(Program::byte_of(start), 0);
        EXPECT_EQ(Program::byte_of(start + 1), 8);
        EXPECT_EQ(gpu.set_bytes_async(start + 2, 9, 1, nullptr), 0);
        EXPECT_EQ(gpu.stream_query(Program::kLegacy), error::kNotReady) << "it waits for the blocking streams";
        EXPECT_EQ(gpu.hold(Program::kPerThread, 0), 0);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
        EXPECT_EQ(Program::byte_of(start), 7);
        EXPECT_EQ(Program::byte_of(start + 2), 9);
    });
}

TEST_F(StandinTest, ALaunchIntoAFullQueueWaitsAndEverybodyElseWithIt) {
    environment["SALUS_STANDIN_QUEUE"] = "4";
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        const auto full = gpu.stream();
        const auto event = gpu.event();
        EXPECT_EQ(gpu.hold(full, 1), 0);
        for (unsigned char i = 1; i <= 4; ++i) EXPECT_EQ(gpu.fill(start, i, full), 0);
        std::atomic<bool> is_launched = false, is_over = false;
        std::atomic<int> calls = 0;
        std::thread other([&] {
            EXPECT_EQ(gpu.make_current(), 0);
            while (!is_over) {
                EXPECT_EQ(gpu.event_query(event), 0);
                ++calls;
            }
        });
        while (calls == 0) std::this_thread::yield();
        std::thread launcher([&] {
            EXPECT_EQ(gpu.make_current(), 0);
            EXPECT_EQ(gpu.fill(start, 5, full), 0);
            is_launched = true;
        });
        EXPECT_TRUE(comes_to_a_stand(calls)) << "the driver's lock is not held";
        EXPECT_FALSE(is_launched);
        EXPECT_EQ(gpu.hold(full, 0), 0) << "the worker goes on all the same";
        launcher.join();
        EXPECT_TRUE(is_launched);
        is_over = true;
        other.join();
        EXPECT_EQ(gpu.stream_synchronize(full), 0);
        EXPECT_EQ(Program::byte_of(start), 5);
    });
}

TEST_F(StandinTest, AQueueHoldsAThousandAndAWaitLetsOthersIn) {
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        const auto full = gpu.stream();
        EXPECT_EQ(gpu.hold(full, 1), 0);
        for (int i = 0; i < 1024; ++i) ASSERT_EQ(gpu.fill(start, 1, full), 0);
        std::atomic<bool> is_done = false;
        std::thread waiter([&] {
            EXPECT_EQ(gpu.make_current(), 0);
            EXPECT_EQ(gpu.stream_synchronize(full), 0);
            is_done = true;
        });
        for (int i = 0; i < 100; ++i) EXPECT_EQ(gpu.stream_query(full), error::kNotReady);
        EXPECT_FALSE(is_done);
        EXPECT_EQ(gpu.hold(full, 0), 0);
        waiter.join();
    });
}

TEST_F(StandinTest, EventsTellDeviceTime) {
    in_process([] {
        const Program gpu;
        const auto begin = gpu.event(), end = gpu.event(), timeless = gpu.event(2);
        const auto stream = gpu.stream();
        const auto start = gpu.block();
        float milliseconds = -1;
        EXPECT_EQ(gpu.event_elapsed(&milliseconds, begin, end), error::kInvalidHandle) << "never recorded";
        EXPECT_EQ(gpu.event_record(begin, stream), 0);
        EXPECT_EQ(gpu.fill(start, 1, stream, 30'000), 0);
        EXPECT_EQ(gpu.event_record(end, stream), 0);
        EXPECT_EQ(gpu.event_record(timeless, stream), 0);
        EXPECT_EQ(gpu.event_elapsed(&milliseconds, begin, end), error::kNotReady);
        EXPECT_EQ(gpu.event_synchronize(end), 0);
        EXPECT_EQ(gpu.event_elapsed(&milliseconds, begin, end), 0);
        EXPECT_GE(milliseconds, 30.0f);
        EXPECT_LT(milliseconds, 3000.0f);
        EXPECT_EQ(gpu.event_elapsed_v2(&milliseconds, end, begin), 0);
        EXPECT_LE(milliseconds, -30.0f);
        EXPECT_EQ(gpu.event_synchronize(timeless), 0);
        EXPECT_EQ(gpu.event_elapsed(&milliseconds, begin, timeless), error::kInvalidHandle);
    });
}

}  // namespace
}  // namespace salus::test
