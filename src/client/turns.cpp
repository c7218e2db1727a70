#include "client/turns.h"

#include <algorithm>

#include "os/clock.h"
#include "os/futex.h"

namespace salus::client {

namespace {

// Note [Threads that wait for each other]
// A thread inside an iteration may wait for another thread of the job (a pool that computes parts of a model). That thread
// may itself wait to enter, because the service wants the grant back and a boundary has to come first. So we let it in: at
// once if we know that it is waited for, else as soon as the threads inside are seen to do nothing, and in any case after
// kInsistAfterNs.
constexpr std::uint64_t kInsistAfterNs = 5'000'000'000;
constexpr std::uint64_t kLookAtOthersNs = 1'000'000;

}  // namespace

bool Turns::wait(const control::Word& seen, std::uint64_t at_most_ns) const {
    // A limit, because the reason to give up is not in the word.
    const Duration limit{static_cast<std::int64_t>(std::min<std::uint64_t>(at_most_ns, 200'000'000))};
    return os::wait_on(turn_.page().word, control::pack(seen), limit);
}

void Turns::wake() const { os::wake_all(turn_.page().word); }

Turns::Entry Turns::entered(attachment::TurnSteps::Entry entry) {
    if (entry == attachment::TurnSteps::Entry::kJoined) return Entry::kJoined;
    turns_.fetch_add(1, std::memory_order_relaxed);
    return Entry::kNewTurn;
}

std::optional<Turns::Entry> Turns::try_begin() {
    const std::optional<attachment::TurnSteps::Entry> entry = turn_.try_begin(os::now_ns);
    return entry ? std::optional(entered(*entry)) : std::nullopt;
}

Turns::Entry Turns::begin(const Waiting& waiting, std::uint64_t at_most_ns, std::uint64_t since_ns) {
    std::uint64_t since = 0;
    bool interrupted = false;
    bool insist = false;
    const auto note_wait = [&](std::uint64_t now) {
        if (since != 0) waited_ns_.fetch_add(now - since, std::memory_order_relaxed);
    };
    for (;;) {
        const std::uint64_t now = os::now_ns();
        const attachment::TurnSteps::Begun step = turn_.begin(now, insist);
        if (step.entry) {
            note_wait(now);
            return entered(*step.entry);
        }
        if (since == 0) since = now;
        const std::uint64_t so_far = now - since;
        const bool others_inside = step.seen.state == control::State::kRunning;
        insist = now - (since_ns != 0 ? since_ns : since) >= kInsistAfterNs || (others_inside && waiting.insists());
        if (step.notify) notify_();
        if (waiting.give_up()) return Entry::kGivenUp;
        if (at_most_ns != kForEver && (interrupted || so_far >= at_most_ns)) {
            note_wait(now);
            return Entry::kWaiting;
        }
        if (insist && others_inside) continue;
        interrupted = !wait(step.seen, std::min(at_most_ns - so_far, others_inside ? kLookAtOthersNs : kForEver));
    }
}

bool Turns::end(bool asynchronous, Count count, const std::function<bool()>& tidy, const std::function<void()>& drain) {
    const attachment::TurnSteps::Left left = turn_.leave();
    if (!left.last && left.was_inside && count.own) turn_.count(count.iterations);
    if (!left.last) return left.was_inside;

    const bool clean = tidy();
    // Note [The device's time]
    // A turn that goes back lasts until the device has done its work, and that time is charged, too: also if the turn is
    // taken back while a script waits for results between its iterations (loss.item()). What the device does is not known
    // then, but if the drain has to wait, it has worked since the iteration ended.
    const bool drains = asynchronous && clean && turn_.word().yield;
    if (drains) drain();
    turn_.finish(os::now_ns(), count.iterations);
    attachment::TurnSteps::Settled settled = turn_.settle(clean, drains || !asynchronous);
    if (settled.must_drain) {
        drain();
        turn_.device_finished(os::now_ns());
        settled = turn_.settle(clean, /*drained=*/true);
    }
    if (settled.wake) wake();
    if (settled.notify) notify_();
    return true;
}

void Turns::acknowledge(bool device_worked) {
    if (device_worked && turn_.word().state == control::State::kRevoked) turn_.device_finished(os::now_ns());
    if (turn_.acknowledge()) notify_();
}

bool Turns::withdraw() { return turn_.withdraw(); }

}  // namespace salus::client
