#include "cli/top_view.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/columns.h"

namespace salus::cli {
namespace {

JobStatus job_of(std::uint32_t id, const std::string& name, JobState state, std::uint64_t iterations) {
    Activity activity;
    activity.lane = LaneId{0};
    activity.iterations = iterations;
    activity.attained = activity.busy = milliseconds(10) * static_cast<std::int64_t>(iterations);
    activity.waited = seconds(10 * (id % 3));
    activity.persistent = mebibytes(64);
    activity.ephemeral = mebibytes(256);
    if (state == JobState::kWaiting) activity.wait = {WaitReason::kTurn, Wait::Behind{"vae", 1}};
    JobStatus job;
    job.job = id;
    job.client = ClientId{id};
    job.name = name;
    job.state = state;
    job.attached = seconds(10);
    job.activity = activity;
    return job;
}

Status status_with(std::uint32_t jobs) {
    Status status;
    ServiceStatus& service = status.service;
    service.uptime = seconds(60);
    service.device = "host";
    service.policy = "fair";
    service.capacity = gibibytes(4);
    service.reserved = gibibytes(1);
    service.lanes = {{LaneId{0}, mebibytes(256), mebibytes(256), UserId{}, ClientId{1}}};
    service.statistics.turns = 100;
    service.statistics.switches = 50;
    for (std::uint32_t i = 1; i <= jobs; ++i) {
        const bool first = i == 1;
        JobStatus job = job_of(i, first ? "vae" : "resnet" + std::to_string(i),
                               first ? JobState::kRunning : JobState::kWaiting, 100 * (i % 4));
        if (i % 2 == 0) {
            job.activity->length = {400, /*is_past=*/true};
            job.activity->left = seconds(10);
        }
        status.jobs.push_back(job);
    }
    return status;
}

/// As it would stand on the screen.
std::vector<std::string> text_of(const std::vector<Line>& lines, int width) {
    std::vector<std::string> out;
    for (const Line& line : lines) {
        std::string text;
        for (const Piece& piece : line) {
            EXPECT_GE(piece.column, width_of(text)) << "pieces overlap";
            text = pad(text, piece.column, Align::kLeft) + piece.text;
        }
        EXPECT_LE(width_of(text), width) << text;
        text.erase(text.find_last_not_of(' ') + 1);
        out.push_back(text);
    }
    return out;
}

std::vector<std::string> shown_on(const Status& status, TopOptions options) {
    Rates rates;
    rates.update(status);
    return text_of(top_lines(status, rates, options), options.width);
}

TEST(TopView, InEightyColumnsAJobTakesTwoLines) {
    const auto lines = shown_on(status_with(2), {.unicode = false});
    ASSERT_EQ(lines.size(), 24u);
    EXPECT_EQ(lines[0], "Salus   fair on host   up 60.0 s   2 jobs: 1 running, 1 waiting");
    EXPECT_EQ(lines[1], "memory  ########......................  25 %  1.0 GiB of 4.0 GiB reserved");
    EXPECT_EQ(lines[2], "lanes   0: 256 MiB vae (job 1)");
    EXPECT_EQ(lines[3], "turns   -/s   switches -/s, 50 so far   page-outs 0");
    EXPECT_EQ(lines[5], "JOB NAME     STATE     LANE  IT/S    LEFT SHARE        P        T  WAITED");
    EXPECT_EQ(lines[6], "  1 vae      running      0  10.0       -  10 % 64.0 MiB  256 MiB  10.0 s");
    EXPECT_EQ(lines[7], "    100 iterations");
    EXPECT_EQ(lines[8], "  2 resnet2  waiting      0  20.0  10.0 s  20 % 64.0 MiB  256 MiB  20.0 s");
    EXPECT_EQ(lines[9], "    #####..... 200/~400    waits for its turn, after vae (job 1)");
    EXPECT_EQ(lines[23], "q quit   sort by:  s share  i iterations  w waiting  j job");
}

TEST(TopView, OnAWideScreenItTakesOne) {
    const auto lines = shown_on(status_with(2), {.width = 150, .height = 40});
    ASSERT_EQ(lines.size(), 40u);
    EXPECT_EQ(lines[5],
              "JOB NAME     STATE     LANE  IT/S    LEFT SHARE        P        T  WAITED  PROGRESS               WHY");
    EXPECT_EQ(lines[6], "  1 vae      running      0  10.0       -  10 % 64.0 MiB  256 MiB  10.0 s  100 iterations");
    EXPECT_EQ(lines[7],
              "  2 resnet2  waiting      0  20.0  10.0 s  20 % 64.0 MiB  256 MiB  20.0 s  █████░░░░░ 200/~400  "
              "  waits for its turn, after vae (job 1)");
}

TEST(TopView, ShowsRequestsAndTheGatesThatCloseForThem) {
    Status status = status_with(2);
    status.service.statistics.gate_closings = 12;
    status.service.gates_closed_share = 0.08;
    Activity& server = *status.jobs[0].activity;
    server.interactive = server.beside = true;
    server.class_reason = "it waits between its calls";
    server.requests = {40, milliseconds(5), milliseconds(12)};
    const auto lines = shown_on(status, {.unicode = false});
    EXPECT_EQ(lines[2], "lanes   0: 256 MiB vae (job 1)");
    EXPECT_EQ(lines[3], "gates   closed 12 times for requests, 8 % of the last second (at most 25 %)");
    EXPECT_TRUE(lines[4].starts_with("turns   "));
    EXPECT_TRUE(lines[7].starts_with("  1 vae"));
    EXPECT_EQ(lines[8], "    100 iterations         40 requests, p50 5.0 ms, p99 12.0 ms; interactive: i~");
    const auto wide = shown_on(status, {.width = 180});
    EXPECT_TRUE(wide[7].ends_with("  40 requests, p50 5.0 ms, p99 12.0 ms; interactive: it waits between its calls"));
}

TEST(TopView, RunningJobsStandOut) {
    TopOptions options;
    Rates rates;
    const auto lines = top_lines(status_with(2), rates, options);
    EXPECT_EQ(lines[6].front().style, Style::kRunning);
    EXPECT_EQ(lines[8].front().style, Style::kPlain);
}

TEST(TopView, Sorts) {
    const auto order = [](SortKey key) {
        std::string ids;
        const auto lines = shown_on(status_with(4), {.width = 150, .sort = key});
        for (std::size_t i = 6; i < 10; ++i) ids += lines[i][2];
        return ids;
    };
    EXPECT_EQ(order(SortKey::kJob), "1234");
    EXPECT_EQ(order(SortKey::kShare), "3214");
    EXPECT_EQ(order(SortKey::kIterations), "3214");
    EXPECT_EQ(order(SortKey::kWaiting), "2143");
}

TEST(TopView, MoreJobsThanLinesCanBeScrolled) {
    TopOptions options{.width = 100, .first = 1000};
    const Status status = status_with(30);
    Rates rates;
    auto lines = text_of(top_lines(status, rates, options), options.width);
    EXPECT_EQ(options.first, 13);
    EXPECT_TRUE(lines[6].starts_with(" 14 resnet14"));
    EXPECT_TRUE(lines[22].starts_with(" 30 resnet30"));
    EXPECT_TRUE(lines[23].ends_with("14 to 30 of 30: up, down"));
    options.first = -5;
    lines = text_of(top_lines(status, rates, options), options.width);
    EXPECT_EQ(options.first, 0);
    EXPECT_TRUE(lines[6].starts_with("  1 vae"));
}

TEST(TopView, FitsAnyScreen) {
    Status status = status_with(9);
    status.jobs[3].name = "a name that is much longer than there is room for, 変分法変分法変分法";
    status.jobs.emplace_back().state = JobState::kStarting;
    status.service.statistics.gate_closings = 12;
    for (const Status& what : {status, status_with(0), Status{}}) {
        for (const int width : {1, 2, 10, 20, 40, 66, 79, 80, 81, 100, 120, 140, 300}) {
            for (const int height : {1, 2, 5, 6, 7, 8, 24, 60}) {
                const auto lines = shown_on(what, {.width = width, .height = height});
                EXPECT_EQ(lines.size(), static_cast<std::size_t>(height));
            }
        }
    }
}

TEST(TopView, TroubleIsALine) {
    const TopOptions options;
    const auto lines = text_of(trouble_lines("nobody listens\nthere", options), 80);
    ASSERT_EQ(lines.size(), 24u);
    EXPECT_EQ(lines[2], "nobody listens?there");
}

}  // namespace
}  // namespace salus::cli
