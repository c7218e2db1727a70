// Events and actions as lines of text, for traces on disk, golden tests and replays.
//
//   salus-trace 1 policy=srtf capacity=17179869184 lanes_max=0 ...      the engine's options
//   @1500000 want client=3                                              an event at 1.5 ms
//     grant client=3 lane=0                                             the engine's answer
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/engine.h"
#include "core/types.h"

namespace salus {

std::string format_header(const EngineOptions& options, std::string_view policy);
std::string format_event(const Event& event, Instant at);
std::string format_action(const Action& action);

/// How to find a policy of that name; nullptr if there is none.
using PolicyFinder = const Policy* (*)(std::string_view name);

struct Replay {
    std::size_t events = 0;
    std::size_t actions = 0;
    std::string difference;  ///< the first line where the engine now decides differently; empty: none
};

/// Observes the replay of a trace.
class ReplayObserver {
public:
    virtual ~ReplayObserver() = default;
    virtual void after_event(const Event&, Instant, std::span<const Action>, const Engine&) {}
    /// A line that starts with '#': a note of the service beside the events.
    virtual void note(std::string_view) {}
};

/// Runs the events of a trace through a new engine, up to the first difference. An error, with the line, if the text is not
/// a trace.
Result<Replay> replay_trace(std::string_view text, PolicyFinder find_policy, const Policy& fallback,
                            ReplayObserver* observer = nullptr);

}  // namespace salus
