// When interactive clients answered requests, and when the gates of the others were closed for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/types.h"

namespace salus::sim {

struct Answering {
    struct Request {
        std::size_t job = 0;
        Instant start;  ///< from here on, at least one was in flight
        Instant end;
    };
    struct Closing {
        Instant start;
        Instant end;
    };
    std::vector<Request> requests;
    std::vector<Closing> gates;

    /// The same with times from `start` on.
    Answering since(Instant start) const;
};

/// Gathers them from what the engine hears and does.
class AnsweringRecorder {
public:
    /// The job now has so many requests in flight. A job that has left has none.
    void requests(std::size_t job, std::uint32_t in_flight, Instant now);
    void acted(std::span<const Action> actions, Instant now);

    /// What has not ended yet lasts until `now`.
    Answering until(Instant now) const;

private:
    Answering ended_;
    std::map<std::size_t, Instant> in_flight_since_;  ///< of jobs that have any
    Instant closed_since_ = kNever;
};

}  // namespace salus::sim
