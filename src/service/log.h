// Lines that a person can read, on standard error: "12:03:44.123 info  job 3 (resnet50) attached, pid 4711".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace salus::service {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

std::optional<LogLevel> log_level_from(std::string_view name);
void set_log_level(LogLevel level);
bool logs(LogLevel level);
void write_log_line(LogLevel level, std::string_view line);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (logs(level)) write_log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace salus::service
