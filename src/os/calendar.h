#pragma once

#include <optional>

namespace salus::os {

/// The Unix time of this local time; nothing: there is no such day or time.
std::optional<double> unix_time_of(int year, int month, int day, int hour, int minute);

}  // namespace salus::os
