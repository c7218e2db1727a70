// What the service asks of a client between its own calls, and what the client has to answer. No I/O: whoever drives it says
// and does what `on` returns, and says what `answer` makes of the outcome. The library does so in its helper thread, the
// simulator in that of a simulated client (sim/clients.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "wire/control_word.h"
#include "wire/messages.h"

namespace salus::attachment {

/// Things to do.
namespace request {

/// Take over the pieces of memory that came along: they are the lane's from the first'th on.
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
/// See the device's work end, then acknowledge in the word.
struct Drain {};
struct PageOut {};
struct PageIn {};
/// The client cannot do what it is asked, and leaves the service.
struct GiveUp {};

}  // namespace request

using Request = std::variant<std::monostate, request::TakePieces, request::MapLane, request::UnmapLane, request::Drain,
                             request::PageOut, request::PageIn, request::GiveUp>;

class Requests {
public:
    struct Step {
        std::optional<wire::Message> say;  ///< at once
        Request todo;
    };
    /// How the client is at the moment, and stays until PageOut is answered.
    struct State {
        control::Word word;
        bool parked = false;  ///< a thread waits to begin
        bool stays = false;   ///< its memory is never paged out
    };
    /// What a message asks for. Messages that are not about lanes, a revocation or paging ask for nothing.
    Step on(const wire::Message& message, const State& state);

    /// What to say when it is done, or could not be; nothing if nobody waits to hear of it.
    static std::optional<wire::Message> answer(const Request& done, bool ok);

    /// The service is gone, and the lane was left.
    void forget_lane() { lane_.reset(); }

private:
    std::optional<std::uint32_t> lane_;  ///< whose pieces it has
};

}  // namespace salus::attachment
