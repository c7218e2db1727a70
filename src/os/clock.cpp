#include "os/clock.h"

#include <time.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

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

std::string local_time() {
    const std::int64_t ns = read_clock_ns(CLOCK_REALTIME);
    const auto second = static_cast<time_t>(ns / kNsPerSecond);
    tm local{};
    ::localtime_r(&second, &local);
    const long east = local.tm_gmtoff / 60;
    std::array<char, 48> text{};
    const std::size_t date = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &local);
    std::snprintf(text.data() + date, text.size() - date, ".%03d%c%02ld:%02ld",
                  static_cast<int>(ns % kNsPerSecond / 1'000'000), east < 0 ? '-' : '+', std::labs(east) / 60,
                  std::labs(east) % 60);
    return text.data();
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
