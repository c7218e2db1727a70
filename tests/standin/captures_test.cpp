// Captures and graphs on the stand-in, against what a real driver (580) does.
#include <functional>
#include <thread>
#include <vector>

#include "tests/standin/launches_fixture.h"

namespace salus::test {
namespace {

constexpr int kOfAll = 0, kOfThread = 1, kRelaxed = 2;  ///< modes of a capture

TEST_F(StandinTest, ACaptureRunsNothingAndItsGraphRunsInOrder) {
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        const auto stream = gpu.stream(), side = gpu.stream();
        const auto fork = gpu.event(), join = gpu.event();
        Program::Graph graph = nullptr;
        Program::RunnableGraph runnable = nullptr;
        int capturing = -1, calls = 0;
        EXPECT_EQ(gpu.capture_begin(stream, kOfAll), 0);
        EXPECT_EQ(gpu.stream_is_capturing(stream, &capturing), 0);
        EXPECT_EQ(capturing, 1);
        EXPECT_EQ(gpu.fill(start, 1, stream), 0);
        EXPECT_EQ(gpu.event_record(fork, stream), 0);
        EXPECT_EQ(gpu.stream_wait_event(side, fork, 0), 0);
        EXPECT_EQ(gpu.set_bytes_async(start, 2, 10, side), 0);
        EXPECT_EQ(gpu.event_record(join, side), 0);
        EXPECT_EQ(gpu.stream_wait_event(stream, join, 0), 0);
        EXPECT_EQ(gpu.launch_host_function(
                      stream, [](void* count) { ++*static_cast<int*>(count); }, &calls),
                  0);
        EXPECT_EQ(gpu.set_bytes_async(start, 3, 1, stream), 0);
        EXPECT_EQ(gpu.capture_end(stream, &graph), 0);
        for (const auto each : {stream, side}) {
            EXPECT_EQ(gpu.stream_is_capturing(each, &capturing), 0);
            EXPECT_EQ(capturing, 0);
        }
        EXPECT_EQ(gpu.context_synchronize(), 0);
        EXPECT_EQ(Program::byte_of(start), 0) << "nothing ran";

        EXPECT_EQ(gpu.graph_instantiate(&runnable, graph, 0), 0);
        EXPECT_EQ(gpu.graph_destroy(graph), 0);
        EXPECT_EQ(gpu.launch_graph(runnable, stream), 0);
        EXPECT_EQ(gpu.launch_graph_per_thread(runnable, nullptr), 0);
        EXPECT_EQ(gpu.runnable_destroy(runnable), 0) << "what is queued of it runs";
        EXPECT_EQ(gpu.launch_graph(runnable, stream), error::kInvalidValue);
        EXPECT_EQ(gpu.context_synchronize(), 0);
        EXPECT_EQ(calls, 2);
        EXPECT_EQ(Program::byte_of(start), 3);
        EXPECT_EQ(Program::byte_of(start + 9), 2);
        EXPECT_EQ(Program::byte_of(start + 10), 1);
    });
}

TEST_F(StandinTest, AGraphIsOneItemOfAQueue) {
    environment["SALUS_STANDIN_QUEUE"] = "2";
    in_process([] {
        const Program gpu;
        const auto start = gpu.block();
        const auto stream = gpu.stream();
        Program::Graph graph = nullptr;
        Program::RunnableGraph runnable = nullptr;
        EXPECT_EQ(gpu.capture_begin(stream, kRelaxed), 0);
        for (unsigned char i = 0; i < 100; ++i) EXPECT_EQ(gpu.fill(start, i, stream), 0);
        EXPECT_EQ(gpu.capture_end(stream, &graph), 0);
        EXPECT_EQ(gpu.graph_instantiate(&runnable, graph, 0), 0);
        EXPECT_EQ(gpu.hold(stream, 1), 0);
        EXPECT_EQ(gpu.launch_graph(runnable, stream), 0);
        EXPECT_EQ(gpu.launch_graph(runnable, stream), 0);
        EXPECT_EQ(gpu.hold(stream, 0), 0);
        EXPECT_EQ(gpu.stream_synchronize(stream), 0);
        EXPECT_EQ(Program::byte_of(start), 99);
        EXPECT_EQ(gpu.free_memory(start), 0);
        EXPECT_EQ(gpu.launch_graph(runnable, stream), 0);
        EXPECT_EQ(gpu.stream_synchronize(stream), error::kIllegalAddress) << "its memory is gone";
    });
}

/// A thread that has captured a bit, and what becomes of that.
struct Scene {
    const char* name;
    unsigned stream_flags;
    int mode;
    bool is_in_other_thread;  ///< the call
};
constexpr Scene kScenes[] = {
    {"all, same thread", device::cuda::kStreamNonBlocking, kOfAll, false},
    {"all, other thread", device::cuda::kStreamNonBlocking, kOfAll, true},
    {"its thread, other thread", device::cuda::kStreamNonBlocking, kOfThread, true},
    {"relaxed, blocking stream", 0, kRelaxed, false},
};

struct Scenery : Program {
    Address start = block(), spare = 0, made = 0;
    Stream idle = stream(), capturing = nullptr, made_stream = nullptr;
    Event event = Program::event(), other_event = Program::event();
    Graph graph = nullptr;

    /// What the call answers, then what the end of the capture does.
    std::pair<int, int> play(const Scene& scene, const std::function<int(Scenery&)>& call) {
        int answer = -1;
        spare = block(64);
        idle = stream();
        capturing = stream(scene.stream_flags);
        EXPECT_EQ(event_record(event, idle), 0);
        EXPECT_EQ(context_synchronize(), 0);
        EXPECT_EQ(capture_begin(capturing, scene.mode), 0);
        EXPECT_EQ(set_bytes_async(start, 1, 9, capturing), 0);
        if (scene.is_in_other_thread) {
            std::thread([&] {
                EXPECT_EQ(make_current(), 0);
                answer = call(*this);
            }).join();
        } else {
            answer = call(*this);
        }
        return {answer, capture_end(capturing, &graph)};
    }
};

TEST_F(StandinTest, ACaptureForbidsWhatTheRealDriverForbids) {
    in_process([] {
        using Outcome = std::pair<int, int>;
        constexpr Outcome kAllowed{0, 0}, kUnsafe{error::kCaptureUnsupported, error::kCaptureInvalidated};
        constexpr Outcome kImplicit{error::kCaptureImplicit, error::kCaptureInvalidated};
        constexpr Outcome kRefused{error::kIllegalState, 0};
        constexpr Outcome kOver{0, error::kIllegalState}, kWrongThread{error::kCaptureWrongThread, error::kIllegalState};
        constexpr Outcome kIsolation{error::kCaptureIsolation, error::kCaptureInvalidated};
        constexpr Outcome kCapturedEvent{error::kCapturedEvent, error::kCaptureInvalidated};
        constexpr Outcome kUnjoined{0, error::kCaptureUnjoined};
        const struct {
            const char* name;
            std::function<int(Scenery&)> call;
            Outcome outcomes[4];  ///< by scene
        } rows[] = {
            {"cuMemAlloc", [](Scenery& s) { return s.allocate(&s.made, 64); }, {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuMemFree", [](Scenery& s) { return s.free_memory(s.spare); }, {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuMemAllocAsync elsewhere",
             [](Scenery& s) { return s.allocate_async(&s.made, 64, s.idle); },
             {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuEventQuery", [](Scenery& s) { return s.event_query(s.event); }, {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuEventSynchronize",
             [](Scenery& s) { return s.event_synchronize(s.event); },
             {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuStreamQuery elsewhere",
             [](Scenery& s) { return s.stream_query(s.idle); },
             {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuStreamSynchronize elsewhere",
             [](Scenery& s) { return s.stream_synchronize(s.idle); },
             {kUnsafe, kUnsafe, kAllowed, kAllowed}},
            {"cuStreamQuery, legacy",
             [](Scenery& s) { return s.stream_query(nullptr); },
             {kUnsafe, kUnsafe, kAllowed, kImplicit}},
            {"cuCtxSynchronize", [](Scenery& s) { return s.context_synchronize(); }, {kUnsafe, kUnsafe, kUnsafe, kUnsafe}},
            {"cuStreamQuery", [](Scenery& s) { return s.stream_query(s.capturing); }, {kUnsafe, kUnsafe, kUnsafe, kUnsafe}},
            {"cuStreamSynchronize",
             [](Scenery& s) { return s.stream_synchronize(s.capturing); },
             {kUnsafe, kUnsafe, kUnsafe, kUnsafe}},
            {"cuMemcpyHtoD",
             [](Scenery& s) { return s.copy_to_device(s.start, "x", 1); },
             {kAllowed, kAllowed, kAllowed, kImplicit}},
            {"cuMemsetD8", [](Scenery& s) { return s.set_bytes(s.start, 1, 9); }, {kAllowed, kAllowed, kAllowed, kImplicit}},
            {"cuLaunchKernel, legacy",
             [](Scenery& s) { return s.fill(s.start, 1, nullptr); },
             {kAllowed, kAllowed, kAllowed, kImplicit}},
            {"cuEventRecord, legacy",
             [](Scenery& s) { return s.event_record(s.event, nullptr); },
             {kAllowed, kAllowed, kAllowed, kImplicit}},
            {"cuStreamIsCapturing, legacy",
             [](Scenery& s) {
                 int capturing = 0;
                 return s.stream_is_capturing(nullptr, &capturing);
             },
             {kAllowed, kAllowed, kAllowed, {error::kCaptureImplicit, 0}}},
            {"cuStreamCreate",
             [](Scenery& s) { return s.stream_create(&s.made_stream, 1); },
             {kAllowed, kAllowed, kAllowed, kAllowed}},
            {"cuEventCreate",
             [](Scenery& s) { return s.event_create(&s.other_event, 0); },
             {kAllowed, kAllowed, kAllowed, kAllowed}},
            {"cuStreamBeginCapture",
             [](Scenery& s) { return s.capture_begin(s.capturing, kOfAll); },
             {kRefused, kRefused, kRefused, kRefused}},
            {"cuStreamEndCapture",
             [](Scenery& s) { return s.capture_end(s.capturing, &s.graph); },
             {kOver, kWrongThread, kWrongThread, kOver}},
            {"cuStreamWaitEvent, not captured",
             [](Scenery& s) { return s.stream_wait_event(s.capturing, s.event, 0); },
             {kIsolation, kIsolation, kIsolation, kIsolation}},
            {"cuEventQuery, captured",
             [](Scenery& s) {
                 EXPECT_EQ(s.event_record(s.other_event, s.capturing), 0);
                 return s.event_query(s.other_event);
             },
             {kCapturedEvent, kCapturedEvent, kCapturedEvent, kCapturedEvent}},
            {"a fork that does not join",
             [](Scenery& s) {
                 EXPECT_EQ(s.event_record(s.other_event, s.capturing), 0);
                 EXPECT_EQ(s.stream_wait_event(s.idle, s.other_event, 0), 0);
                 return s.set_bytes_async(s.start, 1, 9, s.idle);
             },
             {kUnjoined, kUnjoined, kUnjoined, kUnjoined}},
            {"a relaxed cuMemAlloc",
             [](Scenery& s) {
                 int mode = kRelaxed;
                 EXPECT_EQ(s.exchange_capture_mode(&mode), 0);
                 const int answer = s.allocate(&s.made, 64);
                 EXPECT_EQ(s.exchange_capture_mode(&mode), 0);
                 return answer;
             },
             {kAllowed, kAllowed, kAllowed, kAllowed}},
        };
        Scenery scenery;
        for (const auto& row : rows) {
            for (std::size_t i = 0; i < std::size(kScenes); ++i)
                EXPECT_EQ(scenery.play(kScenes[i], row.call), row.outcomes[i]) << row.name << ": " << kScenes[i].name;
        }
    });
}

TEST_F(StandinTest, OnlyWhatCapturesCanEndACapture) {
    in_process([] {
        const Program gpu;
        const auto stream = gpu.stream(), side = gpu.stream();
        const auto event = gpu.event();
        Program::Graph graph = nullptr;
        EXPECT_EQ(gpu.capture_begin(nullptr, kOfAll), error::kCaptureUnsupported) << "the legacy stream";
        EXPECT_EQ(gpu.capture_begin(stream, 3), error::kInvalidValue);
        EXPECT_EQ(gpu.capture_end(stream, &graph), error::kIllegalState);
        EXPECT_EQ(gpu.capture_begin_per_thread(nullptr, kOfAll), 0);
        EXPECT_EQ(gpu.capture_end_per_thread(nullptr, &graph), 0);
        EXPECT_EQ(gpu.capture_begin(stream, kOfAll), 0);
        EXPECT_EQ(gpu.event_record(event, stream), 0);
        EXPECT_EQ(gpu.stream_wait_event(side, event, 0), 0);
        EXPECT_EQ(gpu.capture_end(side, &graph), error::kCaptureUnmatched);
        EXPECT_EQ(gpu.event_record(event, side), 0);
        EXPECT_EQ(gpu.stream_wait_event(stream, event, 0), 0);
        EXPECT_EQ(gpu.capture_end(stream, &graph), 0);
    });
}

}  // namespace
}  // namespace salus::test
