#include "service/log.h"

#include <unistd.h>

#include <array>

#include "base/characters.h"
#include "os/clock.h"
#include "service/log_limit.h"

namespace salus::service {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warning", "info", "debug"};
LogLevel level_now = LogLevel::kInfo;
LogLimit peers_limit(/*lines=*/20, minutes(1));

}  // namespace

std::optional<LogLevel> log_level_from(std::string_view name) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (kNames[i] == name) return static_cast<LogLevel>(i);
    }
    return std::nullopt;
}

void set_log_level(LogLevel level) { level_now = level; }
bool logs(LogLevel level) { return level <= level_now; }

void write_log_line(LogLevel level, std::string_view text) {
    const os::TimeOfDay now = os::local_time_of_day();
    const std::string line = fmt::format("{:02}:{:02}:{:02}.{:03} {:<7} {}\n", now.hour, now.minute, now.second,
                                         now.millisecond, kNames[static_cast<std::size_t>(level)], printable(text));
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

bool admits_line_of_peer() { return peers_limit.admits(os::now()); }
Instant held_back_due() { return peers_limit.due(); }

void tell_held_back() {
    const std::uint64_t lines = peers_limit.take();
    if (lines > 0) log(LogLevel::kWarning, "{} more lines about connections were suppressed", lines);
}

}  // namespace salus::service
