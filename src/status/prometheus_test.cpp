#include "status/prometheus.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace salus {
namespace {

Activity activity_on(LaneId lane) {
    Activity activity;
    activity.lane = lane;
    activity.ephemeral = mebibytes(300);
    activity.on_device = mebibytes(100);
    return activity;
}

JobStatus row_of(std::uint32_t job, const std::string& name, JobState state) {
    JobStatus row;
    row.job = job;
    row.name = name;
    row.user = UserId{1000};
    row.user_name = "ada";
    row.state = state;
    return row;
}

Status two_jobs() {
    Status status;
    ServiceStatus& service = status.service;
    service.version = "1.2.3";
    service.device = "cuda";
    service.gpu = "GPU-1";
    service.policy = "fair";
    service.capacity = gibibytes(4);
    service.reserved = mebibytes(512);
    service.held_by_orphans = Bytes{5};
    service.used_by_others = Bytes{7};
    service.gates_closed_share = 0.125;
    service.busy_share = 0.75;
    service.lanes = {{LaneId{1}, mebibytes(300), mebibytes(312), UserId{1000}, ClientId{0}}};
    service.statistics.paged_out = Bytes{42};
    service.statistics.turn_times.add(milliseconds(3));
    service.statistics.turn_times.add(seconds(5000));
    JobStatus vae = row_of(1, "vae", JobState::kRunning);
    vae.activity = activity_on(LaneId{1});
    JobStatus resnet = row_of(2, "resnet", JobState::kPagedOut);
    resnet.command = "python train.py";
    resnet.activity = activity_on(LaneId{1});
    resnet.activity->on_device = {};
    resnet.activity->paged_out = mebibytes(100);
    resnet.activity->paged_pinned = mebibytes(60);
    resnet.activity->paged_memory = mebibytes(30);
    resnet.activity->interactive = true;
    status.jobs = {resnet, vae};
    return status;
}

std::vector<JobTotals> totals_of_two_jobs() {
    JobTotals vae;
    vae.job = 1;
    vae.iterations = 12;
    vae.busy = milliseconds(2500);
    vae.waited_to_start = seconds(1);
    wait_for(vae.waited_for, WaitReason::kMemory) = milliseconds(100);
    vae.iteration_times.add(microseconds(150));
    vae.iteration_times.add(milliseconds(200));
    JobTotals resnet;
    resnet.job = 2;
    return {vae, resnet};
}

std::vector<std::string> lines_of(const std::string& page) {
    std::vector<std::string> lines;
    for (const std::string_view line : split(page, '\n')) lines.emplace_back(line);
    EXPECT_EQ(lines.back(), "") << "the last line ends, too";
    lines.pop_back();
    return lines;
}

/// The samples of a family, or of a part of a histogram.
std::vector<std::string> samples(const std::string& page, const std::string& name) {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(page)) {
        if (line.starts_with(name + "{")) found.push_back(line.substr(name.size()));
    }
    return found;
}

using Lines = std::vector<std::string>;

TEST(Prometheus, TheDevicesMemoryIsShownInPartsThatDoNotOverlap) {
    const std::string page = to_prometheus(two_jobs(), {});
    EXPECT_EQ(samples(page, "salus_service_info"), Lines{R"({device_uuid="GPU-1",version="1.2.3",policy="fair"} 1)"});
    EXPECT_EQ(samples(page, "salus_device_memory_bytes"),
              (Lines{fmt::format(R"({{device_uuid="GPU-1",kind="persistent"}} {})", mebibytes(200).count),
                     fmt::format(R"({{device_uuid="GPU-1",kind="lanes"}} {})", mebibytes(312).count),
                     R"({device_uuid="GPU-1",kind="orphans"} 5)", R"({device_uuid="GPU-1",kind="others"} 7)",
                     fmt::format(R"({{device_uuid="GPU-1",kind="free"}} {})", (gibibytes(4) - mebibytes(512)).count)}));
    EXPECT_EQ(samples(page, "salus_device_memory_saved_bytes"),
              Lines{fmt::format(R"({{device_uuid="GPU-1"}} {})", mebibytes(288).count)});
    EXPECT_EQ(samples(page, "salus_device_gates_closed_ratio"), Lines{R"({device_uuid="GPU-1"} 0.125)"});
    EXPECT_EQ(samples(page, "salus_host_pool_bytes"),
              (Lines{fmt::format(R"({{tier="pinned",kind="used"}} {})", mebibytes(60).count),
                     fmt::format(R"({{tier="memory",kind="used"}} {})", mebibytes(30).count),
                     fmt::format(R"({{tier="file",kind="used"}} {})", mebibytes(10).count)}));
    EXPECT_EQ(samples(page, "salus_device_busy_ratio"), Lines{R"({device_uuid="GPU-1"} 0.75)"});
    EXPECT_EQ(samples(page, "salus_page_bytes_total"),
              (Lines{R"({device_uuid="GPU-1",direction="out"} 42)", R"({device_uuid="GPU-1",direction="in"} 0)"}));
    Status unknown = two_jobs();
    unknown.service.busy_share.reset();
    EXPECT_EQ(samples(to_prometheus(unknown, {}), "salus_device_busy_ratio"), Lines{}) << "not known is not 0";
    Status indebted = two_jobs();
    indebted.service.capacity = Bytes{};
    EXPECT_NE(to_prometheus(indebted, {}).find(R"(kind="free"} 0)"), std::string::npos) << "a debt is no negative memory";
    indebted.service.gpu.clear();
    indebted.service.device = "host";
    EXPECT_NE(to_prometheus(indebted, {}).find(R"({device_uuid="host")"), std::string::npos);
}

TEST(Prometheus, AJobHasItsLabelsOnEachSeries) {
    const std::string page = to_prometheus(two_jobs(), totals_of_two_jobs());
    const std::string vae = R"(job_id="1",job_name="vae",user="ada",device_uuid="GPU-1")";
    const std::string resnet = R"(job_id="2",job_name="resnet",user="ada",device_uuid="GPU-1")";
    EXPECT_EQ(
        samples(page, "salus_job_info"),
        (Lines{"{" + vae + R"(,class="batch"} 1)", "{" + resnet + R"(,class="interactive",command="python train.py"} 1)"}));
    EXPECT_EQ(samples(page, "salus_job_device_seconds_total"), (Lines{"{" + vae + "} 2.5", "{" + resnet + "} 0"}));
    EXPECT_EQ(samples(page, "salus_job_iterations_total"), (Lines{"{" + vae + "} 12", "{" + resnet + "} 0"}));
    EXPECT_EQ(samples(page, "salus_job_wait_seconds_total"),
              (Lines{"{" + vae + R"(,reason="start"} 1)", "{" + vae + R"(,reason="turn"} 0)",
                     "{" + vae + R"(,reason="memory"} 0.1)", "{" + resnet + R"(,reason="start"} 0)",
                     "{" + resnet + R"(,reason="turn"} 0)"}));
    EXPECT_EQ(samples(page, "salus_job_memory_bytes").size(), 6u);
    EXPECT_EQ(samples(page, "salus_job_memory_bytes")[0],
              fmt::format("{{{},kind=\"persistent\"}} {}", vae, mebibytes(100).count));
    EXPECT_EQ(samples(page, "salus_job_memory_bytes")[4],
              fmt::format("{{{},kind=\"paged_out\"}} {}", resnet, mebibytes(100).count));
    EXPECT_EQ(samples(page, "salus_job_request_seconds_count"), Lines{"{" + resnet + "} 0"}) << "batch jobs answer nobody";
    for (const char* label : {"{job=", ",job=", "instance=", "pod="})
        EXPECT_EQ(page.find(label), std::string::npos) << label;
}

TEST(Prometheus, TheBucketsOfAHistogramAddUp) {
    const std::string page = to_prometheus(two_jobs(), totals_of_two_jobs());
    const Lines buckets = samples(page, "salus_turn_seconds_bucket");
    ASSERT_EQ(buckets.size(), 20u);
    EXPECT_EQ(buckets[0], R"({device_uuid="GPU-1",le="0.001"} 0)");
    EXPECT_EQ(buckets[1], R"({device_uuid="GPU-1",le="0.002"} 0)");
    EXPECT_EQ(buckets[2], R"({device_uuid="GPU-1",le="0.005"} 1)");
    EXPECT_EQ(buckets[18], R"({device_uuid="GPU-1",le="1000"} 1)");
    EXPECT_EQ(buckets[19], R"({device_uuid="GPU-1",le="+Inf"} 2)");
    EXPECT_EQ(samples(page, "salus_turn_seconds_sum"), Lines{R"({device_uuid="GPU-1"} 5000.003)"});
    EXPECT_EQ(samples(page, "salus_turn_seconds_count"), Lines{R"({device_uuid="GPU-1"} 2)"});
    const Lines iterations = samples(page, "salus_job_iteration_seconds_bucket");
    ASSERT_EQ(iterations.size(), 40u);
    EXPECT_TRUE(iterations[0].ends_with(R"(le="0.0001"} 0)")) << iterations[0];
    EXPECT_TRUE(iterations[1].ends_with(R"(le="0.0002"} 1)")) << iterations[1];
    EXPECT_TRUE(iterations[10].ends_with(R"(le="0.2"} 2)")) << iterations[10];
}

TEST(Prometheus, AJobIsCountedOnceInTheStateThatSaysMost) {
    Status status = two_jobs();
    for (const JobState state : {JobState::kIdle, JobState::kGrowing, JobState::kUnseen})
        status.jobs.push_back(row_of(3, "many", state));
    status.jobs.push_back(row_of(4, "late", JobState::kStarting));
    status.jobs.push_back(row_of(5, "odd", JobState::kUnknown));
    const Lines states = samples(to_prometheus(status, {}), "salus_jobs");
    const std::set<std::string> expected = {R"({state="running"} 1)", R"({state="growing"} 1)", R"({state="paged out"} 1)",
                                            R"({state="starting"} 1)"};
    std::set<std::string> counted;
    for (const std::string& line : states) {
        if (!line.ends_with(" 0")) counted.insert(line);
    }
    EXPECT_EQ(counted, expected);
    EXPECT_EQ(states.size(), 15u) << "all states are there, so that a query finds them";
}

TEST(Prometheus, WhatAViewerMustNotSeeIsNoLabel) {
    Status status = two_jobs();
    for (JobStatus& row : status.jobs) {
        row.name.clear();
        row.user = kNoUser;
        row.user_name.clear();
        row.command.clear();
    }
    const std::string page = to_prometheus(status, totals_of_two_jobs());
    EXPECT_EQ(samples(page, "salus_job_iterations_total")[0], R"({job_id="1",device_uuid="GPU-1"} 12)");
    for (const char* secret : {"vae", "ada", "resnet", "train.py"})
        EXPECT_EQ(page.find(secret), std::string::npos) << secret;
    status.jobs[0].user = UserId{1000};  // a user without a name
    EXPECT_NE(to_prometheus(status, {}).find(R"(user="1000")"), std::string::npos);
}

TEST(Prometheus, EachDeviceHasItsOwnSeriesAndItsJobs) {
    Status status = two_jobs();
    DeviceStatus first = status.service, second = status.service;
    second.number = 1;
    second.gpu = "GPU-2";
    second.lost = "it fell off the bus";
    second.capacity = gibibytes(99);
    second.reserved = {};
    second.lanes.clear();
    status.service.devices = {first, second};
    for (JobStatus& job : status.jobs) {
        job.gpu_number = job.job - 1;
        job.gpu = status.service.devices.at(job.job - 1).gpu;
    }
    const std::string page = to_prometheus(status, totals_of_two_jobs());
    EXPECT_EQ(samples(page, "salus_device_lost"), (Lines{R"({device_uuid="GPU-1"} 0)", R"({device_uuid="GPU-2"} 1)"}));
    EXPECT_EQ(samples(page, "salus_service_info").size(), 2u);
    const Lines memory = samples(page, "salus_device_memory_bytes");
    EXPECT_EQ(memory.size(), 10u);
    EXPECT_EQ(memory.back(), fmt::format(R"({{device_uuid="GPU-2",kind="free"}} {})", gibibytes(99).count));
    const Lines info = samples(page, "salus_job_info");
    EXPECT_NE(info.at(0).find(R"(device_uuid="GPU-1")"), std::string::npos) << info[0];
    EXPECT_NE(info.at(1).find(R"(device_uuid="GPU-2")"), std::string::npos) << info[1];
}

TEST(Prometheus, LabelsHoldWhatPeopleCallTheirJobs) {
    EXPECT_EQ(label_value(R"(a "b" \n)"), R"(a \"b\" \\n)");
    EXPECT_EQ(label_value("two\nlines\ttab\x7f"), "two?lines?tab?");
    EXPECT_EQ(label_value("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
    EXPECT_EQ(label_value("\xe2\x80\xae"
                          "evil"),
              "?evil")
        << "it would turn the text beside it around";
    EXPECT_EQ(label_value("bad\xff"), "bad?");
    Status status = two_jobs();
    status.jobs[0].command = "x\"} 1\nsalus_jobs{state=\"running\"} 99";
    const std::string page = to_prometheus(status, {});
    EXPECT_EQ(samples(page, "salus_jobs")[0], R"({state="running"} 1)");
}

TEST(Prometheus, EachFamilyHasOneHeadAndStandsTogether) {
    const std::string page = to_prometheus(two_jobs(), totals_of_two_jobs());
    std::set<std::string> heads;
    std::string family, type;
    for (const std::string& line : lines_of(page)) {
        const auto words = split(line, ' ');
        if (line.starts_with("# HELP ")) {
            family = words[2];
            EXPECT_TRUE(heads.insert(family).second) << family;
            EXPECT_TRUE(line.ends_with('.')) << line;
        } else if (line.starts_with("# TYPE ")) {
            EXPECT_EQ(words[2], family);
            type = words[3];
            EXPECT_EQ(family.ends_with("_total"), type == "counter") << family;
        } else {
            const std::string name = line.substr(0, line.find('{'));
            EXPECT_TRUE(name == family || (type == "histogram" && (name == family + "_bucket" || name == family + "_sum" ||
                                                                   name == family + "_count")))
                << line;
        }
    }
    EXPECT_GE(heads.size(), 18u);
}

}  // namespace
}  // namespace salus
