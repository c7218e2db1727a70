// Time, as the machine keeps it.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace salus::os {

/// CLOCK_MONOTONIC: the same clock in every process of the machine.
Instant now();
/// The same, in the form used on control pages.
std::uint64_t now_ns();
/// Seconds since 1970.
double unix_time_s();

/// Local time by ISO 8601, such as "2026-11-18T12:03:44.123+01:00".
std::string local_time();

/// A signal that is handled ends it early.
void sleep_for(Duration time);
/// No signal ends it early.
void sleep_until(Instant when);

}  // namespace salus::os
