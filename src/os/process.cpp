#include "os/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.h"
#include "os/file.h"

namespace salus::os {
namespace {

/// The fields of /proc/PID/stat from the third on; the second is a name in parentheses, which may contain anything. None if
/// there is no such process. A thread is PID/task/TID.
std::vector<std::string> stat_of(const std::string& process) {
    const Result<std::string> text = read_file("/proc/" + process + "/stat");
    const std::size_t name_end = text ? text.value().rfind(") ") : std::string::npos;
    if (name_end == std::string::npos) return {};
    std::vector<std::string> fields;
    for (const std::string_view field : split(std::string_view(text.value()).substr(name_end + 2), ' '))
        fields.emplace_back(field);
    return fields;
}

/// Empty if there is no such process.
std::string state_of(const std::string& process) {
    const std::vector<std::string> fields = stat_of(process);
    return fields.empty() ? "" : fields[0];
}
std::string state_of(int pid) { return state_of(std::to_string(pid)); }

}  // namespace

Descriptor open_pidfd(int pid) { return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

std::optional<std::uint64_t> start_time_of(int pid) {
    constexpr std::size_t kStartTime = 22 - 3;
    const std::vector<std::string> fields = stat_of(std::to_string(pid));
    const auto ticks = fields.size() > kStartTime ? parse_integer(fields[kStartTime]) : std::nullopt;
    return ticks ? std::optional(static_cast<std::uint64_t>(*ticks)) : std::nullopt;
}

std::optional<unsigned> user_of(int pid) {
    const Result<std::string> text = read_file("/proc/" + std::to_string(pid) + "/status");
    if (!text) return std::nullopt;
    for (const std::string_view line : split(text.value(), '\n')) {
        if (!line.starts_with("Uid:")) continue;
        const auto ids = split(line, '\t');  // real, effective, ...
        const auto uid = ids.size() > 2 ? parse_integer(ids[2]) : std::nullopt;
        return uid ? std::optional(static_cast<unsigned>(*uid)) : std::nullopt;
    }
    return std::nullopt;
}

std::optional<Duration> cpu_time_of(int pid) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
    return Duration{static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

Duration cpu_time() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return Duration{static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

std::uint64_t bytes_read_from_storage() {
    constexpr std::uint64_t kUnit = 512;  // of ru_inblock, whatever the file system has
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_inblock) * kUnit;
}

bool is_stopped(int pid) {
    const std::string state = state_of(pid);
    return state == "T" || state == "t";
}

bool is_busy(int pid) {
    const std::string tasks = std::to_string(pid) + "/task";
    std::error_code gone;
    for (std::filesystem::directory_iterator task("/proc/" + tasks, gone), end; !gone && task != end; task.increment(gone)) {
        const std::string state = state_of(tasks + "/" + task->path().filename().string());
        if (state == "R" || state == "D") return true;
    }
    return false;
}

bool has_ended(int pid) {
    const std::string state = state_of(pid);
    return state.empty() || state == "Z" || state == "X";
}

int parent_of(int pid) {
    const std::vector<std::string> fields = stat_of(std::to_string(pid));
    return fields.size() > 1 ? static_cast<int>(parse_integer(fields[1]).value_or(0)) : 0;
}

bool was_started_with(int pid, const std::string& variable) {
    const Result<std::string> environment = read_file("/proc/" + std::to_string(pid) + "/environ");
    if (!environment) return false;
    const std::vector<std::string_view> entries = split(environment.value(), '\0');
    return std::find(entries.begin(), entries.end(), variable) != entries.end();
}

ChildProcess child_above(int pid, int parent) {
    for (int above = parent_of(pid); above > 0; pid = above, above = parent_of(pid)) {
        if (above != parent) continue;
        ChildProcess child{pid, open_pidfd(pid)};
        // It may have ended meanwhile, and its pid may have been reused.
        return parent_of(pid) == parent ? std::move(child) : ChildProcess{};
    }
    return {};
}

namespace {

/// The children of `parent`, as (pid, pidfd).
std::vector<ChildProcess> children_of(int parent) {
    std::vector<ChildProcess> children;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const auto pid = parse_integer(entry.path().filename().string());
        if (!pid || parent_of(static_cast<int>(*pid)) != parent) continue;
        ChildProcess child{static_cast<int>(*pid), open_pidfd(static_cast<int>(*pid))};
        if (child.pidfd && parent_of(child.pid) == parent) children.push_back(std::move(child));
    }
    return children;
}

/// A parent before its children: once it is stopped, it starts no more of them.
void signal_tree(int pid, const Descriptor& pidfd, int signal) {
    if (!pidfd) return;
    send_signal(pidfd.get(), signal);
    for (const ChildProcess& child : children_of(pid)) signal_tree(child.pid, child.pidfd, signal);
}

}  // namespace

void stop_tree(int pid) { signal_tree(pid, open_pidfd(pid), SIGSTOP); }
void continue_tree(int pid) { signal_tree(pid, open_pidfd(pid), SIGCONT); }

bool send_signal(int pidfd, int signal, int value) {
    siginfo_t info{};
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value.sival_int = value;
    return ::syscall(SYS_pidfd_send_signal, pidfd, signal, value != 0 ? &info : nullptr, 0) == 0;
}

}  // namespace salus::os
