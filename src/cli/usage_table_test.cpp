#include "cli/usage_table.h"

#include <stdlib.h>
#include <time.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

using history::Usage;

std::string name_of(unsigned uid) { return uid == 7 ? "ada" : "ben\x1b[2J"; }

const std::vector<Usage> kUsage = {{7, "python train.py", 3, 1500, {7384, 36000}, seconds(8000)},
                                   {7, "python test.py", 1, 10, {2, 0.5}, seconds(3)},
                                   {8, "./serve", 1, 0, {0, 0}, seconds(1)}};

TEST(UsageTable, HasALineForEachUserAndCommand) {
    EXPECT_EQ(format_usage(kUsage, name_of),
              "USER     JOBS  ITERATIONS  DEVICE TIME  MEMORY TIME    TOOK  COMMAND\n"
              "ada         4        1510       2h 03m   10.0 GiB h  2h 13m  (all)\n"
              "            3        1500       2h 03m   10.0 GiB h  2h 13m  python train.py\n"
              "            1          10        2.0 s  0.500 GiB s   3.0 s  python test.py\n"
              "ben?[2J     1           0        0.0 s      0 GiB s   1.0 s  (all)\n"
              "            1           0        0.0 s      0 GiB s   1.0 s  ./serve\n");
    EXPECT_EQ(format_usage({}, name_of), "no jobs have ended\n");
}

TEST(UsageTable, JsonKeysEndInTheirUnits) {
    const auto document = nlohmann::json::parse(usage_json(kUsage, 12, name_of));
    EXPECT_EQ(document["schema_version"], 1);
    EXPECT_EQ(document["since_unix_s"], 12);
    ASSERT_EQ(document["users"].size(), 2u);
    const auto& ada = document["users"][0];
    EXPECT_EQ(ada["uid"], 7);
    EXPECT_EQ(ada["user"], "ada");
    EXPECT_EQ(ada["jobs"], 4);
    EXPECT_EQ(ada["iterations"], 1510);
    EXPECT_EQ(ada["device_s"], 7386);
    EXPECT_EQ(ada["memory_time_gib_s"], 36000.5);
    EXPECT_DOUBLE_EQ(ada["elapsed_s"].get<double>(), 8003);
    EXPECT_EQ(ada["commands"][1]["command"], "python test.py");
    EXPECT_EQ(ada["commands"][1]["device_s"], 2);
}

TEST(UsageTable, SinceIsATimeAgoOrADate) {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    constexpr double kNow = 1'800'000'000;
    EXPECT_EQ(parse_since("90s", kNow), kNow - 90);
    EXPECT_EQ(parse_since("30m", kNow), kNow - 1800);
    EXPECT_EQ(parse_since("1.5h", kNow), kNow - 5400);
    EXPECT_EQ(parse_since("7d", kNow), kNow - 7 * 86400);
    EXPECT_EQ(parse_since("2w", kNow), kNow - 14 * 86400);
    EXPECT_EQ(parse_since("999999d", kNow), 0);
    EXPECT_EQ(parse_since("2026-11-18", kNow), 1'794'960'000);
    EXPECT_EQ(parse_since("2026-11-18 09:30", kNow), 1'794'960'000 + 34'200);
    EXPECT_EQ(parse_since("2026-11-18T09:30", kNow), 1'794'960'000 + 34'200);
    for (const char* bad : {"", "d", "-1d", "7", "yesterday", "2026-13-01", "2026-06-31", "2026-11-18 25:00", "2026-11-18x",
                            "2026-11-18 09:30x", "nand", "1969-12-31"})
        EXPECT_EQ(parse_since(bad, kNow), std::nullopt) << bad;
}

TEST(UsageTable, ASpanOfTimeHasAUnit) {
    EXPECT_EQ(parse_span_s("90s"), 90);
    EXPECT_EQ(parse_span_s(" 1.5h "), 5400);
    EXPECT_EQ(parse_span_s("60"), std::nullopt);
    EXPECT_EQ(parse_span_s("-1s"), std::nullopt);
    EXPECT_EQ(parse_span_s("s"), std::nullopt);
    EXPECT_EQ(parse_span_s(""), std::nullopt);
}

}  // namespace
}  // namespace salus::cli
