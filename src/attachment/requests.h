// The service's requests to a client, and the client's answers. No I/O: the caller sends and does what on() returns, then
// sends the message that answer() returns for the outcome. The library does so in its helper thread, the simulator in the
// simulated helper of a client (sim/clients.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/stay_reason.h"
#include "wire/control_word.h"
#include "wire/messages.h"

namespace salus::attachment {

/// Things to do.
namespace request {

/// Take the pieces of memory that came with the message. They are the lane's pieces from number `first` on.
struct TakePieces {
    std::uint32_t first = 0;
};
struct MapLane {
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
    std::uint64_t size = 0;
};
struct UnmapLane {
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
};
/// Wait until the device's work has ended, then acknowledge in the word.
struct Drain {};
struct PageOut {
    bool idle = false;  ///< no thread waits to begin: others may touch the memory meanwhile
};
struct PageIn {};
/// The client cannot do what it is asked, and leaves the service.
struct GiveUp {};

}  // namespace request

using Request = std::variant<std::monostate, request::TakePieces, request::MapLane, request::UnmapLane, request::Drain,
                             request::PageOut, request::PageIn, request::GiveUp>;

/// What came of a request.
struct Outcome {
    bool ok = true;
    std::uint64_t left = 0;                     ///< of paging out: private memory that is still on the device
    std::uint64_t moved = 0;                    ///< of paging: bytes, ...
    std::uint64_t ns = 0;                       ///< ... and the time that this took; 0: not measured
    bool for_good = true;                       ///< if it is not ok
    StayReason because = StayReason::kUnknown;  ///< the same
};

class Requests {
public:
    struct Step {
        std::optional<wire::Message> say;  ///< at once
        Request todo;
    };
    /// The client's present state. It must not change until PageOut is answered.
    struct State {
        control::Word word;
        bool parked = false;                        ///< a thread waits to begin
        bool stays = false;                         ///< its memory is never paged out ...
        StayReason because = StayReason::kUnknown;  ///< ... why
        bool may_go_idle = false;                   ///< it may be paged out while it wants nothing
    };
    /// What a message asks for: nothing, unless it is about a lane, a revocation or paging.
    Step on(const wire::Message& message, const State& state);

    /// The message to send once the request is done or has failed; nothing if the service expects none.
    static std::optional<wire::Message> answer(const Request& done, const Outcome& outcome);

    /// The service is gone, and the client has left its lane.
    void forget_lane() { lane_.reset(); }

private:
    std::optional<std::uint32_t> lane_;  ///< the lane whose pieces the client has
};

}  // namespace salus::attachment
