// The log: lines for people, on standard error, such as
// "2026-11-18T12:03:44.123+01:00 info    job 3 (resnet50) is run by pid 4711". For systemd's journal, which knows the time,
// the severity comes first: "<6>job 3 (resnet50) is run by pid 4711".
//
// Only so many lines of each severity are written in a minute; the others are counted. So a flood fills no disk, and hides
// no warning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/log_level.h"
#include "base/time.h"

namespace salus::service {

std::string_view name_of(LogLevel level);
std::optional<LogLevel> log_level_from(std::string_view name);
void set_log_level(LogLevel level);
bool logs(LogLevel level);
void write_log_line(LogLevel level, std::string_view line);
/// What comes before a line in the journal; empty if standard error goes elsewhere.
std::string journal_prefix(LogLevel level);
/// If standard error is the file at this path, two such files keep the latest `size_max` and more; else does nothing.
void bound_log(const std::string& path, Bytes size_max);
inline constexpr Bytes kLogMax = mebibytes(4);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (logs(level)) write_log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

/// For lines that any peer can cause: fewer are written.
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
