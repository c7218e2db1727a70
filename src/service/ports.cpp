#include "service/ports.h"

#include "base/text.h"
#include "os/clock.h"
#include "os/process.h"
#include "policies/table.h"
#include "service/log.h"
#include "service/roster.h"

namespace salus::service {
namespace {

/// A turn is so long that a switch costs a hundredth of it. A GPU runs out of work before a switch and needs new work after
/// it, which takes the time of some launches. Clients measure that time, and the shell adapts.
constexpr Duration kMinTurnOnHost = milliseconds(5);
constexpr Duration kMinTurnOnGpu = milliseconds(100);  // until it is measured
/// What a process on a GPU takes before it attaches, until one has been seen. It grows as kernels are loaded.
constexpr Bytes kContextGuess = mebibytes(600);
/// How long after an event the trace is written.
constexpr Duration kFlushAfter = milliseconds(10);

Bytes capacity_from(const Options& options, const device::LaneMemory& memory) {
    const Bytes there = memory.capacity();
    if (options.capacity == Bytes{}) return there;
    // The host's memory may be overcommitted, a GPU's may not.
    if (memory.traits().is_host || options.capacity <= there) return options.capacity;
    log(LogLevel::kWarning, "the GPU has only {}; using that as the capacity instead of {}", format_bytes(there),
        format_bytes(options.capacity));
    return there;
}

}  // namespace

shell::Settings settings_from(const Options& options, const device::LaneMemory& memory) {
    shell::Settings settings;
    EngineOptions& engine = settings.engine;
    engine.capacity = capacity_from(options, memory);
    engine.lanes_max = options.lanes;
    engine.overlap = options.overlap.value_or(!memory.traits().is_host);
    engine.paging = options.paging;
    engine.share_by_user = options.share_by_user;
    engine.user_jobs_max = options.user_limits.others.jobs;
    engine.user_memory_max = options.user_limits.others.memory;
    engine.min_turn = options.min_turn.value_or(memory.traits().asynchronous ? kMinTurnOnGpu : kMinTurnOnHost);
    // Until it is measured: to a file and back; between a GPU and memory that is not pinned.
    engine.page_bytes_per_s = memory.traits().is_host ? 1e9 : 7e9;
    settings.pages = memory.traits().is_host || options.page_gpu;
    settings.page_directory = options.page_directory;
    engine.review_every = milliseconds(100);
    engine.rehome_after = options.rehome_after;
    engine.page_idle_after = options.page_idle_after;
    if (memory.traits().has_contexts) engine.context = kContextGuess;
    settings.policy = find_policy(options.policy);
    settings.fallback = &fallback_policy();
    settings.min_turn_is_fixed = options.min_turn.has_value();
    return settings;
}

Instant MonotonicClock::now() const { return os::now(); }

bool KernelProcesses::is_alive(const shell::ProcessId& process) const {
    return os::start_time_of(process.pid) == process.start_time && !os::has_ended(process.pid);
}
bool KernelProcesses::is_stopped(int pid) const { return os::is_stopped(pid); }
Duration KernelProcesses::cpu_time_of(int pid) const { return os::cpu_time_of(pid).value_or(Duration{}); }
bool KernelProcesses::is_busy(int pid) const { return os::is_busy(pid); }

StateJournal::StateJournal(const std::string& directory, const std::string& device, Bytes trace_limit,
                           const std::string& trace_header)
    : trace_(directory, trace_limit, trace_header), roster_path_(directory + "/roster"), device_(device) {}

void StateJournal::record(const Event& event, Instant at, std::span<const Action> actions) {
    trace_.record(event, at, actions);
}
void StateJournal::name_client(ClientId client, std::uint32_t job, std::string_view name) {
    trace_.name_client(client, job, name);
}
std::vector<shell::RosterEntry> StateJournal::read_roster() { return service::read_roster(roster_path_, device_); }
bool StateJournal::write_roster(const std::vector<shell::RosterEntry>& entries) {
    return service::write_roster(roster_path_, device_, entries);
}

bool StateJournal::logs(LogLevel level) const { return service::logs(level); }
void StateJournal::log(LogLevel level, std::string_view line) { write_log_line(level, line); }
void StateJournal::log_of_peer(LogLevel level, std::string_view line) { service::log_of_peer(level, "{}", line); }

void StateJournal::quiet(Instant now) {
    if (!trace_.has_pending()) {
        flush_at_ = kNever;
        return;
    }
    if (flush_at_ == kNever) flush_at_ = now + kFlushAfter;
    if (now < flush_at_ && !is_full()) return;
    trace_.flush();
    flush_at_ = kNever;
}

}  // namespace salus::service
