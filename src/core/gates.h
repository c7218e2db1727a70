// When the gates of batch clients are closed.
//
// Note [When gates are closed]
// While a request is in flight: a client beside the others (Note [Beside], turns.cpp) has begun to answer somebody, and has
// not finished. Two limits keep the batch clients going, whatever requests do:
// - of any second, gates are closed at most kBudget. Beyond that the device's own time slicing decides. If requests are in
//   flight for longer than that, gates cannot serve them all, and the slowest are as slow as without: then kBudgetOfCrowd is
//   enough to pay for the rest.
// - they are closed at most kLongest at a time. A client that is stopped in mid-request looks like one that is slow.
// After a limit they stay open until another request begins. And they stay open if no batch client has anything on the
// device: none runs, and none has run for kStillBusy. (A program that fetches its loss after each step is between two
// iterations, and the device works for it.)
//
// A request that itself waits, for memory or for its lane, is not in flight: what it waits for may stand behind a gate. A
// client that answers by many short calls (a text, word by word) has one request to the gates: they stay closed for kHold
// after a call if the one before came as soon. After any other they stay closed for kFetch: the program fetches the result
// now, which takes the device some more work.
#pragma once

#include <algorithm>
#include <deque>

#include "base/time.h"

namespace salus {

/// For how long of the last second something was so.
class TimeLately {
public:
    static constexpr Duration kWindow = seconds(1);

    bool is_on() const { return since_ != kNever; }
    Instant since() const { return since_; }
    void turn_on(Instant now);
    void turn_off(Instant now);
    Duration sum(Instant now) const;
    Duration total(Instant now) const { return total_ + (is_on() ? now - since_ : Duration{}); }

private:
    friend class Saboteur;  // breaks it for the swarm's canaries: sim/saboteur.h

    struct Span {
        Instant from, to;
    };
    Instant since_ = kNever;
    std::deque<Span> spans_;  ///< that ended within the window
    Duration total_;
};

class Gates {
public:
    static constexpr Duration kWindow = TimeLately::kWindow;
    static constexpr Duration kBudget = milliseconds(250);
    static constexpr Duration kBudgetOfCrowd = milliseconds(100);
    static constexpr Duration kLongest = milliseconds(120);
    static constexpr Duration kHold = milliseconds(1);
    static constexpr Duration kFetch = microseconds(300);
    static constexpr Duration kStillBusy = seconds(1);
    static constexpr Duration kLeast = milliseconds(2);  ///< what must be left of the budget to close them

    bool are_closed() const { return closed_.is_on(); }
    /// Whether decide() has to be called: they are closed, or a request is in flight.
    bool are_asked() const { return wanted_ || are_closed() || in_flight_.is_on(); }
    /// When they are to be looked at again, at the latest.
    Instant deadline() const;
    Duration closed_lately(Instant now) const { return closed_.sum(now); }
    Duration closed_in_total(Instant now) const { return closed_.total(now); }
    /// Of any second, at the present rate of requests.
    Duration budget(Instant now) const { return in_flight_.sum(now) > kBudget ? kBudgetOfCrowd : kBudget; }

    /// Another request has begun.
    void request_begins() { wanted_ = true; }
    /// A request has just ended. `soon`: the client asks again soon.
    void request_ends(bool soon, Instant now) { hold_until_ = std::max(hold_until_, now + (soon ? kHold : kFetch)); }
    /// True: they were closed, or opened, by this. `in_flight`: any request is; `of_use`: the device works for a batch
    /// client.
    bool decide(bool in_flight, bool of_use, Instant now);

private:
    friend class Saboteur;  // breaks them for the swarm's canaries: sim/saboteur.h

    bool wanted_ = false;  ///< a request is in flight for which they have not been closed, and opened again by a limit
    TimeLately closed_, in_flight_;
    Instant closed_until_ = kNever;  ///< at the latest
    Instant hold_until_{};
    bool holds_ = false;  ///< closed for nobody but who may ask again
};

}  // namespace salus
