// The shell's ports on a real machine: clock, processes and journal. SharedDevice implements connections and memory.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "service/options.h"
#include "service/trace_file.h"
#include "shell/ports.h"
#include "shell/shell.h"

namespace salus::service {

class MonotonicClock final : public shell::Clock {
public:
    Instant now() const override;
};

class KernelProcesses final : public shell::Processes {
public:
    bool is_alive(const shell::ProcessId& process) const override;
    bool is_stopped(int pid) const override;
    Duration cpu_time_of(int pid) const override;
    bool is_busy(int pid) const override;
};

/// The trace and roster of one device, in its directory, and the log.
class StateJournal final : public shell::Journal {
public:
    /// `device`: its identity.
    StateJournal(const std::string& directory, const std::string& device, Bytes trace_limit,
                 const std::string& trace_header);

    void record(const Event& event, Instant at, std::span<const Action> actions) override;
    void name_client(ClientId client, std::uint32_t job, std::string_view name) override;
    std::vector<shell::RosterEntry> read_roster() override;
    bool write_roster(const std::vector<shell::RosterEntry>& entries) override;
    bool logs(LogLevel level) const override;
    void log(LogLevel level, std::string_view line) override;
    void log_of_peer(LogLevel level, std::string_view line) override;

    /// Called when there is nothing else to do. The trace is written only then, because a client that was just woken may
    /// need this processor.
    void quiet(Instant now);
    /// When to call quiet() next.
    Instant due() const { return flush_at_; }
    /// Too much is waiting to be written.
    bool is_full() const { return trace_.pending() > kPendingMax; }
    TraceFile& trace() { return trace_; }
    const TraceFile& trace() const { return trace_; }

private:
    static constexpr std::size_t kPendingMax = 4096;
    TraceFile trace_;
    std::string roster_path_;
    std::string device_;
    Instant flush_at_ = kNever;
};

/// The shell's settings for these options and this device.
shell::Settings settings_from(const Options& options, const device::LaneMemory& memory);

}  // namespace salus::service
