#include "os/process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace salus::os {
namespace {

/// The fields of /proc/PID/stat from the third on: a name in parentheses, which may hold anything, comes before.
std::optional<std::istringstream> stat_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return std::nullopt;
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return std::nullopt;
    return std::istringstream(text.substr(name_end + 1));
}

}  // namespace

Descriptor open_pidfd(int pid) { return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

std::optional<std::uint64_t> start_time_of(int pid) {
    auto fields = stat_of(pid);
    if (!fields) return std::nullopt;
    std::string field;
    for (int i = 3; i <= 22; ++i) *fields >> field;
    try {
        return std::stoull(field);
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

std::optional<Duration> cpu_time_of(int pid) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
    return Duration{static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

bool is_stopped(int pid) {
    auto fields = stat_of(pid);
    std::string state;
    return fields && (*fields >> state) && (state == "T" || state == "t");
}

bool has_ended(int pid) {
    auto fields = stat_of(pid);
    std::string state;
    return !fields || !(*fields >> state) || state == "Z" || state == "X";
}

int parent_of(int pid) {
    auto fields = stat_of(pid);
    std::string state;
    int parent = 0;
    return fields && (*fields >> state >> parent) ? parent : 0;
}

ChildProcess child_above(int pid, int parent) {
    for (int above = parent_of(pid); above > 0; pid = above, above = parent_of(pid)) {
        if (above != parent) continue;
        ChildProcess child{pid, open_pidfd(pid)};
        // It may have ended meanwhile, and its number be another's.
        return parent_of(pid) == parent ? std::move(child) : ChildProcess{};
    }
    return {};
}

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
