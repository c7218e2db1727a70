// Captures: what streams gather, and what is refused meanwhile. The errors are those seen on a real driver (580); a refused
// call mostly makes the capture invalid.
#include <algorithm>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr int kGlobal = 0;
thread_local int mode_of_thread = kGlobal;

Status make_invalid(Capture& capture, Status status) {
    capture.is_invalid = true;
    return status;
}

bool is_by_this_thread(const Capture& capture) {
    return capture.mode != kCaptureModeRelaxed && capture.thread == std::this_thread::get_id();
}

}  // namespace

void finish_capture(const std::shared_ptr<Capture>& capture) {
    capture->is_over = true;
    std::erase(state.captures, capture);
    for (auto& [stream, queue] : state.queues) {
        if (queue.capture != capture) continue;
        queue.capture = nullptr;
        queue.captured = 0;
    }
}

bool has_implicit_dependency(const Queue& queue) {
    return queue.is_default && std::any_of(state.queues.begin(), state.queues.end(), [&](const auto& item) {
               return item.second.capture && item.second.is_blocking && item.second.context == queue.context;
           });
}

Status refuse_implicit_dependency(const Queue& queue) {
    if (!has_implicit_dependency(queue)) return kSuccess;
    for (auto& [stream, other] : state.queues) {
        if (other.capture && other.is_blocking && other.context == queue.context) other.capture->is_invalid = true;
    }
    return kCaptureImplicit;
}

Status refuse_unsafe() {
    Status status = kSuccess;
    for (const auto& capture : state.captures) {
        const bool forbids = is_by_this_thread(*capture) || (mode_of_thread == kGlobal && capture->mode == kGlobal);
        if (mode_of_thread != kCaptureModeRelaxed && forbids) status = make_invalid(*capture, kCaptureUnsupported);
    }
    return status;
}

Status refuse_capturing(Queue& queue) {
    if (queue.capture) return make_invalid(*queue.capture, kCaptureUnsupported);
    return queue.told_capturing ? kCaptureUnsupported : kSuccess;
}

Status refuse_wait(Queue& queue) {
    SALUS_STANDIN_TRY(refuse_capturing(queue));
    return refuse_unsafe();
}

Status refuse_captured(const EventState& event) {
    return event.capture ? make_invalid(*event.capture, kCapturedEvent) : kSuccess;
}

Status synchronize(Entered& entered, const DeviceContext& context) {
    Status status = kSuccess;
    for (auto& [stream, queue] : state.queues) {
        if (queue.context != &context || (!queue.capture && !queue.told_capturing)) continue;
        if (queue.capture) queue.capture->is_invalid = true;
        status = kCaptureUnsupported;
    }
    return status == kSuccess ? drain(entered, context) : status;
}

Status capture(Queue& queue, std::vector<Step> steps) {
    Capture& capture = *queue.capture;
    if (capture.is_invalid) return kCaptureInvalidated;
    queue.captured += steps.size();
    for (Step& step : steps) capture.steps.push_back(std::move(step));
    if (queue.stream != capture.origin) capture.unjoined.insert(queue.stream);
    return kSuccess;
}

Status capture_record(Queue& queue, EventState& event) {
    if (queue.capture->is_invalid) return kCaptureInvalidated;
    event.capture = queue.capture;
    event.captured_on = queue.stream;
    event.captured_at = queue.captured;
    event.was_recorded = true;
    return kSuccess;
}

Status capture_wait(Queue& queue, const EventState& event) {
    if (!queue.capture) {
        if (event.capture->is_over) return kCapturedEvent;
        if (queue.is_default) return make_invalid(*event.capture, kCaptureImplicit);
        queue.capture = event.capture;  // forked
        queue.capture->unjoined.insert(queue.stream);
        return kSuccess;
    }
    Capture& capture = *queue.capture;
    if (capture.is_invalid) return kCaptureInvalidated;
    if (!event.was_recorded) return kSuccess;
    if (!event.capture || event.capture->is_over) return make_invalid(capture, kCaptureIsolation);
    if (event.capture != queue.capture) return make_invalid(capture, make_invalid(*event.capture, kCaptureMerge));
    // Steps run in the order of their capture, which is one that the dependencies allow.
    const auto joined = state.queues.find(event.captured_on);
    if (event.captured_on != queue.stream && joined != state.queues.end() && joined->second.captured == event.captured_at)
        capture.unjoined.erase(event.captured_on);
    return kSuccess;
}

Status exchange_capture_mode(int* mode) {
    SALUS_STANDIN_ENTER(exchange_capture_mode, kInitialised);
    std::swap(mode_of_thread, *mode);
    return kSuccess;
}

}  // namespace salus::standin
