// Streams and events.
#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr unsigned kEventFlags = 3, kEventWithoutTime = 2;

EventState* event_of(Event event) {
    const auto found = state.events.find(event);
    return found == state.events.end() ? nullptr : &found->second;
}

Status create_stream(Stream* stream, unsigned flags) {
    SALUS_STANDIN_REQUIRE(stream && (flags & ~kStreamNonBlocking) == 0);
    *stream = new_handle();
    state.queues[*stream] = {.stream = *stream, .context = current(), .is_blocking = flags == 0};
    return kSuccess;
}

Status elapsed(float* milliseconds, Event from, Event to) {
    const EventState* const start = event_of(from);
    const EventState* const end = event_of(to);
    if (!start || !end) return kInvalidHandle;
    for (const EventState* event : {start, end}) {
        if (!event->has_time || !event->was_recorded) return kInvalidHandle;
        if (!event->record->is_done) return kNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->record->at - start->record->at).count();
    return kSuccess;
}

}  // namespace

Status stream_create(Stream* stream, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_create, kContext);
    return create_stream(stream, flags);
}

Status stream_create_with_priority(Stream* stream, unsigned flags, int) {
    SALUS_STANDIN_ENTER(stream_create_with_priority, kContext);
    return create_stream(stream, flags);
}

Status stream_destroy(Stream stream) {
    SALUS_STANDIN_ENTER(stream_destroy, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue || queue->is_default || queue->is_of_thread) return kInvalidHandle;
    if (queue->capture) finish_capture(std::shared_ptr(queue->capture));
    queue->is_destroyed = true;  // what it has queued is done all the same
    state.changed.notify_all();
    return kSuccess;
}

Status stream_query(Stream stream) {
    SALUS_STANDIN_ENTER(stream_query, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    SALUS_STANDIN_TRY(refuse_wait(*queue));
    return queue->work.empty() ? kSuccess : kNotReady;
}

Status stream_synchronize(Stream stream) {
    SALUS_STANDIN_ENTER(stream_synchronize, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    SALUS_STANDIN_TRY(refuse_wait(*queue));
    return wait_for(entered, enqueue_record(*queue));
}

Status stream_wait_event(Stream stream, Event event, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_wait_event, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    EventState* const found = event_of(event);
    if (!found) return kInvalidHandle;
    SALUS_STANDIN_REQUIRE(flags == 0);
    if (queue->capture || found->capture) return capture_wait(*queue, *found);
    return submit(entered, *queue, {.awaited = found->record, .run = [] { return true; }});
}

Status stream_context(Stream stream, Context* context) {
    SALUS_STANDIN_ENTER(stream_context, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    SALUS_STANDIN_REQUIRE(context);
    *context = queue->context;
    return kSuccess;
}

Status stream_is_capturing(Stream stream, int* status) {
    SALUS_STANDIN_ENTER(stream_is_capturing, kContext);
    const Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    if (has_implicit_dependency(*queue)) return kCaptureImplicit;
    *status = queue->capture ? (queue->capture->is_invalid ? 2 : 1) : queue->told_capturing;
    return kSuccess;
}

Status launch_host_function(Stream stream, void (*function)(void*), void* data) {
    SALUS_STANDIN_ENTER(launch_host_function, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    SALUS_STANDIN_REQUIRE(function);
    return submit(entered, *queue, {.run = {}, .host = [=] { function(data); }});
}

Status work(Stream stream, Address start, std::size_t size, unsigned char value, unsigned microseconds) {
    SALUS_STANDIN_ENTER(work, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    return submit(entered, *queue, fill_step(start, size, value, microseconds));
}

Status hold(Stream stream, int held) {
    SALUS_STANDIN_ENTER(hold, kContext, Locks::kStateAlone);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    queue->held = held;
    state.changed.notify_all();
    return kSuccess;
}

Status set_capturing(Stream stream, int capturing) {
    SALUS_STANDIN_ENTER(set_capturing, kContext, Locks::kStateAlone);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    queue->told_capturing = capturing;
    return kSuccess;
}

Status event_create(Event* event, unsigned flags) {
    SALUS_STANDIN_ENTER(event_create, kContext);
    SALUS_STANDIN_REQUIRE(event && (flags & ~kEventFlags) == 0);
    *event = new_handle();
    auto record = std::make_shared<Record>(Record{.is_done = true});  // as one never recorded is
    state.events[*event] = {.context = current(), .has_time = (flags & kEventWithoutTime) == 0, .record = std::move(record)};
    return kSuccess;
}

Status event_destroy(Event event) {
    SALUS_STANDIN_ENTER(event_destroy, kContext);
    return state.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

Status event_record(Event event, Stream stream) {
    SALUS_STANDIN_ENTER(event_record, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    EventState* const found = event_of(event);
    if (!found) return kInvalidHandle;
    if (queue->capture) return capture_record(*queue, *found);
    const auto record = std::make_shared<Record>();
    SALUS_STANDIN_TRY(submit(entered, *queue, make_record(record)));
    found->record = record;
    found->was_recorded = true;
    found->capture = nullptr;
    return kSuccess;
}

Status event_query(Event event) {
    SALUS_STANDIN_ENTER(event_query, kContext);
    const EventState* const found = event_of(event);
    if (!found) return kInvalidHandle;
    SALUS_STANDIN_TRY(refuse_captured(*found));
    SALUS_STANDIN_TRY(refuse_unsafe());
    return found->record->is_done ? kSuccess : kNotReady;
}

Status event_synchronize(Event event) {
    SALUS_STANDIN_ENTER(event_synchronize, kContext);
    const EventState* const found = event_of(event);
    if (!found) return kInvalidHandle;
    SALUS_STANDIN_TRY(refuse_captured(*found));
    SALUS_STANDIN_TRY(refuse_unsafe());
    return wait_for(entered, std::shared_ptr(found->record));
}

Status event_elapsed(float* milliseconds, Event start, Event end) {
    SALUS_STANDIN_ENTER(event_elapsed, kContext);
    return elapsed(milliseconds, start, end);
}

Status event_elapsed_v2(float* milliseconds, Event start, Event end) {
    SALUS_STANDIN_ENTER(event_elapsed_v2, kContext);
    return elapsed(milliseconds, start, end);
}

}  // namespace salus::standin
