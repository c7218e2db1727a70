#include "cli/live_turns.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

using nlohmann::json;

constexpr Instant ms(std::int64_t n) { return {n * 1'000'000}; }
constexpr Instant kEpoch{};

Status status_with(std::uint32_t client, std::uint32_t job, JobState state, LaneId lane) {
    Status status;
    JobStatus& row = status.jobs.emplace_back();
    row.client = ClientId{client};
    row.job = job;
    row.state = state;
    row.activity.emplace().lane = lane;
    return status;
}

const char* const kTwoJobs =
    "salus-trace 1 policy=fair capacity=1\n"
    "# client=0 job=7 name=a\n"
    "@1000000 attach client=0 user=0\n"
    "# client=1 job=8 name=b lane=5 job=99\n"
    "@2000000 attach client=1 user=0\n"
    "@3000000 want client=0\n"
    "  grant client=0 lane=4 handover=0\n"
    "@5000000 want client=1\n"
    "  yield client=0\n"
    "@9000000 boundary client=0 iterations=3\n"
    "  grant client=1 lane=4 handover=1\n";

TEST(LiveTurns, TellsWhoRanAndWhoStillRuns) {
    LiveTurns turns;
    turns.read(kTwoJobs, ms(20));
    const json news = turns.news(kEpoch, ms(20));
    EXPECT_EQ(news["turns"], json::parse("[[4,7,3.0,9.0],[4,8,9.0,null]]"));
    EXPECT_EQ(news["now"], 20.0);
    EXPECT_EQ(news["all"], true) << "the first news replace what a page may still show";
}

TEST(LiveTurns, TellsEachTurnOnce) {
    LiveTurns turns;
    std::string trace = kTwoJobs;
    turns.read(trace, ms(20));
    turns.news(kEpoch, ms(20));
    trace += "@30000000 boundary client=1 iterations=4\n  grant client=0 lane=4 handover=1\n";
    EXPECT_EQ(turns.read(trace, ms(31)), 76u) << "only the new lines count";
    const json news = turns.news(kEpoch, ms(31));
    EXPECT_EQ(news["turns"], json::parse("[[4,8,9.0,30.0],[4,7,30.0,null]]"));
    EXPECT_EQ(news["all"], false);
    EXPECT_EQ(turns.everything(kEpoch, ms(31))["turns"], json::parse("[[4,7,3.0,9.0],[4,8,9.0,30.0],[4,7,30.0,null]]"));
}

TEST(LiveTurns, AnIdleHolderGoesOnWithoutAGrant) {
    LiveTurns turns;
    turns.read(
        "@1000000 want client=0\n  grant client=0 lane=1\n@2000000 idle client=0 iterations=1\n@6000000 want client=0\n"
        "@8000000 boundary client=0 iterations=2\n@9000000 want client=0\n",
        ms(10));
    EXPECT_EQ(turns.everything(kEpoch, ms(10))["turns"], json::parse("[[1,0,1.0,2.0],[1,0,6.0,8.0]]"));
}

TEST(LiveTurns, RequestsAndGatesAreShownWhileTheyLast) {
    LiveTurns turns;
    turns.read(
        "@1000000 requests client=2 in_flight=1 begun=1\n  close-gates\n@2000000 requests client=2 in_flight=2 begun=2\n"
        "@4000000 requests client=2 in_flight=0 begun=2\n  open-gates\n@5000000 requests client=2 in_flight=1 begun=3\n"
        "  close-gates\n",
        ms(6));
    const json shown = turns.everything(kEpoch, ms(6));
    EXPECT_EQ(shown["requests"], json::parse("[[-1,0,1.0,4.0],[-1,0,5.0,null]]"));
    EXPECT_EQ(shown["gates"], json::parse("[[0,0,1.0,4.0],[0,0,5.0,null]]"));
}

TEST(LiveTurns, TheStatusSaysWhatWasBeforeTheLinesThatAreRead) {
    LiveTurns turns;
    turns.look_at(status_with(3, 9, JobState::kRunning, LaneId{2}), ms(4));
    turns.look_at(status_with(3, 9, JobState::kRunning, LaneId{2}), ms(5));
    turns.read("@6000000 boundary client=3 iterations=1\n", ms(7));
    EXPECT_EQ(turns.everything(kEpoch, ms(7))["turns"], json::parse("[[2,9,4.0,6.0]]"));
}

TEST(LiveTurns, AGapInWhatWasReadEndsWhatRanBeforeIt) {
    LiveTurns turns;
    turns.read("@1000000 want client=0\n  grant client=0 lane=1\n@2000000 want client=1\n", ms(3));
    EXPECT_TRUE(turns.joins("  grant client=0 lane=1\n@2000000 want client=1\n@90000000 want client=5\n"));
    EXPECT_FALSE(turns.joins("  yield client=0\n@80000000 want client=1\n"));
    turns.read("  yield client=0\n@80000000 want client=4\n  grant client=4 lane=1\n", ms(90));
    EXPECT_EQ(turns.everything(kEpoch, ms(90))["turns"], json::parse("[[1,0,1.0,2.0],[1,0,80.0,null]]"));
}

TEST(LiveTurns, AMinuteIsKeptAndJobsThatDieEnd) {
    LiveTurns turns;
    turns.read("@1000000 want client=0\n  grant client=0 lane=1\n@2000000 die client=0\n", ms(3));
    EXPECT_EQ(turns.everything(kEpoch, ms(3))["turns"].size(), 1u);
    turns.read("@70000000000 timer\n", ms(70'000));
    EXPECT_TRUE(turns.everything(kEpoch, ms(70'000))["turns"].empty());
}

TEST(LiveTurns, RubbishIsPassedOver) {
    LiveTurns turns;
    turns.read("@ \n@x want client=1\n  \n#\n@5 want\n@6 requests client=-1\n@7 grant client=99999999999\n  grant\n", ms(1));
    EXPECT_TRUE(turns.everything(kEpoch, ms(1))["turns"].empty());
}

}  // namespace
}  // namespace salus::cli
