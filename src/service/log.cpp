#include "service/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/characters.h"
#include "os/clock.h"
#include "os/file.h"
#include "service/log_limit.h"

namespace salus::service {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warning", "info", "debug"};
constexpr std::array<int, 4> kSyslog = {3, 4, 6, 7};
/// No person reads more. Whoever asks for debug lines wants all.
constexpr Duration kLogSpan = minutes(1);
constexpr unsigned kLinesMax = 600;
constexpr unsigned kLinesOfPeersMax = 20;

constexpr std::size_t index_of(LogLevel level) { return static_cast<std::size_t>(level); }

LogLevel level_now = LogLevel::kInfo;
LogLimit peers_limit(kLinesOfPeersMax, kLogSpan);
std::array<LogLimit, 3> severity_limits = {LogLimit(kLinesMax, kLogSpan), LogLimit(kLinesMax, kLogSpan),
                                           LogLimit(kLinesMax, kLogSpan)};

struct LogFile {
    std::string path;  ///< empty: it is nobody's to bound
    Bytes size_max;
    Bytes size;
} log_file;

void rotate_log() {
    log_file.size = {};  // if it fails, the same file takes as much again
    const os::Descriptor next = os::open_log(log_file.path, log_file.size_max.count);
    if (!next) return;
    os::put_at(next.get(), STDOUT_FILENO);
    os::put_at(next.get(), STDERR_FILENO);
}

void write_now(LogLevel level, std::string_view text) {
    const std::string prefix = journal_prefix(level);
    const std::string line = prefix.empty()
                                 ? fmt::format("{} {:<7} {}\n", os::local_time(), kNames[index_of(level)], printable(text))
                                 : fmt::format("{}{}\n", prefix, printable(text));
    if (!log_file.path.empty() && log_file.size >= log_file.size_max) rotate_log();
    log_file.size += Bytes{static_cast<std::int64_t>(line.size())};
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace

std::string_view name_of(LogLevel level) { return kNames[index_of(level)]; }

std::optional<LogLevel> log_level_from(std::string_view name) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (kNames[i] == name) return static_cast<LogLevel>(i);
    }
    return std::nullopt;
}

void set_log_level(LogLevel level) { level_now = level; }
bool logs(LogLevel level) { return level <= level_now; }

std::string journal_prefix(LogLevel level) {
    static const bool to_journal = os::goes_to_journal(STDERR_FILENO);
    return to_journal ? fmt::format("<{}>", kSyslog[index_of(level)]) : "";
}

void bound_log(const std::string& path, Bytes size_max) {
    struct stat status {};
    if (!os::is_file_at(STDERR_FILENO, path) || ::fstat(STDERR_FILENO, &status) != 0) return;
    log_file = {path, size_max, {status.st_size}};
}

void write_log_line(LogLevel level, std::string_view text) {
    if (level == LogLevel::kDebug || severity_limits[index_of(level)].admits(os::now())) write_now(level, text);
}

bool admits_line_of_peer() { return peers_limit.admits(os::now()); }

Instant held_back_due() {
    Instant due = peers_limit.due();
    for (const LogLimit& limit : severity_limits) due = std::min(due, limit.due());
    return due;
}

void tell_held_back() {
    if (const std::uint64_t lines = peers_limit.take(); lines > 0)
        write_now(LogLevel::kWarning, fmt::format("{} more lines about connections were suppressed", lines));
    for (std::size_t i = 0; i < severity_limits.size(); ++i) {
        if (const std::uint64_t lines = severity_limits[i].take(); lines > 0)
            write_now(LogLevel::kWarning, fmt::format("{} more lines of severity {} were suppressed", lines, kNames[i]));
    }
}

}  // namespace salus::service
