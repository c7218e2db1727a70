// The log: lines for people, on standard error, such as "12:03:44.123 info    job 3 (resnet50) is run by pid 4711".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log_level.h"
#include "base/time.h"

namespace salus::service {

std::optional<LogLevel> log_level_from(std::string_view name);
void set_log_level(LogLevel level);
bool logs(LogLevel level);
void write_log_line(LogLevel level, std::string_view line);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (logs(level)) write_log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

/// For lines that any peer can cause. A few are written each minute, the others are counted.
bool admits_line_of_peer();
template <typename... Args>
void log_of_peer(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (logs(level) && admits_line_of_peer()) write_log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
/// When to call tell_held_back() next.
Instant held_back_due();
/// Logs how many lines were not written.
void tell_held_back();

}  // namespace salus::service
