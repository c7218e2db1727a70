// Begin, end, and the waiting in between. The steps themselves are in attachment/turn_steps.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "attachment/turn_steps.h"

namespace salus::client {

/// What a thread that waits in begin() wants to know.
struct Waiting {
    std::function<bool()> give_up;  ///< nobody will grant anything
    /// The thread enters an iteration that goes on, although the grant is wanted back. Asked every millisecond or so.
    std::function<bool()> insists = [] { return false; };
};

class Turns {
public:
    /// `notify` tells the service to look at the word.
    Turns(ControlPage& page, std::function<void()> notify) : turn_(page), notify_(std::move(notify)) {}

    enum class Entry : std::uint8_t {
        kJoined,   ///< into an iteration that another thread had begun, or with the grant kept from the last one
        kNewTurn,  ///< with a grant that has just come
        kGivenUp,  ///< `give_up` said so
        kWaiting,  ///< not yet: time is up, or a signal came. The wish stands
    };
    static constexpr std::uint64_t kForEver = ~std::uint64_t{0};
    /// Without waiting: nothing if the thread has to, and then nothing has changed.
    std::optional<Entry> try_begin();
    /// Waits until this thread may be inside an iteration, or has to give up.
    /// `since_ns` is when this thread began to wait, if it has come back in between; 0: it has not.
    Entry begin(const Waiting& waiting, std::uint64_t at_most_ns = kForEver, std::uint64_t since_ns = 0);

    /// Before a turn is given back that is wanted again at once: whoever decides on the next turn is to know. begin() must
    /// follow. REQUIRES: the turn is wanted back.
    void wish();

    /// This thread leaves. If it was the last, `tidy` is called: the boundary; it says whether the lane is clean.
    /// `drain` waits for the device, and is called only if the grant goes back and `asynchronous`.
    /// False if no thread was inside.
    struct Count {
        std::uint64_t iterations = 1;
        bool own = false;  ///< of this thread alone; else of all that are inside, and counted when the last one leaves
    };
    bool end(bool asynchronous, Count count, const std::function<bool()>& tidy, const std::function<void()>& drain);

    /// The helper's part in a revocation, after a drain.
    void acknowledge();
    /// The service is gone: nobody will ask for the grant, so it is given up as if it had. True when it is back.
    bool withdraw();

    control::Word word() const { return turn_.word(); }
    std::uint64_t waited_ns() const { return waited_ns_.load(std::memory_order_relaxed); }
    std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

private:
    Entry entered(attachment::TurnSteps::Entry entry);
    /// False if a signal ended it.
    bool wait(const control::Word& seen, std::uint64_t at_most_ns) const;
    void wake() const;

    attachment::TurnSteps turn_;
    std::function<void()> notify_;
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> turns_{0};
};

}  // namespace salus::client
