// Our durations as the kernel takes them.
#pragma once

#include <time.h>

#include "base/time.h"

namespace salus::os {

inline timespec timespec_of(Duration time) { return {time.ns / 1'000'000'000, time.ns % 1'000'000'000}; }

}  // namespace salus::os
