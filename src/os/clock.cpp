#include "os/clock.h"

#include <time.h>

#include <cerrno>

#include "os/timespec.h"

namespace salus::os {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t read_clock_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}

}  // namespace

Instant now() { return {read_clock_ns(CLOCK_MONOTONIC)}; }
std::uint64_t now_ns() { return static_cast<std::uint64_t>(read_clock_ns(CLOCK_MONOTONIC)); }
double unix_time_s() { return static_cast<double>(read_clock_ns(CLOCK_REALTIME)) * 1e-9; }

TimeOfDay local_time_of_day() {
    const std::int64_t ns = read_clock_ns(CLOCK_REALTIME);
    const auto second = static_cast<time_t>(ns / kNsPerSecond);
    tm local{};
    ::localtime_r(&second, &local);
    return {local.tm_hour, local.tm_min, local.tm_sec, static_cast<int>(ns % kNsPerSecond / 1'000'000)};
}

void sleep_for(Duration time) {
    const timespec span = timespec_of(time);
    if (time.ns > 0) ::nanosleep(&span, nullptr);
}

void sleep_until(Instant when) {
    const timespec moment = timespec_of({when.ns});
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {}
}

}  // namespace salus::os
