#include "os/clock.h"

#include <time.h>

#include <cerrno>

namespace salus::os {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t read_clock_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}

timespec timespec_of(std::int64_t ns) { return {ns / kNsPerSecond, ns % kNsPerSecond}; }

}  // namespace

Instant now() { return {read_clock_ns(CLOCK_MONOTONIC)}; }
std::uint64_t now_ns() { return static_cast<std::uint64_t>(read_clock_ns(CLOCK_MONOTONIC)); }
double unix_time_s() { return static_cast<double>(read_clock_ns(CLOCK_REALTIME)) * 1e-9; }

void sleep_for(Duration time) {
    const timespec span = timespec_of(time.ns);
    if (time.ns > 0) ::nanosleep(&span, nullptr);
}

void sleep_until(Instant when) {
    const timespec moment = timespec_of(when.ns);
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {}
}

}  // namespace salus::os
