// The machine's monotonic clock.
#pragma once

#include <cerrno>
#include <ctime>

#include "base/time.h"

namespace salus::job {

inline Instant now() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return {t.tv_sec * 1'000'000'000 + t.tv_nsec};
}

inline void sleep_until(Instant when) {
    const timespec t{when.ns / 1'000'000'000, when.ns % 1'000'000'000};
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {}
}

}  // namespace salus::job
