// The device: it runs what is queued.
#include <algorithm>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};  ///< at a value in memory for which a stream waits

/// The default stream and the others, unless created as non-blocking, wait for what was queued before in each other.
bool is_its_turn(const Queue& queue, const Work& work) {
    const auto& awaited = work.steps[work.next].awaited;
    if (awaited && !awaited->is_done) return false;
    return std::none_of(state.queues.begin(), state.queues.end(), [&](const auto& item) {
        const Queue& other = item.second;
        return &other != &queue && other.context == queue.context && (other.is_default || queue.is_default) &&
               other.is_blocking && queue.is_blocking && !other.work.empty() && other.work.front().order < work.order;
    });
}

void finish_step(Queue& queue) {
    Work& work = queue.work.front();
    if (++work.next == work.steps.size()) queue.work.pop_front();
}

/// The stream waits for it, and no lock is held: the function may wait for whoever is in a call.
std::optional<Clock::time_point> call_host(Queue& queue) {
    const std::function<void()> function = queue.work.front().steps[queue.work.front().next].host;
    state.mutex.unlock();
    function();
    state.mutex.lock();
    finish_step(queue);
    state.changed.notify_all();
    return std::nullopt;
}

/// When a step has taken its time, or has to be looked at again.
Clock::time_point due(Step& step, Clock::time_point now) {
    if (step.is_ready && !step.is_ready()) return now + kBetweenLooks;
    if (!step.started) step.started = now;
    return *step.started + step.duration;
}

/// Runs what can be run, a step of each stream. When to look again, if nothing could.
std::optional<Clock::time_point> run_what_is_due() {
    auto next = Clock::time_point::max();
    bool ran = false;
    for (auto at = state.queues.begin(); at != state.queues.end();) {
        Queue& queue = at->second;
        if (state.is_dead) queue.work.clear();
        if (queue.work.empty()) {
            at = queue.is_destroyed ? state.queues.erase(at) : std::next(at);
            continue;
        }
        ++at;
        if (queue.held || !is_its_turn(queue, queue.work.front())) continue;
        Step& step = queue.work.front().steps[queue.work.front().next];
        const auto now = Clock::now();  // once: time passes, and what is not ready would seem to be due
        if (const auto when = due(step, now); when > now) {
            next = std::min(next, when);
            continue;
        }
        if (step.host) return call_host(queue);
        if (!step.run())
            break_down("work ran on memory that is not there", step.touches.empty() ? Range{} : step.touches.front());
        finish_step(queue);
        ran = true;
    }
    if (!ran) return next;
    state.changed.notify_all();
    return std::nullopt;
}

}  // namespace

void work_for_ever() {
    std::unique_lock lock(state.mutex);
    for (;;) {
        const auto next = run_what_is_due();
        if (!next) continue;
        if (*next == Clock::time_point::max()) state.changed.wait(lock);
        else state.changed.wait_until(lock, *next);
    }
}

}  // namespace salus::standin
