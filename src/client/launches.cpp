#include "client/launches.h"

#include <chrono>
#include <memory>

#include "os/clock.h"
#include "os/thread.h"

namespace salus::client {
namespace {

/// How often the watcher looks: soon, where others may wait for the end of the turn.
constexpr std::chrono::microseconds kLookSoon{500};
constexpr std::chrono::milliseconds kLookLater{20};
/// How long a program that launches nothing keeps a turn that is wanted back, for what it has in flight.
constexpr std::uint64_t kQuietPatienceNs = 50'000'000;
/// How long the end of a turn waits for threads that are inside a launch.
constexpr std::uint64_t kEmptyPatienceNs = 1'000'000'000;

/// The stream that this thread last launched on, and after how many marks that was noted.
struct Noted {
    device::Stream stream = 0;
    std::uint64_t marks = 0;
};
constinit thread_local Noted noted;

}  // namespace

/// Marks are counted on where no other client's count comes: the process may detach, and attach again.
Launches::Launches(LaunchTurns& turns) : turns_(turns) {
    static std::atomic<std::uint64_t> clients{0};
    marks_ = ++clients << 32;
}

/// Once a stream and mark, the device's marks are told of the stream.
void Launches::note(device::Stream stream) {
    const std::uint64_t marks = marks_.load(std::memory_order_acquire);
    if (noted.stream == stream && noted.marks == marks) [[likely]]
        return;
    turns_.launches_on(stream);
    noted = {stream, marks};
}

/// REQUIRES: this thread is counted as inside; when this returns it still is.
void Launches::begin_slowly(device::Stream stream) {
    if (turns_.captures(stream)) return;
    const os::NoCancellation no_cancellation;
    while (!stopped_) {
        state_.fetch_sub(kOneInside, std::memory_order_release);
        if (turns_.is_wanted_back()) {
            turns_.wish();
            close();
        }
        const LaunchTurns::Entered entered = turns_.enter_iteration();
        if (entered == LaunchTurns::Entered::kYes) open();
        const std::uint64_t before = state_.fetch_add(kOneInside, std::memory_order_acq_rel);
        if (entered == LaunchTurns::Entered::kWithout || (before & (kOpen | kClosing)) == kOpen) return;
    }
}

/// This thread has entered an iteration. One entry stands for the turn that is open; another one is not needed.
void Launches::open() {
    const std::lock_guard lock(changes_);
    if ((state_.load(std::memory_order_relaxed) & kOpen) != 0 || stopped_) return turns_.leave_iteration();
    const auto run = [](void* self) -> void* {
        static_cast<Launches*>(self)->watch();
        return nullptr;
    };
    if (!watcher_.is_there() && !watcher_.start(run, this)) {
        stopped_ = true;  // nobody would end its turns
        return turns_.leave_iteration();
    }
    seen_ = 0;
    marked_ = false;
    state_.fetch_or(kOpen, std::memory_order_release);
    const std::lock_guard watch(watch_mutex_);
    is_open_ = true;
    wake_.notify_one();
}

void Launches::close() {
    const std::lock_guard lock(changes_);
    if ((state_.fetch_or(kClosing, std::memory_order_acq_rel) & kOpen) != 0) {
        if (!wait_until_empty()) {
            state_.fetch_and(~kClosing, std::memory_order_release);
            return;
        }
        marks_.fetch_add(1, std::memory_order_acq_rel);
        turns_.show(count());
        turns_.leave_iteration();
        const std::lock_guard watch(watch_mutex_);
        is_open_ = false;
    }
    state_.fetch_and(~(kOpen | kClosing), std::memory_order_release);
}

/// Those inside are in a call of the driver. It may wait for the device, and that for another thread of the program: so not
/// for ever. False: the turn stays open, and the next launch or the watcher tries again.
bool Launches::wait_until_empty() const {
    const std::uint64_t until = os::now_ns() + kEmptyPatienceNs;
    while ((state_.load(std::memory_order_acquire) & kInside) != 0) {
        if (os::now_ns() > until) return false;
        os::sleep_for(microseconds(20));
    }
    return true;
}

void Launches::look() {
    const std::unique_lock lock(changes_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    std::uint64_t now = state_.load(std::memory_order_acquire);
    if ((now & kOpen) == 0) return;
    if (now != seen_) {
        seen_ = now;
        turns_.show(count());
        marked_ = false;
        quiet_since_ns_ = os::now_ns();
        return;
    }
    if (!marked_) {
        marks_.fetch_add(1, std::memory_order_acq_rel);
        marked_ = turns_.mark();  // not while a stream captures: then it is tried again
    }
    // A launch since the mark would have changed the state.
    if ((now & kInside) != 0 || !((marked_ && turns_.passed()) || has_waited_enough())) return;
    if (!state_.compare_exchange_strong(now, now | kClosing, std::memory_order_acq_rel)) return;
    turns_.leave_iteration();
    state_.fetch_and(~(kOpen | kClosing), std::memory_order_release);
    const std::lock_guard watch(watch_mutex_);
    is_open_ = false;
}

/// Some marks cannot be made, or never pass: a capture is left open, a kernel waits for the host. A program that launches no
/// more would keep its turn for ever. The boundary gives the device some more time.
bool Launches::has_waited_enough() const {
    return turns_.is_wanted_back() && os::now_ns() - quiet_since_ns_ > kQuietPatienceNs;
}

void Launches::watch() {
    std::unique_lock lock(watch_mutex_);
    while (!stopped_) {
        if (!is_open_) {
            wake_.wait(lock);
            continue;
        }
        const bool soon = turns_.has_company();
        wake_.wait_for(lock, soon ? std::chrono::microseconds(kLookSoon) : std::chrono::microseconds(kLookLater));
        lock.unlock();
        look();
        lock.lock();
    }
}

void Launches::stop() {
    {
        const std::lock_guard lock(watch_mutex_);
        stopped_ = true;
        wake_.notify_one();
    }
    {
        const std::lock_guard lock(changes_);  // others may stop it as well, or have been about to start the watcher
        watcher_.join();
    }
    close();
}

/// Other threads may have held any lock when the child was made.
void Launches::forget() {
    watcher_.forget();
    std::construct_at(&changes_);
    std::construct_at(&watch_mutex_);
    std::construct_at(&wake_);
    stopped_ = true;
    state_ = 0;
}

}  // namespace salus::client
