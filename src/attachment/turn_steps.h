// A client's half of a turn: what its threads and its helper do to the control word, one step a call. Nobody waits in here,
// and there is no clock: the library (client/turns.h) waits between steps, the simulator (sim/clients.cpp) lets virtual time
// pass.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/control_page.h"
#include "wire/control_word.h"

namespace salus::attachment {

class TurnSteps {
public:
    explicit TurnSteps(ControlPage& page) : page_(page) {}

    enum class Entry : std::uint8_t {
        kJoined,   ///< into an iteration that another thread had begun, or with the grant kept from the last one
        kNewTurn,  ///< with a grant that has just come
    };
    struct Begun {
        std::optional<Entry> entry;  ///< nothing: the thread has to wait until the word is another than `seen`
        control::Word seen;
        bool notify = false;  ///< tell the service that this client wants to run
    };
    /// `insist`: see control::begin.
    Begun begin(std::uint64_t now_ns, bool insist = false);
    /// As begin(), but a thread that would have to wait leaves no wish behind. The clock is read only if it gets in.
    std::optional<Entry> try_begin(std::uint64_t (*now_ns)());

    struct Left {
        bool was_inside = false;
        bool last = false;  ///< this is a boundary: tidy up, then settle
    };
    Left leave();
    void count(std::uint64_t iterations) { page_.iterations.fetch_add(iterations, std::memory_order_release); }
    /// The iteration has ended at `now_ns`; what it counts is seen from now on.
    void finish(std::uint64_t now_ns, std::uint64_t iterations);

    struct Settled {
        bool must_drain = false;  ///< the grant is wanted back: see the device's work end, then settle again
        bool wake = false;        ///< threads of this client wait and may go on
        bool notify = false;      ///< the grant is back
    };
    /// `clean`: nothing alive is left in the lane.
    Settled settle(bool clean, bool drained);

    /// The helper saw the word revoked, then the device's work end. True: tell the service.
    bool acknowledge();
    /// The service is gone: the grant is given up as if it had asked for it. True when it is back.
    bool withdraw();

    control::Word word() const { return control::unpack(page_.word.load(std::memory_order_acquire)); }
    ControlPage& page() const { return page_; }

private:
    Entry entered(const control::Word& before, std::uint64_t now_ns);

    ControlPage& page_;
};

}  // namespace salus::attachment
