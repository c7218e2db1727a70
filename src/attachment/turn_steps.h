// A client's half of a turn: what its threads and its helper do to the control word, one step per call. There is no waiting
// and no clock in here: the library (client/turns.h) waits between steps, the simulator (sim/clients.cpp) lets virtual time
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
        kJoined,   ///< another thread had begun the iteration, or the grant was kept from the last one
        kNewTurn,  ///< the grant is new
    };
    struct Begun {
        std::optional<Entry> entry;  ///< nothing: the thread has to wait until the word differs from `seen`
        control::Word seen;
        bool notify = false;  ///< tell the service that this client wants to run
    };
    /// `insist`: see control::begin.
    Begun begin(std::uint64_t now_ns, bool insist = false);
    /// As begin(), but leaves the word unchanged if the thread would have to wait. Reads the clock only if it enters.
    std::optional<Entry> try_begin(std::uint64_t (*now_ns)());

    /// See control::wish. begin() must follow.
    void wish();

    struct Left {
        bool was_inside = false;
        bool last = false;  ///< this is a boundary: tidy up, then settle
    };
    Left leave();
    void count(std::uint64_t iterations) { page_.iterations.fetch_add(iterations, std::memory_order_release); }
    /// The iteration ended at `now_ns`. Publishes its time and its count.
    void finish(std::uint64_t now_ns, std::uint64_t iterations);
    /// The device worked for the iteration that has ended until now: that time counts, too. REQUIRES: nobody is inside.
    void device_finished(std::uint64_t now_ns);

    struct Settled {
        bool must_drain = false;  ///< the service wants the grant back: wait for the device's work to end, then settle again
        bool wake = false;        ///< threads of this client wait and may go on
        bool notify = false;      ///< the grant is back
    };
    /// `clean`: as `lane_clean` of control::settle.
    Settled settle(bool clean, bool drained);

    /// The helper saw the word revoked, then waited until the device's work had ended. True: tell the service.
    bool acknowledge();
    /// The service is gone: gives up the grant as if the service had asked for it. True once the grant is given up.
    bool withdraw();

    control::Word word() const { return control::unpack(page_.word.load(std::memory_order_acquire)); }
    ControlPage& page() const { return page_; }

private:
    Entry entered(const control::Word& before, std::uint64_t now_ns);

    void note_time(std::uint64_t iterations);

    ControlPage& page_;
    /// Of the iteration that is not counted yet. One thread at a time: the last one inside, or the helper after it.
    std::uint64_t iteration_ns_ = 0;
};

}  // namespace salus::attachment
