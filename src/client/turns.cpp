#include "client/turns.h"

#include <algorithm>

#include "os/clock.h"
#include "os/futex.h"

namespace salus::client {

namespace {

// Note [Threads that wait for each other]
// A thread inside an iteration may wait for another thread of the job (a pool that computes parts of a model), which waits
// to get in, since the grant is wanted back and there is to be a boundary first. So it is let in at once where it is known
// to be waited for, else as soon as those inside are seen to do nothing, and in any case after kInsistAfterNs.
constexpr std::uint64_t kInsistAfterNs = 5'000'000'000;
constexpr std::uint64_t kLookAtOthersNs = 1'000'000;

}  // namespace

template <typename Step>
auto Turns::change(const Step& step) {
    std::uint64_t seen = page_.word.load(std::memory_order_acquire);
    for (;;) {
        const auto made = step(control::unpack(seen));
        const std::uint64_t next = control::pack(made.next);
        if (next == seen ||
            page_.word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
            return made;
        }
    }
}

bool Turns::wait(const control::Word& seen, std::uint64_t at_most_ns) const {
    // A limit, since what makes a thread give up is not in the word.
    const Duration limit{static_cast<std::int64_t>(std::min<std::uint64_t>(at_most_ns, 200'000'000))};
    return os::wait_on(page_.word, control::pack(seen), limit);
}

void Turns::wake() const { os::wake_all(page_.word); }

Turns::Entry Turns::entered(const control::Word& before, std::uint64_t now) {
    if (before.state == control::State::kRunning) return Entry::kJoined;
    page_.begun_ns.store(now, std::memory_order_release);
    if (before.state == control::State::kIdle || before.kept) return Entry::kJoined;
    turns_.fetch_add(1, std::memory_order_relaxed);
    return Entry::kNewTurn;
}

std::optional<Turns::Entry> Turns::try_begin() {
    std::uint64_t seen = page_.word.load(std::memory_order_acquire);
    for (;;) {
        const control::Word before = control::unpack(seen);
        const control::Begin step = control::begin(before);
        if (!step.entered) return std::nullopt;
        const std::uint64_t next = control::pack(step.next);
        if (page_.word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire))
            return entered(before, os::now_ns());
    }
}

Turns::Entry Turns::begin(const Waiting& waiting, std::uint64_t at_most_ns, std::uint64_t since_ns) {
    std::uint64_t since = 0;
    bool interrupted = false;
    bool insist = false;
    const auto note_wait = [&](std::uint64_t now) {
        if (since != 0) waited_ns_.fetch_add(now - since, std::memory_order_relaxed);
    };
    for (;;) {
        control::Word before;
        const control::Begin step = change([&](const control::Word& word) {
            before = word;
            return control::begin(word, insist);
        });
        const std::uint64_t now = os::now_ns();
        if (step.entered) {
            note_wait(now);
            return entered(before, now);
        }
        if (since == 0) since = now;
        const std::uint64_t so_far = now - since;
        const bool others_inside = step.next.state == control::State::kRunning;
        insist = now - (since_ns != 0 ? since_ns : since) >= kInsistAfterNs || (others_inside && waiting.insists());
        if (step.notify) notify_();
        if (waiting.give_up()) return Entry::kGivenUp;
        if (at_most_ns != kForEver && (interrupted || so_far >= at_most_ns)) {
            note_wait(now);
            return Entry::kWaiting;
        }
        if (insist && others_inside) continue;
        interrupted = !wait(step.next, std::min(at_most_ns - so_far, others_inside ? kLookAtOthersNs : kForEver));
    }
}

bool Turns::end(bool asynchronous, Count count, const std::function<bool()>& tidy, const std::function<void()>& drain) {
    struct Left {
        control::Word next;
        bool was_inside;
        bool last;
    };
    const Left left = change([](const control::Word& word) {
        const auto step = control::leave(word);
        return step ? Left{step->next, true, step->last} : Left{word, false, false};
    });
    if (!left.last && left.was_inside && count.own) page_.iterations.fetch_add(count.iterations, std::memory_order_release);
    if (!left.last) return left.was_inside;

    const std::uint64_t now = os::now_ns();
    const bool clean = tidy();
    page_.busy_ns.fetch_add(now - page_.begun_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
    page_.ended_ns.store(now, std::memory_order_relaxed);
    page_.iterations.fetch_add(count.iterations, std::memory_order_release);
    bool drained = !asynchronous;
    const control::Settle settled = change([&](const control::Word& word) {
        if (word.yield && !drained) {
            drain();
            drained = true;
        }
        return control::settle(word, drained, clean);
    });
    if (settled.wake) wake();
    if (settled.notify) notify_();
    return true;
}

void Turns::acknowledge() {
    struct Acknowledged {
        control::Word next;
        bool done;
    };
    const Acknowledged step = change([](const control::Word& word) {
        const auto next = control::acknowledge(word);
        return next ? Acknowledged{*next, true} : Acknowledged{word, false};
    });
    if (step.done) notify_();
}

bool Turns::withdraw() {
    return change([](const control::Word& word) { return control::take_back(word, /*may_retract=*/true); }).outcome ==
           control::TakeBack::Outcome::kTaken;
}

}  // namespace salus::client
