#include "cli/report_view.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

Instant at(std::int64_t s) { return Instant{seconds(s).ns}; }

/// Two clients of job 3, "night", and job 4, which is still there.
sim::RecordedRun three_clients() {
    sim::RecordedRun run;
    for (std::uint32_t i = 0; i < 3; ++i) {
        sim::SimulatedJob& job = run.jobs.emplace_back();
        job.name = i == 2 ? "vae" : "night";
        job.persistent = mebibytes(1024);
        job.ephemeral = mebibytes(3 * 1024);
        sim::JobResult& result = run.result.jobs.emplace_back();
        result.arrival = at(100);
        result.end = i == 2 ? kNever : at(i == 0 ? 150 : 200);
        result.iterations = 50;
        result.memory_time_gib_s = 60;
    }
    run.numbers = {3, 3, 4};
    run.waits = {
        {{WaitReason::kTurn, seconds(20)}}, {{WaitReason::kTurn, seconds(5)}, {WaitReason::kMemory, seconds(10)}}, {}};
    run.waits[2] = {{WaitReason::kPaused, seconds(50)}, {WaitReason::kTurn, seconds(25)}};
    run.segments = {{ClientId{0}, LaneId{0}, at(100), at(120)}, {ClientId{1}, LaneId{0}, at(120), at(150)}};
    run.end = at(200);
    return run;
}

Status status_now() {
    Status status;
    JobStatus& row = status.jobs.emplace_back();
    row.job = 4;
    row.name = "vae";
    row.state = JobState::kRunning;
    row.activity.emplace().iterations = 80;
    row.activity->length = {200, /*is_past=*/true};
    JobStatus& ended = status.ended.emplace_back();
    ended.job = 3;
    ended.name = "night";
    ended.command = "python night.py";
    ended.end = {1'700'000'000, 0};
    return status;
}

TEST(ReportView, OfAJobThatHasEndedIsTheSumOverItsClients) {
    EXPECT_EQ(format_report(report_of(3, status_now(), three_clients())),
              "night (job 3), ended with status 0\n"
              "command     python night.py\n"
              "iterations  100, 1.00/s, 65 % of its speed alone\n"
              "time        1m 40s, of which 50.0 s on the device (50 %, 2 turns) and 35.0 s waiting\n"
              "waits       25.0 s for its turn, 10.0 s for memory\n"
              "memory      P 1.0 GiB, T 3.0 GiB\n"
              "memory time 0.0333 GiB·h; P and T of its own would have taken 0.167 GiB·h: sharing saved 80 %\n");
}

TEST(ReportView, OfAJobThatRunsHasWhatTheServiceKnows) {
    const JobReport report = report_of(4, status_now(), three_clients());
    EXPECT_EQ(report.wall, seconds(100)) << "until the end of the trace";
    EXPECT_EQ(report.iterations, 80u) << "the trace is behind";
    EXPECT_EQ(report.waited(), seconds(25)) << "a pause costs nothing";
    ASSERT_TRUE(report.of_alone());
    EXPECT_DOUBLE_EQ(*report.of_alone(), 0.5);
    const std::string text = format_report(report);
    EXPECT_TRUE(text.starts_with("vae (job 4), running\n")) << text;
    EXPECT_NE(text.find("80 of about 200, 0.800/s, 50 % of its speed alone"), std::string::npos) << text;
    EXPECT_NE(text.find("50.0 s paused, suspended or stopped, 25.0 s for its turn"), std::string::npos) << text;
}

TEST(ReportView, SaysWhetherSharingSavedMemoryOrTookIt) {
    sim::RecordedRun run = three_clients();
    const auto text_if = [&](double each) {
        for (sim::JobResult& result : run.result.jobs) result.memory_time_gib_s = each;
        return format_report(report_of(3, status_now(), run));  // alone it would have been 600
    };
    EXPECT_NE(text_if(150).find("sharing saved 50 %\n"), std::string::npos) << text_if(150);
    EXPECT_NE(text_if(330).find("sharing took 10 % more\n"), std::string::npos) << text_if(330);
    EXPECT_NE(text_if(300.1).find("sharing saved nothing\n"), std::string::npos) << text_if(300.1);
}

TEST(ReportView, ShowsTheMemoryOverAnIterationOfAJobThatRuns) {
    Status status = status_now();
    IterationMemory& memory = status.jobs[0].activity->iteration_memory;
    EXPECT_EQ(format_report(report_of(4, status, three_clients())).find("\niteration "), std::string::npos);
    memory.least = mebibytes(64);
    memory.step = milliseconds(4);
    memory.most = {mebibytes(64), mebibytes(1024), mebibytes(544), mebibytes(64)};
    const JobReport report = report_of(4, status, three_clients());
    EXPECT_NE(format_report(report).find("\niteration   ▁█▄▁ 64.0 MiB to 1.0 GiB in use, over 16 ms\n"), std::string::npos)
        << format_report(report);
    EXPECT_EQ(report_json(report)["iteration_memory"].dump(),
              R"({"least_bytes":67108864,"most_bytes":[67108864,1073741824,570425344,67108864],"step_ms":4.0})");
    memory.most = {mebibytes(64), mebibytes(64)};
    EXPECT_NE(format_report(report_of(4, status, three_clients())).find("▁▁ 64.0 MiB to 64.0 MiB"), std::string::npos);
}

TEST(ReportView, IsThisJson) {
    EXPECT_EQ(
        report_json(report_of(3, status_now(), three_clients())).dump(),
        R"({"command":"python night.py","device_s":50.0,"ephemeral_bytes":3221225472,"exit_status":0,"iterations":100,)"
        R"("iterations_per_s":1.0,"job":3,"memory_time_alone_gib_s":600.0,"memory_time_gib_s":120.0,"name":"night",)"
        R"("of_alone":0.65,"persistent_bytes":1073741824,"schema_version":1,"state":"ended","turns":2,"waited_s":35.0,)"
        R"("waits_s":{"memory":10.0,"turn":25.0},"wall_s":100.0})");
}

TEST(ReportView, AJobIsFoundByNumberOrName) {
    const sim::RecordedRun run = three_clients();
    const Status status = status_now();
    EXPECT_EQ(number_of_job("4", status, run), 4u);
    EXPECT_EQ(number_of_job("night", status, run), 3u);
    EXPECT_EQ(number_of_job("night", {}, run), 3u) << "the service has forgotten it";
    EXPECT_EQ(number_of_job("5", status, run), 0u);
    EXPECT_EQ(number_of_job("nobody", status, run), 0u);
    Status again = status;
    again.jobs.push_back(status.jobs[0]);
    again.jobs.back().job = 9;
    EXPECT_EQ(number_of_job("vae", again, run), 9u) << "the latest of a name";
}

TEST(ReportView, OfAJobWithoutAClientSaysSo) {
    Status status = status_now();
    status.jobs[0].job = 7;
    status.jobs[0].state = JobState::kStarting;
    const std::string text = format_report(report_of(7, status, three_clients()));
    EXPECT_EQ(text, "vae (job 7), starting\ntime        it has not attached, so it has used no device time\n");
}

}  // namespace
}  // namespace salus::cli
