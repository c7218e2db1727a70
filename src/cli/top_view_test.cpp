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
    job.user = UserId{1000};
    job.user_name = "ada";
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
    TopHistory history;
    history.update(status);
    return text_of(top_lines(status, rates, history, options), options.width);
}

TEST(TopView, InEightyColumnsAJobTakesTwoLines) {
    const auto lines = shown_on(status_with(2), {.unicode = false});
    ASSERT_EQ(lines.size(), 24u);
    EXPECT_EQ(lines[0], "Salus   fair on host   up 60.0 s   2 jobs: 1 running, 1 waiting");
    EXPECT_EQ(lines[1], "device                                 - % in turns");
    EXPECT_EQ(lines[2], "memory  b==++++.....................  25 %  1.0 GiB of 4.0 GiB, lanes save 256 ~");
    EXPECT_EQ(lines[3], "turns                                10 s  -/s, - switches/s, 0 page-outs");
    EXPECT_EQ(lines[4], "lanes   0: 256 MiB vae (job 1)");
    EXPECT_EQ(lines[6], "  JOB NAME     USER  PRI STATE      IT/S ALONE    LEFT SHARE        P        T");
    EXPECT_EQ(lines[7], "a   1 vae      ada     0 running    10.0   0 %       -  10 % 64.0 MiB  256 MiB");
    EXPECT_EQ(lines[8], "      100 iterations");
    EXPECT_EQ(lines[9], "b   2 resnet2  ada     0 waiting    20.0   0 %  10.0 s  20 % 64.0 MiB  256 MiB");
    EXPECT_EQ(lines[10], "      #####..... 200/~400    waits for its turn, after vae (job 1)");
    EXPECT_EQ(lines[23], "q quit  h help  p pause  k kill  +- priority  / filter  sort: s i w l m j");
}

TEST(TopView, OnAWideScreenItTakesOne) {
    const auto lines = shown_on(status_with(2), {.width = 170, .height = 40});
    ASSERT_EQ(lines.size(), 40u);
    EXPECT_EQ(lines[6],
              "  JOB NAME     USER  PRI STATE     LANE  IT/S ALONE    LEFT SHARE        P        T  WAITED  PROGRESS"
              "               WHY");
    EXPECT_EQ(lines[8],
              "b   2 resnet2  ada     0 waiting      0  20.0   0 %  10.0 s  20 % 64.0 MiB  256 MiB  20.0 s  █████░░░░░ "
              "200/~400    waits for its turn, after vae (job 1)");
}

TEST(TopView, WhyIsWholeWhereThereIsRoom) {
    Status status = status_with(2);
    const std::string why = "waits for its turn, after " + std::string(60, 'x') + " (job 1)";
    status.jobs[1].activity->wait.behind->name = std::string(60, 'x');
    EXPECT_TRUE(shown_on(status, {.width = 240, .height = 40})[8].ends_with(why));
    EXPECT_TRUE(shown_on(status, {.width = 130, .height = 40})[10].ends_with(why)) << "in a line of its own";
    EXPECT_FALSE(shown_on(status, {.width = 130, .height = 10})[5].ends_with(why)) << "no room for that";
}

TEST(TopView, ClientsAreNotCountedAsJobs) {
    Status status = status_with(3);
    status.jobs[2].job = 1;
    const auto lines = shown_on(status, {.unicode = false});
    EXPECT_EQ(lines[0], "Salus   fair on host   up 60.0 s   2 jobs: 1 running, 1 waiting");
}

TEST(TopView, ANarrowScreenLeavesOutWhatMattersLess) {
    const auto header = [](int width) { return shown_on(status_with(2), {.width = width, .unicode = false})[6]; };
    EXPECT_EQ(header(60), "  JOB NAME     USER  PRI STATE      IT/S ALONE    LEFT SHARE");
    EXPECT_EQ(header(59), "  JOB NAME     PRI STATE      IT/S ALONE    LEFT SHARE");
    EXPECT_EQ(header(45), "  JOB NAME     STATE      IT/S    LEFT SHARE");
}

TEST(TopView, ShowsTheDeviceOverTimeAndWhoseTurnsItHad) {
    Status status = status_with(2);
    TopHistory history;
    history.update(status);
    for (const int busy_ms : {500, 1000}) {
        status.service.uptime += seconds(1);
        status.jobs[0].activity->busy += milliseconds(busy_ms);
        history.update(status);
    }
    TopOptions options{.width = 152};
    const auto lines = text_of(top_lines(status, {}, history, options), options.width);
    EXPECT_TRUE(lines[1].ends_with("▄█ 100 % in turns")) << lines[1];
    EXPECT_EQ(history.use(1), std::vector<double>{1.0});
    EXPECT_EQ(history.turns(20), "                a aa");
    status.service.uptime += seconds(2);
    for (JobStatus& job : status.jobs) job.activity->busy += seconds(2);
    history.update(status);
    EXPECT_EQ(history.turns(20), std::string(12, ' ') + "a aa" + "aabb") << "they ran beside each other";
    status.service.uptime = seconds(1);
    history.update(status);
    EXPECT_TRUE(history.use(10).empty()) << "of an earlier service";
}

TEST(TopView, EachDeviceHasItsMemoryAndItsTurns) {
    Status status = status_with(2);
    status.service.devices = {status.service, status.service};
    for (unsigned i = 0; i < 2; ++i) status.jobs[i].gpu_number = status.service.devices[i].number = i + 3;
    for (JobStatus& job : status.jobs) job.activity->persistent = gibibytes(1);
    TopHistory history;
    history.update(status);
    status.service.uptime += seconds(10);
    status.jobs[1].activity->busy += seconds(5);
    history.update(status);
    ASSERT_EQ(history.use(1).size(), 1u);
    EXPECT_NEAR(history.use(1)[0], 0.25, 1e-9) << "half of one of two devices";
    EXPECT_EQ(history.turns(10, 3), std::string(10, ' '));
    EXPECT_EQ(history.turns(10, 4), "bbbbb     ");
    TopOptions options{.unicode = false};
    const auto lines = text_of(top_lines(status, {}, history, options), options.width);
    EXPECT_TRUE(lines[2].starts_with("gpu 3   a")) << lines[2];
    EXPECT_TRUE(lines[3].starts_with("gpu 4   b")) << lines[3];
    EXPECT_EQ(lines[4], "turns 3                              10 s");
    EXPECT_EQ(lines[5], "turns 4 bbbbbbbbbbbbbb               10 s");
}

TEST(TopView, SaysHowBusyAGpuIs) {
    Status status = status_with(1);
    status.service.busy_share = 0.5;
    EXPECT_TRUE(shown_on(status, {})[1].ends_with("% in turns")) << "on the host it would be the same";
    status.service.device = "cuda";
    EXPECT_TRUE(shown_on(status, {})[1].ends_with("% in turns, GPU busy 50 %"));
}

TEST(TopView, JobsHaveSignsThatComeAgain) {
    EXPECT_EQ(sign_of(1), 'a');
    EXPECT_EQ(sign_of(27), 'A');
    EXPECT_EQ(sign_of(62), '9');
    EXPECT_EQ(sign_of(63), 'a');
    EXPECT_EQ(sign_of(0), '9');
}

TEST(TopView, TheHelpIsNotCutOff) {
    for (const std::string& line : shown_on(status_with(1), {.unicode = false, .mode = TopMode::kHelp}))
        EXPECT_FALSE(line.ends_with("~") || width_of(line) > 78) << line;
}

TEST(TopView, FiltersByWhatARowShows) {
    const auto rows = [](const char* filter) {
        TopOptions options{.filter = filter};
        return rows_of(status_with(12), {}, options).size();
    };
    EXPECT_EQ(rows(""), 12u);
    EXPECT_EQ(rows("vae"), 1u);
    EXPECT_EQ(rows("net1"), 3u);
    EXPECT_EQ(rows("waiting"), 11u);
    EXPECT_EQ(rows("ada"), 12u);
    EXPECT_EQ(rows("nobody"), 0u);
    EXPECT_EQ(shown_on(status_with(2), {.filter = "nobody"})[6], "no job has this text; Esc shows all");
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
    EXPECT_EQ(lines[4], "lanes   0: 256 MiB vae (job 1)");
    EXPECT_EQ(lines[5], "gates   closed 12 times for requests, 8 % of the last second (at most 25 %)");
    EXPECT_TRUE(lines[8].starts_with("a   1 vae"));
    EXPECT_EQ(lines[9], "      100 iterations         40 requests, p50 5.0 ms, p99 12.0 ms; interactive:~");
    const auto wide = shown_on(status, {.width = 200});
    EXPECT_TRUE(wide[8].ends_with("  40 requests, p50 5.0 ms, p99 12.0 ms; interactive: it waits between its calls"));
}

TEST(TopView, RunningJobsStandOut) {
    TopOptions options;
    const auto lines = top_lines(status_with(2), {}, {}, options);
    EXPECT_EQ(lines[7][1].style, Style::kRunning);
    EXPECT_EQ(lines[9][1].style, Style::kPlain);
    EXPECT_NE(lines[7][0].style, lines[9][0].style) << "their signs, as in the bars";
}

TEST(TopView, Sorts) {
    const auto order = [](SortKey key) {
        std::string ids;
        const auto lines = shown_on(status_with(4), {.width = 170, .sort = key});
        for (std::size_t i = 7; i < 11; ++i) ids += lines[i][4];
        return ids;
    };
    EXPECT_EQ(order(SortKey::kJob), "1234");
    EXPECT_EQ(order(SortKey::kShare), "3214");
    EXPECT_EQ(order(SortKey::kIterations), "3214");
    EXPECT_EQ(order(SortKey::kWaiting), "2143");
    EXPECT_EQ(order(SortKey::kLeft), "2413");
    EXPECT_EQ(order(SortKey::kMemory), "1234");
}

TEST(TopView, MoreJobsThanLinesCanBeScrolled) {
    TopOptions options{.width = 100, .first = 1000};
    const Status status = status_with(30);
    auto lines = text_of(top_lines(status, {}, {}, options), options.width);
    EXPECT_EQ(options.first, 14);
    EXPECT_TRUE(lines[7].starts_with("o  15 resnet15"));
    EXPECT_TRUE(lines[22].starts_with("D  30 resnet30"));
    options.first = -5;
    lines = text_of(top_lines(status, {}, {}, options), options.width);
    EXPECT_EQ(options.first, 0);
    EXPECT_TRUE(lines[7].starts_with("a   1 vae"));
    options.width = 150;
    EXPECT_TRUE(text_of(top_lines(status, {}, {}, options), 150)[23].ends_with("1 to 16 of 30"));
    options.chosen = 20;
    lines = text_of(top_lines(status, {}, {}, options), options.width);
    EXPECT_EQ(options.first, 4) << "the chosen job is on the screen";
}

TEST(TopView, FitsAnyScreen) {
    Status status = status_with(9);
    status.jobs[3].name = "a name that is much longer than there is room for, 変分法変分法変分法";
    status.jobs.emplace_back().state = JobState::kStarting;
    status.service.statistics.gate_closings = 12;
    for (const Status& what : {status, status_with(0), Status{}}) {
        for (const int width : {1, 2, 10, 20, 40, 66, 79, 80, 81, 100, 120, 140, 300}) {
            for (const int height : {1, 2, 5, 6, 7, 8, 24, 60}) {
                for (const TopMode mode : {TopMode::kJobs, TopMode::kFilter, TopMode::kConfirmKill, TopMode::kHelp}) {
                    const auto lines = shown_on(what, {.width = width, .height = height, .chosen = 1, .mode = mode});
                    EXPECT_EQ(lines.size(), static_cast<std::size_t>(height));
                }
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
