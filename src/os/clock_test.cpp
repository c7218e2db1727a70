#include "os/clock.h"

#include <time.h>

#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Clock, GoesForwardAndWaitsAsLongAsTold) {
    const Instant before = now();
    sleep_for(milliseconds(3));
    sleep_for({-1});
    EXPECT_GE(now() - before, milliseconds(3));
    const Instant until = now() + milliseconds(3);
    sleep_until(until);
    EXPECT_GE(now(), until);
    EXPECT_GE(now_ns(), static_cast<std::uint64_t>(until.ns));
    EXPECT_GT(unix_time_s(), 1.7e9);
}

TEST(Clock, TellsTheLocalTimeWithItsZone) {
    const char* zone = std::getenv("TZ");
    const std::optional<std::string> before = zone ? std::optional<std::string>(zone) : std::nullopt;
    for (const auto& [name, offset] :
         {std::pair("XXX-05:30", "+05:30"), std::pair("XXX3", "-03:00"), std::pair("UTC", "+00:00")}) {
        ::setenv("TZ", name, 1);
        ::tzset();
        const auto s = static_cast<time_t>(unix_time_s());
        tm local{};
        ::localtime_r(&s, &local);
        char date[16];
        std::strftime(date, sizeof date, "%Y-%m-%dT", &local);
        const std::string time = local_time();
        EXPECT_EQ(time.size(), std::string_view("2026-11-18T12:03:44.123+01:00").size()) << time;
        EXPECT_TRUE(time.ends_with(offset)) << time;
        EXPECT_TRUE(time.starts_with(date) || local.tm_hour == 23) << time;
    }
    if (before) ::setenv("TZ", before->c_str(), 1);
    else ::unsetenv("TZ");
    ::tzset();
}

}  // namespace
}  // namespace salus::os
