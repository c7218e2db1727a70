// The trace on disk: every event and decision, within a bound.
//
// Two files, each up to half the limit: when `current` is full it becomes `previous`. So the latest part is always there;
// the whole, from the first event on, as long as it fits. Replay needs the whole: then the first line kept is a header.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "core/trace.h"
#include "os/descriptor.h"

namespace salus::service {

class TraceFile {
public:
    /// Starts a new trace in this directory. If that fails, or a write fails later, recording stops and says so once.
    TraceFile(std::string directory, Bytes limit, const std::string& header);
    ~TraceFile() { flush(); }

    /// Only remembers: turning it into text can wait until nobody else does.
    void record(const Event& event, Instant at, std::span<const Action> actions);
    /// A name for a client, for whoever reads the trace.
    void name_client(ClientId client, std::uint32_t job, std::string_view name);
    /// Writes what was remembered.
    void flush();
    std::size_t pending() const { return pending_.size(); }
    bool has_pending() const { return !pending_.empty(); }

    bool recording() const { return static_cast<bool>(file_); }
    const std::string& current_path() const { return current_; }
    const std::string& previous_path() const { return previous_; }
    Bytes written() const { return written_; }

private:
    struct Record {
        Event event;
        Instant at;
        std::vector<Action> actions;
    };

    bool open();
    void write(std::string_view text);

    std::string current_;
    std::string previous_;
    Bytes limit_;
    os::Descriptor file_;
    std::vector<std::variant<Record, std::string>> pending_;
    Bytes written_;  ///< to the current file
};

}  // namespace salus::service
