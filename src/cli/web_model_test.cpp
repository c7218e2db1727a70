#include "cli/web_model.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

using nlohmann::json;

constexpr UserId kViewer{1000};
constexpr UserId kOther{1001};
constexpr Instant moment(double s) { return Instant{} + seconds_of(s); }

JobStatus& add(Status& status, std::uint32_t job, std::uint32_t client, JobState state, UserId user = kViewer) {
    JobStatus& row = status.jobs.emplace_back();
    row.job = job;
    row.client = ClientId{client};
    row.name = "job-" + std::to_string(job);
    row.state = state;
    row.user = user;
    row.attached = seconds(10);
    row.activity.emplace();
    return row;
}

Status two_jobs() {
    Status status;
    status.service.pid = 7;
    status.service.capacity = gibibytes(16);
    status.service.reserved = gibibytes(8);
    status.service.lanes.push_back({LaneId{2}, gibibytes(4), gibibytes(4), kViewer, ClientId{0}});
    Activity& first = *add(status, 1, 0, JobState::kRunning).activity;
    first.persistent = gibibytes(1);
    first.ephemeral = gibibytes(4);
    first.lane = LaneId{2};
    first.weight = 3;
    Activity& second = *add(status, 2, 1, JobState::kWaiting, kOther).activity;
    second.persistent = gibibytes(2);
    second.ephemeral = gibibytes(3);
    second.lane = LaneId{2};
    second.wait.reason = WaitReason::kTurn;
    second.wait.behind = Wait::Behind{"job-1", 1};
    return status;
}

TEST(WebModel, MemoryIsPByJobLanesAndTheRest) {
    WebModel model({kViewer, false});
    model.update(two_jobs(), moment(1));
    const json memory = model.overview()["devices"][0]["memory"];
    const std::int64_t gib = gibibytes(1).count;
    EXPECT_EQ(memory["jobs"], (json{{{"job", 1}, {"bytes", gib}}, {{"job", 2}, {"bytes", 2 * gib}}}));
    EXPECT_EQ(memory["lanes"], (json{{{"lane", 2}, {"bytes", 4 * gib}, {"holder", 1}}}));
    EXPECT_EQ(memory["other"], gib) << "8 reserved, of which 3 are P and 4 are the lane";
    EXPECT_EQ(memory["saved"], 3 * gib) << "4 + 3 of T are in a lane of 4";
}

TEST(WebModel, WhatIsPagedOutIsNotOnTheDevice) {
    Status status = two_jobs();
    status.jobs[1].state = JobState::kPagedOut;
    WebModel model({kViewer, false});
    model.update(status, moment(1));
    EXPECT_EQ(model.overview()["devices"][0]["memory"]["jobs"].size(), 1u);
    EXPECT_EQ(model.overview()["devices"][0]["memory"]["saved"], 0);
}

TEST(WebModel, AJobMayBeChangedByItsUserAndRoot) {
    for (const auto& [viewer, first, second] : {std::tuple{Viewer{kViewer, false}, true, false},
                                                {Viewer{kOther, false}, false, true},
                                                {Viewer{kRoot, false}, true, true},
                                                {Viewer{kRoot, true}, false, false}}) {
        WebModel model(viewer);
        model.update(two_jobs(), moment(1));
        const json jobs = model.overview()["jobs"];
        EXPECT_EQ(jobs[0]["may_change"], first);
        EXPECT_EQ(jobs[1]["may_change"], second);
    }
}

TEST(WebModel, EachDeviceHasItsMemoryAndItsFairShares) {
    Status status = two_jobs();
    add(status, 3, 0, JobState::kRunning).activity->persistent = gibibytes(5);
    for (std::size_t i = 0; i < 3; ++i) status.jobs[i].gpu_number = i < 2 ? 4 : 7;
    DeviceStatus first = status.service, second;
    first.number = 4;
    first.busy_share = 0.5;
    second.number = 7;
    second.gpu = "GPU-7";
    second.capacity = second.reserved = gibibytes(5);
    second.lanes.push_back({LaneId{2}, Bytes{}, Bytes{}, kViewer, ClientId{0}});
    second.statistics.denials = 3;
    status.service.devices = {first, second};
    WebModel model({kViewer, false});
    model.update(status, moment(1));
    const json overview = model.overview();
    const json& devices = overview["devices"];
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0]["number"], 4);
    EXPECT_EQ(devices[0]["busy_share"], 0.5);
    EXPECT_EQ(devices[1]["label"], "GPU-7");
    EXPECT_TRUE(devices[1]["busy_share"].is_null());
    EXPECT_EQ(devices[0]["memory"]["jobs"].size(), 2u);
    EXPECT_EQ(devices[1]["memory"]["jobs"], (json{{{"job", 3}, {"bytes", gibibytes(5).count}}}));
    EXPECT_EQ(devices[0]["memory"]["lanes"][0]["holder"], 1) << "numbers of clients are a device's own";
    EXPECT_EQ(devices[1]["memory"]["lanes"][0]["holder"], 3);
    EXPECT_EQ(overview["jobs"][0]["gpu"], 4);
    EXPECT_DOUBLE_EQ(overview["jobs"][0]["fair"].get<double>(), 0.75);
    EXPECT_DOUBLE_EQ(overview["jobs"][2]["fair"].get<double>(), 1.0) << "it has its device to itself";
    EXPECT_EQ(overview["service"]["denials"], 3);
}

TEST(WebModel, AJobsPageHasTheMemoryOverAnIteration) {
    Status status = two_jobs();
    WebModel model({kViewer, false});
    model.update(status, moment(1));
    EXPECT_FALSE(model.job(1)->contains("iteration_memory"));
    status.jobs[0].activity->iteration_memory = {Bytes{4}, milliseconds(2), {Bytes{5}, Bytes{9}}};
    model.update(status, moment(2));
    EXPECT_EQ(model.job(1)->at("iteration_memory"),
              json::parse(R"({"least_bytes": 4, "step_ms": 2.0, "most_bytes": [5, 9]})"));
}

TEST(WebModel, AHiddenUsersJobIsNobodys) {
    Status status = two_jobs();
    status.jobs[1].user = kNoUser;
    WebModel model({kOther, false});
    model.update(status, moment(1));
    EXPECT_EQ(model.overview()["jobs"][1]["may_change"], false);
    EXPECT_EQ(model.overview()["jobs"][1]["user"], "-");
}

TEST(WebModel, ClientsOfAJobAreOneRow) {
    Status status = two_jobs();
    add(status, 1, 5, JobState::kWaiting).activity->persistent = gibibytes(1);
    WebModel model({kViewer, false});
    model.update(status, moment(1));
    const json jobs = model.overview()["jobs"];
    ASSERT_EQ(jobs.size(), 2u);
    EXPECT_EQ(jobs[0]["clients"], 2);
    EXPECT_EQ(jobs[0]["state"], "running") << "of the client that runs";
    EXPECT_EQ(jobs[0]["p"], gibibytes(2).count);
    EXPECT_EQ(model.job(1)->at("clients").size(), 2u);
}

TEST(WebModel, AFairShareIsByWeightOfThoseThatTakeTurns) {
    Status status = two_jobs();
    add(status, 3, 6, JobState::kPaused);
    add(status, 4, 7, JobState::kRunning).activity->beside = true;
    WebModel model({kViewer, false});
    model.update(status, moment(1));
    const json jobs = model.overview()["jobs"];
    EXPECT_DOUBLE_EQ(jobs[0]["fair"].get<double>(), 0.75);
    EXPECT_DOUBLE_EQ(jobs[1]["fair"].get<double>(), 0.25);
    EXPECT_TRUE(jobs[2]["fair"].is_null());
    EXPECT_TRUE(jobs[3]["fair"].is_null());
}

TEST(WebModel, RatesAreOverSomeSeconds) {
    WebModel model({kViewer, false});
    for (int i = 0; i <= 6; ++i) {
        Status status = two_jobs();
        status.service.uptime = milliseconds(500 * i);
        status.jobs[0].activity->iterations = static_cast<std::uint64_t>(i < 6 ? 0 : 30);
        model.update(status, moment(0.5 * i));
        const json rate = model.overview()["jobs"][0]["rate"];
        EXPECT_EQ(rate, i < 6 ? 0.0 : 10.0) << i;
    }
}

TEST(WebModel, WaitingIsCountedByReason) {
    WebModel model({kViewer, false});
    Status status = two_jobs();
    model.update(status, moment(1));
    model.update(status, moment(3));
    status.jobs[1].activity->wait.reason = WaitReason::kMemory;
    model.update(status, moment(4));
    status.jobs[1].state = JobState::kRunning;
    model.update(status, moment(9));
    EXPECT_EQ(model.job(2)->at("waited_s"), (json{{"turn", 2.0}, {"memory", 1.0}}));
    EXPECT_EQ(model.job(1)->at("waited_s"), json::object());
}

TEST(WebModel, ASampleASecondIsKept) {
    WebModel model({kViewer, false});
    for (int i = 0; i < 2000; ++i) model.update(two_jobs(), moment(1 + 0.5 * i));
    const json samples = model.job(1)->at("samples");
    EXPECT_EQ(samples.size(), WebModel::kSamplesMax);
    EXPECT_DOUBLE_EQ(samples[samples.size() - 2][0].get<double>() - samples.back()[0].get<double>(), 1.0);
}

TEST(WebModel, AJobIsForgottenWithTheServicesMemoryOfIt) {
    WebModel model({kViewer, false});
    model.update(two_jobs(), moment(1));
    Status status = two_jobs();
    status.ended.push_back(status.jobs[1]);
    status.jobs.pop_back();
    model.update(status, moment(2));
    EXPECT_TRUE(model.job(2)) << "it has ended lately";
    status.ended.clear();
    model.update(status, moment(3));
    EXPECT_FALSE(model.job(2));
    EXPECT_FALSE(model.job(99));
}

TEST(WebModel, AServiceThatIsGoneIsSaid) {
    WebModel model({kViewer, false});
    model.update(two_jobs(), moment(1));
    model.lost("no service runs at x");
    EXPECT_EQ(model.overview()["problem"], "no service runs at x");
    EXPECT_FALSE(model.overview().contains("jobs"));
    Status next = two_jobs();
    next.service.pid = 8;
    model.update(next, moment(2));
    EXPECT_EQ(model.overview()["service"]["restarts"], 1);
}

TEST(WebModel, AnEmptyServiceHasAnOverview) {
    WebModel model({kViewer, true});
    model.update({}, moment(1));
    EXPECT_EQ(model.overview()["jobs"], json::array());
    EXPECT_EQ(model.overview()["devices"][0]["memory"]["lanes"], json::array());
    EXPECT_EQ(model.overview()["read_only"], true);
}

}  // namespace
}  // namespace salus::cli
