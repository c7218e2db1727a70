#include "attachment/turn_steps.h"

namespace salus::attachment {
namespace {

/// Applies `step` to the word, and again if the word has changed meanwhile. Returns the step's result, which has `.next`.
template <typename Step>
auto change(ControlPage& page, const Step& step) {
    std::uint64_t seen = page.word.load(std::memory_order_acquire);
    for (;;) {
        const auto made = step(control::unpack(seen));
        const std::uint64_t next = control::pack(made.next);
        if (next == seen ||
            page.word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
            return made;
        }
    }
}

/// For what only one thread at a time writes: a locked instruction would cost more than the rest of a boundary's books.
void add(std::atomic<std::uint64_t>& sum, std::uint64_t more) {
    sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

TurnSteps::Entry TurnSteps::entered(const control::Word& before, std::uint64_t now_ns) {
    if (before.state == control::State::kRunning) return Entry::kJoined;
    page_.begun_ns.store(now_ns, std::memory_order_release);
    return before.state == control::State::kIdle || before.kept ? Entry::kJoined : Entry::kNewTurn;
}

TurnSteps::Begun TurnSteps::begin(std::uint64_t now_ns, bool insist) {
    control::Word before;
    const control::Begin step = change(page_, [&](const control::Word& word) {
        before = word;
        return control::begin(word, insist);
    });
    if (!step.entered) return {std::nullopt, step.next, step.notify};
    return {entered(before, now_ns), step.next, false};
}

std::optional<TurnSteps::Entry> TurnSteps::try_begin(std::uint64_t (*now_ns)()) {
    std::uint64_t seen = page_.word.load(std::memory_order_acquire);
    for (;;) {
        const control::Word before = control::unpack(seen);
        const control::Begin step = control::begin(before);
        if (!step.entered) return std::nullopt;
        const std::uint64_t next = control::pack(step.next);
        if (page_.word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire))
            return entered(before, now_ns());
    }
}

void TurnSteps::wish() {
    struct Step {
        control::Word next;
    };
    change(page_, [](const control::Word& word) { return Step{control::wish(word)}; });
}

TurnSteps::Left TurnSteps::leave() {
    struct Step {
        control::Word next;
        Left left;
    };
    return change(page_,
                  [](const control::Word& word) {
                      const auto step = control::leave(word);
                      return step ? Step{step->next, {true, step->last}} : Step{word, {}};
                  })
        .left;
}

void TurnSteps::finish(std::uint64_t now_ns, std::uint64_t iterations) {
    const std::uint64_t time_ns = now_ns - page_.begun_ns.load(std::memory_order_relaxed);
    add(page_.busy_ns, time_ns);
    page_.ended_ns.store(now_ns, std::memory_order_relaxed);
    iteration_ns_ += time_ns;
    note_time(iterations);
    count(iterations);
}

/// An iteration may consist of several parts, of which only the last one counts it.
void TurnSteps::note_time(std::uint64_t iterations) {
    if (iterations == 0) return;
    const Duration each{static_cast<std::int64_t>(iterations == 1 ? iteration_ns_ : iteration_ns_ / iterations)};
    const std::size_t place = Histogram::place_of(each, ControlPage::kIterationTimesLeast);
    add(page_.iterations_by_time[place], iterations);
    add(page_.iteration_times_ns, iteration_ns_);
    iteration_ns_ = 0;
}

void TurnSteps::device_finished(std::uint64_t now_ns) {
    const std::uint64_t ended = page_.ended_ns.load(std::memory_order_relaxed);
    if (now_ns <= ended) return;
    add(page_.busy_ns, now_ns - ended);
    page_.ended_ns.store(now_ns, std::memory_order_relaxed);
    iteration_ns_ += now_ns - ended;  // the iteration is counted already, so this goes to the next one
}

TurnSteps::Settled TurnSteps::settle(bool clean, bool drained) {
    struct Step {
        control::Word next;
        Settled settled;
    };
    return change(page_,
                  [&](const control::Word& word) {
                      if (word.yield && !drained) return Step{word, {.must_drain = true}};
                      const control::Settle step = control::settle(word, drained, clean);
                      return Step{step.next, {false, step.wake, step.notify}};
                  })
        .settled;
}

bool TurnSteps::acknowledge() {
    struct Step {
        control::Word next;
        bool done;
    };
    return change(page_,
                  [](const control::Word& word) {
                      const auto next = control::acknowledge(word);
                      return next ? Step{*next, true} : Step{word, false};
                  })
        .done;
}

bool TurnSteps::withdraw() {
    return change(page_, [](const control::Word& word) { return control::take_back(word, /*may_retract=*/true); }).outcome ==
           control::TakeBack::Outcome::kTaken;
}

}  // namespace salus::attachment
