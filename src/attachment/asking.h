// A client's need of memory in mid-iteration and its answer: one at a time, each with a number. The library asks from the
// thread that needs it and hears the answer in its helper; the simulator does both in virtual time (sim/clients.cpp).
#pragma once

#include <cstdint>

#include "wire/messages.h"

namespace salus::attachment {

class Asking {
public:
    enum class Outcome : std::uint8_t { kNone, kGiven, kDenied };

    wire::Need ask(std::uint64_t persistent, std::uint64_t ephemeral);
    /// False: the answer is late, to an earlier need, and means nothing any more.
    bool on(const wire::NeedAnswer& answer);
    Outcome outcome() const { return outcome_; }

private:
    std::uint64_t asked_ = 0;
    Outcome outcome_ = Outcome::kNone;
};

}  // namespace salus::attachment
