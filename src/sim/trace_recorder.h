// Records the trace of a run: every event and the engine's actions (core/trace.h). If the service was restarted, the trace
// is that of the last service.
#pragma once

#include <string>
#include <utility>

#include "core/trace.h"
#include "sim/simulation.h"

namespace salus::sim {

class TraceRecorder : public Observer {
public:
    void after_event(const Event& event, Instant now, std::span<const Action> actions, const Simulation& s) override {
        if (std::exchange(service_, s.services()) != s.services())
            text_ = format_header(s.options().engine, s.first_policy().info.name) + "\n";
        text_ += format_event(event, now) + "\n";
        for (const Action& action : actions) text_ += format_action(action) + "\n";
    }

    const std::string& text() const { return text_; }

private:
    std::string text_;
    std::size_t service_ = 0;
};

}  // namespace salus::sim
