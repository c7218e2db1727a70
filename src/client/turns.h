// Begins and ends iterations, and waits where the steps of attachment/turn_steps.h have to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "attachment/turn_steps.h"

namespace salus::client {

/// What a thread that waits in begin() asks.
struct Waiting {
    std::function<bool()> give_up;  ///< true: no grant will come
    /// True: the thread joins an iteration in progress although the service wants the grant back. Asked about every
    /// millisecond.
    std::function<bool()> insists = [] { return false; };
};

class Turns {
public:
    /// `notify` tells the service to look at the word.
    Turns(ControlPage& page, std::function<void()> notify) : turn_(page), notify_(std::move(notify)) {}

    enum class Entry : std::uint8_t {
        kJoined,   ///< another thread had begun the iteration, or the grant was kept from the last one
        kNewTurn,  ///< the grant is new
        kGivenUp,  ///< `give_up` said so
        kWaiting,  ///< time is up, or a signal came. The request to run remains
    };
    static constexpr std::uint64_t kForEver = ~std::uint64_t{0};
    /// Does not wait. Nothing if the thread would have to; then nothing has changed.
    std::optional<Entry> try_begin();
    /// Waits until this thread has entered an iteration, or has to give up.
    /// `since_ns`: when this thread began to wait, if an earlier call returned kWaiting; else 0.
    Entry begin(const Waiting& waiting, std::uint64_t at_most_ns = kForEver, std::uint64_t since_ns = 0);

    /// The turn is wanted back, and this thread wants the next one: whoever decides on that is to know. begin() must follow.
    void wish() { turn_.wish(); }

    struct Count {
        std::uint64_t iterations = 1;
        bool own = false;  ///< this thread's alone; else shared by all threads inside, and counted when the last one leaves
    };
    /// This thread leaves. The last thread calls `tidy`, which is the boundary and says whether the lane is clean.
    /// `drain` waits for the device; it is called only if the service wants the grant back and `asynchronous`.
    /// False if no thread was inside.
    bool end(bool asynchronous, Count count, const std::function<bool()>& tidy, const std::function<void()>& drain);

    /// The helper's part in a revocation, after a drain. `device_worked`: that had to wait. Note [The device's time].
    void acknowledge(bool device_worked = false);
    /// The service is gone: gives up the grant as if the service had asked for it. True once the grant is given up.
    bool withdraw();

    control::Word word() const { return turn_.word(); }
    std::uint64_t waited_ns() const { return waited_ns_.load(std::memory_order_relaxed); }
    std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

private:
    Entry entered(attachment::TurnSteps::Entry entry);
    /// False if a signal ended the wait.
    bool wait(const control::Word& seen, std::uint64_t at_most_ns) const;
    void wake() const;

    attachment::TurnSteps turn_;
    std::function<void()> notify_;
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> turns_{0};
};

}  // namespace salus::client
