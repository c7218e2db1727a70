// The queues of streams: how they are found, and how work gets into them.
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

thread_local bool null_is_per_thread = false;

std::size_t queue_depth() {
    static const char* const text = std::getenv("SALUS_STANDIN_QUEUE");
    static const int depth = text ? std::atoi(text) : 1024;
    return static_cast<std::size_t>(std::max(depth, 1));
}

Queue& default_queue(DeviceContext* context) {
    const auto [at, is_new] = state.queues.try_emplace(context);
    if (is_new) at->second = {.stream = context, .context = context, .is_default = true};
    at->second.is_destroyed = false;  // as it was with the context, if that has been retained anew
    return at->second;
}

/// It stays when the thread is gone.
Queue& queue_of_thread(DeviceContext* context) {
    Stream& stream = state.streams_of_threads[{context, std::this_thread::get_id()}];
    const auto found = state.queues.find(stream);
    if (stream && found != state.queues.end() && !found->second.is_destroyed) return found->second;
    stream = new_handle();
    return state.queues[stream] = {.stream = stream, .context = context, .is_of_thread = true};
}

void enqueue(Queue& queue, std::vector<Step> steps) {
    for (Step& step : steps) {
        if (step.starts_when_queued) step.started = Clock::now();
    }
    queue.work.push_back({.order = ++state.last_order, .steps = std::move(steps)});
    state.changed.notify_all();
}

}  // namespace

PerThreadFlavour::PerThreadFlavour() { null_is_per_thread = true; }
PerThreadFlavour::~PerThreadFlavour() { null_is_per_thread = false; }

Queue* queue_of(Stream stream) {
    const auto value = reinterpret_cast<std::uintptr_t>(stream);
    if (value == kStreamPerThread || (value == 0 && null_is_per_thread)) return &queue_of_thread(current());
    if (value == 0 || value == kStreamLegacy) return &default_queue(current());
    const auto found = state.queues.find(stream);
    if (found == state.queues.end()) return nullptr;
    const Queue& queue = found->second;
    return queue.is_default || queue.is_of_thread || queue.is_destroyed ? nullptr : &found->second;
}

Status find_queue(Stream stream, Queue** queue) {
    *queue = queue_of(stream);
    if (!*queue) return kInvalidHandle;
    return refuse_implicit_dependency(**queue);
}

Status submit(Entered& entered, Queue& queue, std::vector<Step> steps) {
    if (queue.capture) return capture(queue, std::move(steps));
    // See Note [Two locks].
    state.changed.wait(entered.lock, [&] { return queue.work.size() < queue_depth() || state.is_dead; });
    if (state.is_dead) return kIllegalAddress;
    enqueue(queue, std::move(steps));
    return kSuccess;
}
Status submit(Entered& entered, Queue& queue, Step step) {
    std::vector<Step> steps;
    steps.push_back(std::move(step));
    return submit(entered, queue, std::move(steps));
}

Step make_record(const std::shared_ptr<Record>& record) {
    return {.run = [record] {
        record->at = Clock::now();
        return record->is_done = true;
    }};
}

std::shared_ptr<Record> enqueue_record(Queue& queue) {
    auto record = std::make_shared<Record>();
    enqueue(queue, {make_record(record)});
    return record;
}

Status wait_for(Entered& entered, const std::shared_ptr<Record>& record) {
    if (entered.driver.owns_lock()) entered.driver.unlock();
    state.changed.wait(entered.lock, [&] { return record->is_done || state.is_dead; });
    return record->is_done ? kSuccess : kIllegalAddress;
}

void reenter(Entered& entered) {
    if (entered.driver.owns_lock()) return;
    entered.lock.unlock();
    entered.driver.lock();
    entered.lock.lock();
}

Status drain(Entered& entered, const DeviceContext& context) {
    std::vector<std::shared_ptr<Record>> ends;
    for (auto& [stream, queue] : state.queues) {
        if (queue.context == &context && !queue.capture) ends.push_back(enqueue_record(queue));
    }
    for (const auto& end : ends) SALUS_STANDIN_TRY(wait_for(entered, end));
    return kSuccess;
}

bool is_touched(Address start, std::uint64_t size) {
    const auto overlaps = [&](const Range& range) { return range.start < start + size && start < range.start + range.size; };
    for (const auto& [stream, queue] : state.queues) {
        for (const Work& work : queue.work) {
            for (std::size_t i = work.next; i < work.steps.size(); ++i) {
                const std::vector<Range>& touches = work.steps[i].touches;
                if (std::any_of(touches.begin(), touches.end(), overlaps)) return true;
            }
        }
    }
    return false;
}

void break_down(const char* why, Range range) {
    if (std::exchange(state.is_dead, true) || !std::getenv("SALUS_STANDIN_EXPLAIN")) return;
    std::fprintf(stderr, "standin: %s: 0x%llx, %llu bytes\n", why, static_cast<unsigned long long>(range.start),
                 static_cast<unsigned long long>(range.size));
    void* callers[32];
    ::backtrace_symbols_fd(callers, ::backtrace(callers, std::size(callers)), STDERR_FILENO);
}

}  // namespace salus::standin
