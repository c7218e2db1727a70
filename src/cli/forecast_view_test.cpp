#include "cli/forecast_view.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

using sim::Forecast;
using sim::Outlook;

Forecast two_policies() {
    Forecast forecast;
    forecast.policy = "fair";
    forecast.policies = {{"fifo", {}, {}}, {"fair", seconds(45), seconds(50)}};
    forecast.jobs = {
        {1, "vae", UserId{1000}, JobState::kRunning, Outlook::kStated, {seconds(20), seconds(40)}},
        {2, "gpt", kNoUser, JobState::kWaiting, Outlook::kPast, {std::nullopt, seconds(50)}},
        {3, "serve", kNoUser, JobState::kIdle, Outlook::kRunsOn, {std::nullopt, std::nullopt}},
        {4, "new", kNoUser, JobState::kStarting, Outlook::kNew, {std::nullopt, std::nullopt}},
        {5, "night", kNoUser, JobState::kPaused, Outlook::kAside, {std::nullopt, std::nullopt}},
    };
    return forecast;
}

TEST(ForecastView, IsATable) {
    EXPECT_EQ(format_forecast(two_policies()),
              "Time until the end of each job, under each policy:\n"
              "\n"
              "JOB  NAME   LENGTH       fifo  fair (now)\n"
              "  1  vae    stated     20.0 s      40.0 s\n"
              "  2  gpt    as before       -      50.0 s\n"
              "  3  serve  not known       -           -\n"
              "  4  new    not known       -           -\n"
              "  5  night  paused          -           -\n"
              "     mean                   -      45.0 s\n"
              "\n"
              "A job whose length is not known is taken to run on.\n"
              "A job that has run only its first iterations is left out: they say little.\n"
              "A job that takes no turns now is left out.\n"
              "-: others keep the job from ending.\n");
    EXPECT_EQ(format_forecast({}), "no jobs\n");
    Forecast plain = two_policies();
    plain.jobs.resize(1);
    EXPECT_EQ(format_forecast(plain).find("left out"), std::string::npos);
    EXPECT_EQ(format_forecast(plain).find("-:"), std::string::npos);
}

// The web page and users' scripts read this.
TEST(ForecastView, IsThisJson) {
    Forecast forecast = two_policies();
    forecast.jobs.resize(3);
    EXPECT_EQ(forecast_json(forecast, 1'700'000'000).dump(),
              R"({"at_unix_s":1700000000,"jobs":[)"
              R"({"job":1,"left_s":{"fair":40.0,"fifo":20.0},"length":"stated","name":"vae","state":"running","uid":1000},)"
              R"({"job":2,"left_s":{"fair":50.0},"length":"history","name":"gpt","state":"waiting"},)"
              R"({"job":3,"left_s":{},"length":"runs-on","name":"serve","state":"idle"}],)"
              R"("policies":[{"policy":"fifo"},{"last_left_s":50.0,"mean_left_s":45.0,"policy":"fair"}],)"
              R"("policy":"fair","schema_version":1})");
}

}  // namespace
}  // namespace salus::cli
