// Keeps a trace of a run: every event and what the engine made of it (core/trace.h). If the service was started anew in
// between, it is that of the last one.
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
