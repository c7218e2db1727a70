// Time, as the machine keeps it.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace salus::os {

/// CLOCK_MONOTONIC: the same clock in every process of the machine.
Instant now();
/// The same, in the form used on control pages.
std::uint64_t now_ns();
/// Seconds since 1970.
double unix_time_s();

struct TimeOfDay {
    int hour = 0;
    int minute = 0;
    int second = 0;
    int millisecond = 0;
};
/// Local time, as the user's clock shows it.
TimeOfDay local_time_of_day();

/// A signal that is handled ends it early.
void sleep_for(Duration time);
/// No signal ends it early.
void sleep_until(Instant when);

}  // namespace salus::os
