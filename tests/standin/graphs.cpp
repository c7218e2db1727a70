// Captures become graphs, and graphs are launched: each as one item of a queue.
#include "tests/standin/state.h"

namespace salus::standin {

Status capture_begin(Stream stream, int mode) {
    SALUS_STANDIN_ENTER(capture_begin, kContext);
    SALUS_STANDIN_REQUIRE(mode >= 0 && mode <= kCaptureModeRelaxed);
    SALUS_STANDIN_FIND(queue, stream);
    if (queue->is_default) return kCaptureUnsupported;
    if (queue->capture) return kIllegalState;
    queue->capture =
        std::make_shared<Capture>(Capture{.mode = mode, .thread = std::this_thread::get_id(), .origin = queue->stream});
    state.captures.push_back(queue->capture);
    return kSuccess;
}

Status capture_end(Stream stream, Graph* graph) {
    SALUS_STANDIN_ENTER(capture_end, kContext);
    SALUS_STANDIN_REQUIRE(graph);
    SALUS_STANDIN_FIND(queue, stream);
    const std::shared_ptr<Capture> capture = queue->capture;
    if (!capture) return kIllegalState;
    if (capture->origin != queue->stream) return kCaptureUnmatched;
    *graph = nullptr;
    finish_capture(capture);  // whatever comes of it
    if (capture->mode != kCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) return kCaptureWrongThread;
    if (capture->is_invalid) return kCaptureInvalidated;
    if (!capture->unjoined.empty()) return kCaptureUnjoined;
    *graph = new_handle();
    state.graphs[*graph] = {current(), std::move(capture->steps)};
    return kSuccess;
}

Status graph_instantiate(RunnableGraph* runnable, Graph graph, unsigned long long) {
    SALUS_STANDIN_ENTER(graph_instantiate, kContext);
    const auto found = state.graphs.find(graph);
    SALUS_STANDIN_REQUIRE(runnable && found != state.graphs.end());
    *runnable = new_handle();
    state.runnable_graphs[*runnable] = found->second;
    return kSuccess;
}

Status graph_destroy(Graph graph) {
    SALUS_STANDIN_ENTER(graph_destroy, kContext);
    return state.graphs.erase(graph) == 1 ? kSuccess : kInvalidValue;
}

/// What is queued of it runs all the same.
Status runnable_destroy(RunnableGraph runnable) {
    SALUS_STANDIN_ENTER(runnable_destroy, kContext);
    return state.runnable_graphs.erase(runnable) == 1 ? kSuccess : kInvalidValue;
}

Status launch_graph(RunnableGraph runnable, Stream stream) {
    SALUS_STANDIN_ENTER(launch_graph, kContext);
    const auto found = state.runnable_graphs.find(runnable);
    SALUS_STANDIN_REQUIRE(found != state.runnable_graphs.end());
    SALUS_STANDIN_FIND(queue, stream);
    if (found->second.steps.empty()) return kSuccess;
    return submit(entered, *queue, found->second.steps);
}

}  // namespace salus::standin
