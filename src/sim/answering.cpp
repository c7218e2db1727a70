#include "sim/answering.h"

#include <utility>

namespace salus::sim {

Answering Answering::since(Instant start) const {
    const auto shifted = [&](Instant t) { return Instant{(t - start).ns}; };
    Answering out;
    for (const Request& r : requests) out.requests.push_back({r.job, shifted(r.start), shifted(r.end)});
    for (const Closing& c : gates) out.gates.push_back({shifted(c.start), shifted(c.end)});
    return out;
}

void AnsweringRecorder::requests(std::size_t job, std::uint32_t in_flight, Instant now) {
    if (in_flight > 0) {
        in_flight_since_.try_emplace(job, now);
    } else if (const auto begun = in_flight_since_.extract(job)) {
        ended_.requests.push_back({job, begun.mapped(), now});
    }
}

void AnsweringRecorder::acted(std::span<const Action> actions, Instant now) {
    for (const Action& action : actions) {
        if (std::holds_alternative<action::CloseGates>(action)) closed_since_ = now;
        if (!std::holds_alternative<action::OpenGates>(action) || closed_since_ == kNever) continue;
        ended_.gates.push_back({std::exchange(closed_since_, kNever), now});
    }
}

Answering AnsweringRecorder::until(Instant now) const {
    Answering out = ended_;
    for (const auto& [job, start] : in_flight_since_) {
        if (start < now) out.requests.push_back({job, start, now});
    }
    if (closed_since_ < now) out.gates.push_back({closed_since_, now});
    return out;
}

}  // namespace salus::sim
