#include "attachment/requests.h"

namespace salus::attachment {

Requests::Step Requests::on(const wire::Message& message, const State& state) {
    if (const auto* pieces = std::get_if<wire::LanePieces>(&message)) {
        if (pieces->first == 0) lane_ = pieces->lane;
        if (lane_ != pieces->lane) return {{}, request::GiveUp{}};
        return {{}, request::TakePieces{pieces->first}};
    }
    if (const auto* map = std::get_if<wire::MapLane>(&message)) {
        if (lane_ != map->lane) return {{}, request::GiveUp{}};
        return {{}, request::MapLane{map->lane, map->version, map->size}};
    }
    if (const auto* unmap = std::get_if<wire::UnmapLane>(&message)) {
        if (lane_ != unmap->lane) return {wire::Acknowledge{unmap->lane, unmap->version}, {}};
        forget_lane();
        return {{}, request::UnmapLane{unmap->lane, unmap->version}};
    }
    if (std::holds_alternative<wire::Revoke>(message)) {
        // A late message must not acknowledge the next revocation.
        if (state.word.state == control::State::kRevoked) return {{}, request::Drain{}};
    }
    if (std::holds_alternative<wire::PageOut>(message)) {
        const bool waits = state.parked && state.word.want;
        const bool idles = state.may_go_idle && !state.word.want;
        const bool nobody_runs = state.word.state == control::State::kFree && (waits || idles);
        if (state.stays || !nobody_runs) {
            const auto because = static_cast<std::uint16_t>(state.because);
            return {wire::Unpageable{static_cast<std::uint16_t>(state.stays ? 1 : 0), because}, {}};
        }
        return {{}, request::PageOut{.idle = !waits}};
    }
    if (std::holds_alternative<wire::PageIn>(message)) return {{}, request::PageIn{}};
    return {};
}

std::optional<wire::Message> Requests::answer(const Request& done, const Outcome& outcome) {
    if (const auto* map = std::get_if<request::MapLane>(&done)) return wire::Acknowledge{map->lane, map->version};
    if (const auto* unmap = std::get_if<request::UnmapLane>(&done)) return wire::Acknowledge{unmap->lane, unmap->version};
    if (std::holds_alternative<request::PageIn>(done)) return wire::PagedIn{outcome.moved, outcome.ns};
    if (!std::holds_alternative<request::PageOut>(done)) return std::nullopt;
    if (outcome.ok) return wire::PagedOut{outcome.left, outcome.moved, outcome.ns};
    return wire::Unpageable{static_cast<std::uint16_t>(outcome.for_good ? 1 : 0),
                            static_cast<std::uint16_t>(outcome.because)};
}

}  // namespace salus::attachment
