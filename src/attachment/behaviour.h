// Finds a client's class from what it does: forward passes with pauses in which it waits are answers to somebody; everything
// else is batch. In doubt batch. Pure.
//
// Note [Who waits for an answer]
// A server, a notebook or a REPL calls its model, then does nothing until somebody asks again. A program that works through
// a queue calls it again at once, or fetches the next data, or computes in between. Generating text is hundreds of calls
// with hardly a pause, then a pause: only pauses of kPauseLeast and more are looked at, and what is between two of them is
// one request. A program that trains is batch, and so is the validation between its epochs. A server that is never idle
// looks like a program with a queue. It stays interactive for kPatience, then becomes batch.
#pragma once

#include <cstdint>

#include "base/client_class.h"
#include "base/time.h"

namespace salus::attachment {

class Behaviour {
public:
    static constexpr Duration kPauseLeast = milliseconds(5);
    static constexpr Duration kPatience = seconds(10);
    static constexpr Duration kTrainedLately = seconds(30);

    /// The time between two calls, in which no thread was in a call.
    struct Pause {
        Duration length;
        Duration cpu;          ///< processor time of the process in it
        bool fetched = false;  ///< data was fetched in it
        bool slept = true;     ///< else the thread only had to wait for a processor
    };

    /// An iteration that trained something has ended.
    void trained(Instant now);
    /// A forward pass has ended, and no more. `before`: the pause before it began; of length 0 if there was none.
    void answered(const Pause& before, Instant now);

    ClientClass found() const { return found_; }

private:
    static constexpr unsigned kLooksAt = 8;  ///< the last pauses
    static constexpr unsigned kNeeds = 3;    ///< so many pauses before it is judged

    void judge(Instant now);

    ClientClass found_;
    ClassReason last_work_ = ClassReason::kUnknown;  ///< what it did in the last pause in which it did not wait
    std::uint32_t waits_ = 0;                        ///< of the last pauses: 1 for one in which it waited, the latest lowest
    unsigned pauses_ = 0;                            ///< at most kLooksAt
    Instant waited_at_{};                            ///< when it last waited
    Instant trained_at_{-1};                         ///< negative: never
};

}  // namespace salus::attachment
