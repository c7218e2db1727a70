// A client's requests for more memory in mid-iteration, and their answers: one at a time, each with a number. In the
// library, the thread that needs memory asks and the helper thread receives the answer. The simulator does both in virtual
// time (sim/clients.cpp).
#pragma once

#include <cstdint>

#include "wire/messages.h"

namespace salus::attachment {

class Asking {
public:
    enum class Outcome : std::uint8_t { kNone, kGiven, kDenied };

    wire::Need ask(std::uint64_t persistent, std::uint64_t ephemeral);
    /// False: the answer is to an earlier need, and is ignored.
    bool on(const wire::NeedAnswer& answer);
    Outcome outcome() const { return outcome_; }

private:
    std::uint64_t asked_ = 0;
    Outcome outcome_ = Outcome::kNone;
};

}  // namespace salus::attachment
