// The trace on disk: every event and decision, in limited space.
//
// There are two files of up to half the limit each. When `current` is full, it becomes `previous`. So the latest part is
// always there, and the whole trace as long as it fits. Replay needs the whole trace, whose first line is a header.
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
    /// Starts a new trace in this directory. If this or a later write fails, recording stops, which is logged once.
    TraceFile(std::string directory, Bytes limit, const std::string& header);
    ~TraceFile() { flush(); }

    /// Only stores the record. flush() turns it into text, when nobody waits for the service.
    void record(const Event& event, Instant at, std::span<const Action> actions);
    /// Adds a client's name for the reader of the trace.
    void name_client(ClientId client, std::uint32_t job, std::string_view name);
    /// Writes the stored records.
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
