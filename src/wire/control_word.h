// The control word: who may run, in one 64-bit word that client and service change by compare-and-swap only.
//
// These transition functions are pure. attachment/turn_steps.cpp and shell/actions.cpp apply them to the word;
// client/turns.cpp waits. control_word_model_test.cpp checks the whole protocol over all interleavings.
//
//                 grant                begin                leave (the last thread)
//   kFree+want ----------> kGranted ----------> kRunning(n) ------------------------> kBoundary
//     ^   ^                                      ^                                     |    |
//     |   |                                      | begin                 settle        |    |
//     |   |                                      +---------- kIdle <------------------+    |
//     |   |   take_back (drained)                              |                            |
//     |   +----------------------------------------------------+                            |
//     |   |   acknowledge          take_back (not drained)     |                            |
//     |   +------------ kRevoked <-----------------------------+                            |
//     |                                                        settle, asked to yield       |
//     +-------------------------------------------------------------------------------------+
//
// Who makes which step:   client threads: begin, leave, settle    helper: acknowledge    service: grant, take_back
//
// Note [Nobody misses a wake-up]
// A thread that has to wait first sets `want`, then waits on that same word. So it sleeps only while the word still says
// that it waits. Two kinds of steps change such a word: the service's grant, which always wakes the client's threads, and
// steps of the client itself, which return `wake`. A step that the service must hear of returns `notify`; a socket keeps the
// notification until the service reads it.
#pragma once

#include <cstdint>
#include <optional>

namespace salus::control {

enum class State : std::uint8_t {
    kFree,      ///< no grant
    kGranted,   ///< a grant that no thread has taken up yet; at least one iteration follows
    kRunning,   ///< `inside` threads are inside an iteration
    kBoundary,  ///< the last thread has left the iteration and tidies up: evacuates, learns
    kIdle,      ///< the grant is kept; the lane is clean
    kRevoked,   ///< taken back while idle; the helper must still wait for the device's work to end
};

/// The fields of the word.
struct Word {
    State state = State::kFree;
    bool yield = false;        ///< the service wants the grant back at the boundary
    bool want = false;         ///< a thread waits for the right to begin
    bool kept = false;         ///< kGranted only: the lane could not be cleared; the grant must not be taken back
    bool drained = false;      ///< kIdle only: no device work is in flight; the service needs no helper to take the grant
    std::uint16_t inside = 0;  ///< kRunning only: threads inside an iteration
    std::uint32_t epoch = 0;   ///< counts grants

    constexpr bool operator==(const Word&) const = default;
    constexpr bool holds() const { return state != State::kFree && state != State::kRevoked; }
};

/// State, flags and count are in the lower 32 bits, because a futex waits on 32 bits.
constexpr std::uint64_t pack(const Word& w) {
    return static_cast<std::uint64_t>(w.state) | std::uint64_t{w.yield} << 3 | std::uint64_t{w.want} << 4 |
           std::uint64_t{w.kept} << 5 | std::uint64_t{w.drained} << 6 | std::uint64_t{w.inside} << 8 |
           std::uint64_t{w.epoch} << 32;
}
/// Accepts any value, because a client can write any. Unknown states read as kFree.
constexpr Word unpack(std::uint64_t packed) {
    const auto state = static_cast<std::uint8_t>(packed & 7);
    return {state <= static_cast<std::uint8_t>(State::kRevoked) ? static_cast<State>(state) : State::kFree,
            (packed >> 3 & 1) != 0,
            (packed >> 4 & 1) != 0,
            (packed >> 5 & 1) != 0,
            (packed >> 6 & 1) != 0,
            static_cast<std::uint16_t>(packed >> 8),
            static_cast<std::uint32_t>(packed >> 32)};
}

// ---------------------------------------------------------------------------------------------------- client threads

struct Begin {
    Word next;
    bool entered = false;  ///< the thread is inside an iteration; else it waits until the word changes
    bool notify = false;   ///< tell the service that this client wants to run
};

/// `insist`: join an iteration in progress even if the service wants the grant back. For a thread that has waited very long:
/// the thread inside may be waiting for it.
constexpr Begin begin(Word w, bool insist = false) {
    switch (w.state) {
        case State::kIdle:
        case State::kGranted:
            w.state = State::kRunning;
            w.kept = w.drained = false;
            w.inside = 1;
            return {w, true, false};
        case State::kRunning:
            if ((w.yield && !insist) || w.inside == UINT16_MAX) break;
            ++w.inside;
            return {w, true, false};
        case State::kFree:
            if (w.want) return {w, false, false};
            w.want = true;
            return {w, false, true};
        case State::kBoundary:
        case State::kRevoked: break;
    }
    w.want = true;
    return {w, false, false};
}

/// The turn is wanted back, and this thread will want the next one: the word says so before the turn ends. What begin()
/// would do, but where begin() would enter, or would have to notify, nothing changes: the thread calls begin() later anyway.
constexpr Word wish(Word w) {
    const bool goes_back = (w.state == State::kRunning || w.state == State::kBoundary) && w.yield;
    w.want = w.want || goes_back;
    return w;
}

struct Leave {
    Word next;
    bool last = false;  ///< this is a boundary: the caller tidies up and then settles
};

/// Nothing if no thread is inside, which is a misuse by us or by the caller.
constexpr std::optional<Leave> leave(Word w) {
    if (w.state != State::kRunning || w.inside == 0) return std::nullopt;
    if (--w.inside > 0) return Leave{w, false};
    w.state = State::kBoundary;
    return Leave{w, true};
}

struct Settle {
    Word next;
    bool wake = false;    ///< threads of this client wait and may go on
    bool notify = false;  ///< the grant is back
};

/// REQUIRES: kBoundary; and drained if the word says yield.
/// `lane_clean` is false when the lane could not be cleared: of live blocks, or of work that cannot be waited for. Then the
/// client keeps the grant, even if the word says yield.
constexpr Settle settle(Word w, bool drained, bool lane_clean) {
    if (w.yield && lane_clean) {
        w.state = State::kFree;
        w.yield = false;
        return {w, false, true};
    }
    const bool wake = w.want;
    w.want = false;
    w.state = lane_clean ? State::kIdle : State::kGranted;
    w.drained = lane_clean && drained;
    w.kept = !lane_clean;
    return {w, wake, false};
}

// ------------------------------------------------------------------------------------------------------------ helper

/// The device's work has ended; the caller tells the service. Nothing if the word is not revoked.
/// REQUIRES: the helper saw the word revoked before it drained. Otherwise a late message could acknowledge the next
/// revocation.
constexpr std::optional<Word> acknowledge(Word w) {
    if (w.state != State::kRevoked) return std::nullopt;
    w.state = State::kFree;
    return w;
}

// ----------------------------------------------------------------------------------------------------------- service

/// Nothing if the client does not wait for a grant. The caller wakes its threads.
constexpr std::optional<Word> grant(Word w) {
    if (w.state != State::kFree || !w.want) return std::nullopt;
    w.want = false;
    w.state = State::kGranted;
    ++w.epoch;
    return w;
}

struct TakeBack {
    Word next;
    enum class Outcome : std::uint8_t {
        kTaken,        ///< the grant is back
        kAtBoundary,   ///< the client gives it back at its next boundary, and notifies
        kHelperDrains  ///< the helper gives it back once the device is done, and notifies
    } outcome{};
};

/// `may_retract`: also take back a grant that no thread has taken up yet (the client is stopped).
constexpr TakeBack take_back(Word w, bool may_retract) {
    using enum TakeBack::Outcome;
    switch (w.state) {
        case State::kFree: return {w, kTaken};
        case State::kRevoked: return {w, kHelperDrains};
        case State::kIdle: {
            const bool drained = w.drained;
            w.state = drained ? State::kFree : State::kRevoked;
            w.drained = false;
            return {w, drained ? kTaken : kHelperDrains};
        }
        case State::kGranted:
            if (may_retract && !w.kept) {
                w.state = State::kFree;
                w.yield = false;
                w.want = true;  // the thread that it was meant for still waits
                return {w, kTaken};
            }
            break;
        case State::kRunning:
        case State::kBoundary: break;
    }
    w.yield = true;
    return {w, kAtBoundary};
}

}  // namespace salus::control
