// Gates on the stand-in: streams that wait for a word of the host's memory, and what waits behind them.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/standin/launches_fixture.h"

namespace salus::test {
namespace {

using namespace std::chrono_literals;
using device::cuda::kHostRegisterDeviceMap, device::cuda::kWaitAnd, device::cuda::kWaitEqual,
    device::cuda::kWaitGreaterOrEqual;
constexpr unsigned kWaitNor = 3, kWaitFlush = 1u << 30;
using Word = std::atomic<std::uint32_t>;

/// A page that another process may have as well.
Word* shared_page() {
    const int file = ::memfd_create("gates", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file, Program::kSize), 0);
    void* const page = ::mmap(nullptr, Program::kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(page, MAP_FAILED);
    ::close(file);
    return static_cast<Word*>(page);
}

/// A program with a page of words that are registered.
struct GatedProgram : Program {
    explicit GatedProgram(Word* page = shared_page()) : words(page) {
        EXPECT_EQ(host_register(words, kSize, kHostRegisterDeviceMap), 0);
        EXPECT_EQ(host_get_device_pointer(&gate, words, 0), 0);
    }

    Word* words;  ///< the first is the gate
    Address gate = 0;

    Status pass_gate(Stream stream) const { return stream_wait_value(stream, gate, 1, kWaitAnd); }
    void open() const { words[0] = 1; }
};

TEST_F(StandinTest, AStreamWaitsForAWordOfTheHost) {
    in_process([] {
        const Program gpu;
        const auto stream = gpu.stream();
        const auto start = gpu.block();
        Word words[2] = {};
        std::uint64_t gate = 0;
        EXPECT_EQ(gpu.host_get_device_pointer(&gate, words, 0), error::kInvalidValue) << "not registered";
        EXPECT_EQ(gpu.host_register(words, sizeof words, kHostRegisterDeviceMap), 0);
        EXPECT_EQ(gpu.host_register(words + 1, 4, 0), error::kAlreadyRegistered);
        EXPECT_EQ(gpu.host_get_device_pointer(&gate, words, 0), 0);
        EXPECT_EQ(gate, reinterpret_cast<std::uint64_t>(words));
        EXPECT_EQ(gpu.stream_wait_value(stream, gate, 1, 0), 0);
        EXPECT_EQ(gpu.fill(start, 1, stream), 0);
        EXPECT_EQ(gpu.stream_write_value(stream, gate + 4, 77, 0), 0);
        EXPECT_EQ(gpu.stream_query(stream), error::kNotReady);
        EXPECT_EQ(words[1], 0u);
        words[0] = 1;  // to open it is one store
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        EXPECT_EQ(words[1], 77u);
        EXPECT_EQ(Program::byte_of(start), 1);
        EXPECT_EQ(gpu.host_unregister(words), 0);
        EXPECT_EQ(gpu.host_unregister(words), error::kNotRegistered);
    });
}

TEST_F(StandinTest, AStreamWaitsForWhatItsFlagsSay) {
    in_process([] {
        const GatedProgram gpu;
        const auto stream = gpu.stream();
        const struct {
            unsigned flags;
            std::uint32_t value, closed, open;
        } rows[] = {
            {kWaitGreaterOrEqual, 5, 4, 5},
            {kWaitGreaterOrEqual, 5, 4, 6},
            {kWaitGreaterOrEqual, 0, 0xffffffff, 0x7fffffff},  // it is a difference that is compared
            {kWaitGreaterOrEqual, 0xffffffff, 0xfffffffe, 3},
            {kWaitEqual, 5, 6, 5},
            {kWaitEqual | kWaitFlush, 5, 4, 5},
            {kWaitAnd, 1, 2, 3},
            {kWaitAnd | kWaitFlush, 6, 1, 4},
            {kWaitNor, 1, 0xfffffffe, 0xfffffffc},
        };
        for (const auto& row : rows) {
            gpu.words[0] = row.closed;
            EXPECT_EQ(gpu.stream_wait_value(stream, gpu.gate, row.value, row.flags), 0);
            std::this_thread::sleep_for(2ms);
            EXPECT_EQ(gpu.stream_query(stream), error::kNotReady) << row.flags << ", " << row.value << ", " << row.closed;
            gpu.words[0] = row.open;
            EXPECT_EQ(gpu.stream_synchronize(stream), 0);
            EXPECT_EQ(gpu.stream_wait_value(stream, gpu.gate, row.value, row.flags), 0);
            EXPECT_EQ(gpu.stream_synchronize(stream), 0) << "it is open already";
        }
    });
}

TEST_F(StandinTest, RefusesWrongWords) {
    in_process([] {
        const GatedProgram gpu;
        const auto stream = gpu.stream();
        const auto block = gpu.block();
        const auto outside = gpu.gate + Program::kSize;
        Word unregistered = 1;
        for (const auto wrong : {gpu.gate + 2, outside, outside - 2, reinterpret_cast<std::uint64_t>(&unregistered)}) {
            EXPECT_EQ(gpu.stream_wait_value(stream, wrong, 1, kWaitAnd), error::kInvalidValue);
            EXPECT_EQ(gpu.stream_write_value(stream, wrong, 1, 0), error::kInvalidValue);
        }
        EXPECT_EQ(gpu.stream_wait_value(stream, gpu.gate, 1, 4), error::kInvalidValue) << "no such flag";
        EXPECT_EQ(gpu.stream_write_value(stream, gpu.gate, 1, 2), error::kInvalidValue) << "no such flag";
        EXPECT_EQ(gpu.stream_wait_value(&unregistered, gpu.gate, 1, 0), error::kInvalidHandle) << "no such stream";
        EXPECT_EQ(gpu.stream_wait_value_v1(stream, gpu.gate, 1, 0), error::kNotSupported);
        EXPECT_EQ(gpu.stream_write_value_v1_per_thread(stream, gpu.gate, 1, 0), error::kNotSupported);
        EXPECT_EQ(gpu.stream_write_value(stream, block, 3, 1), 0) << "a word of the device's";
        EXPECT_EQ(gpu.stream_wait_value(stream, block, 3, kWaitEqual), 0);
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        int has_nor = 0, has_v1 = 1;
        EXPECT_EQ(gpu.device_attribute(&has_nor, 123, 0), 0);
        EXPECT_EQ(gpu.device_attribute(&has_v1, 92, 0), 0);
        EXPECT_EQ(has_nor, 1);
        EXPECT_EQ(has_v1, 0);
    });
}

TEST_F(StandinTest, AnotherProcessOpensAGate) {
    Word* const words = shared_page();
    const Part part(environment, [&](const Line& line) {
        const GatedProgram gpu(words);
        EXPECT_EQ(gpu.pass_gate(nullptr), 0);
        EXPECT_EQ(gpu.stream_write_value(nullptr, gpu.gate + 4, 7, 0), 0);
        line.say();
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
        line.hear();
    });
    part.line().hear();
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(words[1], 0u);
    words[0] = 1;
    for (int i = 0; i < 10'000 && words[1] != 7; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(words[1], 7u);
    part.line().say();
}

TEST_F(StandinTest, AFullQueueBehindAGateStopsEveryCall) {
    environment["SALUS_STANDIN_QUEUE"] = "4";
    in_process([] {
        const GatedProgram gpu;
        const auto start = gpu.block();
        const auto gated = gpu.stream();
        const auto event = gpu.event();
        EXPECT_EQ(gpu.pass_gate(gated), 0);
        for (unsigned char i = 1; i <= 3; ++i) EXPECT_EQ(gpu.fill(start, i, gated), 0);
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
            EXPECT_EQ(gpu.fill(start, 4, gated), 0);
            is_launched = true;
        });
        EXPECT_TRUE(comes_to_a_stand(calls)) << "the driver's lock is not held";
        EXPECT_FALSE(is_launched);
        EXPECT_EQ(Program::byte_of(start), 0);
        gpu.open();
        launcher.join();
        is_over = true;
        other.join();
        EXPECT_EQ(gpu.stream_synchronize(gated), 0);
        EXPECT_EQ(Program::byte_of(start), 4);
    });
}

TEST_F(StandinTest, WhatDrainsWaitsForAGate) {
    in_process([] {
        const GatedProgram gpu;
        const auto start = gpu.block(), unrelated = gpu.block();
        const auto gated = gpu.stream(), other = gpu.stream();
        char out = 0;
        EXPECT_EQ(gpu.pass_gate(gated), 0);
        EXPECT_EQ(gpu.fill(start, 9, gated), 0);
        const std::function<int()> drains[] = {
            [&] { return gpu.stream_synchronize(gated); },
            [&] { return gpu.context_synchronize(); },
            [&] { return gpu.free_memory(unrelated); },
            [&] { return gpu.copy_to_host_async(&out, start, 1, gated); },
        };
        std::atomic<int> done = 0;
        std::vector<std::thread> threads;
        for (const auto& drain : drains) {
            threads.emplace_back([&] {
                EXPECT_EQ(gpu.make_current(), 0);
                EXPECT_EQ(drain(), 0);
                ++done;
            });
        }
        std::this_thread::sleep_for(50ms);
        EXPECT_EQ(done, 0);
        EXPECT_EQ(gpu.stream_write_value(other, gpu.gate + 4, 7, 0), 0);
        EXPECT_EQ(gpu.stream_synchronize(other), 0) << "other streams go on";
        gpu.open();
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(out, 9);
    });
}

TEST_F(StandinTest, AGraphHasAGateToo) {
    in_process([] {
        const GatedProgram gpu;
        const auto stream = gpu.stream();
        Program::Graph graph = nullptr;
        Program::RunnableGraph runnable = nullptr;
        EXPECT_EQ(gpu.capture_begin(stream, device::cuda::kCaptureModeRelaxed), 0);
        EXPECT_EQ(gpu.pass_gate(stream), 0);
        EXPECT_EQ(gpu.stream_write_value(stream, gpu.gate + 4, 7, 0), 0);
        EXPECT_EQ(gpu.capture_end(stream, &graph), 0);
        EXPECT_EQ(gpu.graph_instantiate(&runnable, graph, 0), 0);
        EXPECT_EQ(gpu.launch_graph(runnable, stream), 0);
        std::this_thread::sleep_for(5ms);
        EXPECT_EQ(gpu.words[1], 0u);
        gpu.open();
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        EXPECT_EQ(gpu.words[1], 7u);
    });
}

TEST_F(StandinTest, AForkedChildHasNoGate) {
    in_process([&] {
        const GatedProgram gpu;
        EXPECT_EQ(gpu.pass_gate(nullptr), 0);
        {
            const Part child(environment, [&](const Line&) {
                EXPECT_EQ(gpu.pass_gate(nullptr), error::kNotInitialised);
                EXPECT_EQ(gpu.host_unregister(gpu.words), error::kNotInitialised);
            });
        }
        EXPECT_EQ(gpu.stream_query(nullptr), error::kNotReady);
        gpu.open();
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
    });
}

TEST_F(StandinTest, ToTakeAWordAwayThatAStreamWaitsForIsTheEndOfTheContext) {
    in_process([] {
        const GatedProgram gpu;
        EXPECT_EQ(gpu.pass_gate(nullptr), 0);
        EXPECT_EQ(gpu.host_unregister(gpu.words), 0);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), error::kIllegalAddress);
    });
    in_process([] {
        const GatedProgram gpu;
        gpu.open();
        EXPECT_EQ(gpu.pass_gate(nullptr), 0);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
        EXPECT_EQ(gpu.host_unregister(gpu.words), 0) << "nobody waits any more";
        EXPECT_EQ(gpu.pass_gate(nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.context_synchronize(), 0);
    });
}

TEST_F(StandinTest, RegisteredMemoryIsThereAndGoesWithItsContext) {
    in_process([] {
        Word* const words = shared_page();
        const GatedProgram gpu(words);
        void* const gone = shared_page();
        ::munmap(gone, Program::kSize);
        EXPECT_EQ(gpu.host_register(gone, Program::kSize, 0), error::kInvalidValue) << "there is no memory";
        EXPECT_EQ(gpu.host_register(words, 4, 16), error::kInvalidValue) << "no such flag";
        EXPECT_EQ(gpu.primary_context_release(0), 0);
        EXPECT_EQ(gpu.make_current(), 0);
        EXPECT_EQ(gpu.pass_gate(nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.host_register(words, Program::kSize, kHostRegisterDeviceMap), 0);
        gpu.open();
        EXPECT_EQ(gpu.pass_gate(nullptr), 0);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), 0);
    });
}

}  // namespace
}  // namespace salus::test
