#pragma once

#include <optional>

namespace salus::os {

/// The Unix time of this local time; nothing: there is no such day or time.
std::optional<double> unix_time_of(int year, int month, int day, int hour, int minute);

/// What a clock on the wall says at this Unix time, in seconds since midnight.
double local_time_of_day_s(double unix_s);

}  // namespace salus::os
