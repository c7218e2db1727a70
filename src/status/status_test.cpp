#include "status/status.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus {
namespace {

using nlohmann::json;

/// With no field at its default.
Status full_status() {
    Status status;
    ServiceStatus& service = status.service;
    service.pid = 77;
    service.version = "1.2.3";
    service.socket = "/run/socket";
    service.metrics = "127.0.0.1:9464";
    service.state_directory = "/state";
    service.uptime = milliseconds(2500);
    service.device = "cuda";
    service.gpu = "GPU-1";
    service.mps = "/mps";
    service.policy = "fair";
    service.paging = true;
    service.min_turn = milliseconds(5);
    service.capacity = gibibytes(4);
    service.reserved = gibibytes(1);
    service.held_by_orphans = mebibytes(1);
    service.used_by_others = mebibytes(2);
    service.trace = {"/t", "/t.previous", false, Bytes{99}};
    service.placement = "pack";
    service.statistics = {1, 2, 3, 4, 5, 6, 7, 8, 9, Bytes{10}, 11, 12, 13, 14, 15, 16, 18, Bytes{17}};
    service.lanes = {{LaneId{2}, Bytes{20}, Bytes{30}, UserId{1000}, ClientId{5}},
                     {LaneId{3}, Bytes{1}, Bytes{1}, UserId{1000}, kNoClient}};
    service.gates_closed_share = 0.125;
    service.busy_share = 0.75;
    service.pace = {1.25, milliseconds(2)};
    service.lanes_max = 3;
    service.share_by_user = true;
    service.page_bytes_per_s = 1e9;
    service.devices = {service};
    service.devices[0].number = 6;
    service.devices[0].lost = "it fell off the bus";
    Activity activity;
    activity.requests = {40, milliseconds(5), milliseconds(12)};
    activity.wait = {WaitReason::kStoppedHolder, Wait::Behind{"vae", 4}};
    activity.lane = LaneId{2};
    activity.iterations = 12;
    activity.iterations_before = 2;
    activity.length = {100, /*is_past=*/true};
    activity.left = milliseconds(1500);
    activity.busy = milliseconds(250);
    activity.attained = milliseconds(750);
    activity.iteration_time = milliseconds(250);
    activity.iteration_time_expected = true;
    activity.iteration_memory = {Bytes{30}, milliseconds(4), {Bytes{31}, Bytes{32}}};
    activity.idle = milliseconds(125);
    activity.occupancy = 0.5;
    activity.suspending = true;
    activity.pageable = false;
    activity.stays_because = "threads";
    activity.paged_pinned = {21};
    activity.paged_memory = {22};
    activity.paged_file = {23};
    activity.waited = seconds(3);
    activity.waiting_now = seconds(1);
    wait_for(activity.waited_for, WaitReason::kTurn) = milliseconds(500);
    wait_for(activity.waited_for, WaitReason::kUserJobs) = seconds(2);
    activity.on_device = Bytes{10};
    activity.paged_out = Bytes{11};
    activity.persistent = Bytes{1};
    activity.ephemeral = Bytes{2};
    activity.private_bytes = Bytes{3};
    activity.lane_bytes = Bytes{4};
    activity.missed_bytes = Bytes{5};
    activity.lane_peak = Bytes{6};
    activity.evacuations = 7;
    activity.page_outs = 8;
    activity.launches = 17;
    activity.interactive = true;
    activity.class_reason = "because";
    activity.beside = true;
    activity.company = {{4, 7}, 1.75, 0.125};
    activity.boundaries_delayed = 9;
    activity.priority = -3;
    activity.weight = 0.5;
    activity.memory_time_gib_s = 1.25;
    JobStatus waiting;
    waiting.job = 3;
    waiting.client = ClientId{5};
    waiting.name = "resnet50";
    waiting.pid = 42;
    waiting.user = UserId{1000};
    waiting.user_name = "ada";
    waiting.attached = seconds(20);
    waiting.elapsed = seconds(21);
    waiting.state = JobState::kWaiting;
    waiting.command = "python resnet.py";
    waiting.log = "/log";
    waiting.gpu_number = 6;
    waiting.gpu = "GPU-1";
    waiting.placement = PlacementReason::kLoad;
    waiting.activity = activity;
    status.jobs.push_back(waiting);
    JobStatus starting;
    starting.job = 4;
    starting.name = "late";
    starting.pid = 43;
    starting.user = kRoot;
    starting.attached = milliseconds(500);
    starting.state = JobState::kWaiting;
    starting.start_wait = StartWait{{WaitReason::kMemory, Wait::Behind{"vae", 4}}};
    starting.past = {50, milliseconds(20), Bytes{4}, Bytes{5}, /*interactive=*/true};
    starting.why_unshared = "no torch";
    status.jobs.push_back(starting);
    JobStatus ended = starting;
    ended.state = JobState::kEnded;
    ended.start_wait.reset();
    ended.past.reset();
    ended.end = {1'700'000'000, 130};
    status.ended.push_back(ended);
    return status;
}

TEST(Status, AJobThatMayNotStartYetSaysWhyAndAHiddenUserIsLeftOut) {
    JobStatus job;
    EXPECT_FALSE(to_json(job).contains("start_waits_for") || to_json(job).contains("uid"));
    job.start_wait = StartWait{{WaitReason::kUserJobs, {}, 3}};
    job.user = kRoot;
    const json written = to_json(job);
    EXPECT_EQ(written["start_waits_for"], "user-jobs");
    EXPECT_EQ(written["user_jobs_max"], 3);
    EXPECT_FALSE(written.contains("user_memory_max_bytes") || written.contains("behind"));
    EXPECT_EQ(job_status_from(written).start_wait->reason, WaitReason::kUserJobs);
    EXPECT_EQ(job_status_from(written).start_wait->user_jobs_max, 3u);
    JobStatus client;
    client.activity.emplace().wait = {WaitReason::kUserMemory, {}, 0, gibibytes(2)};
    EXPECT_EQ(to_json(client)["user_memory_max_bytes"], gibibytes(2).count);
    EXPECT_EQ(job_status_from(to_json(client)).activity->wait.user_memory_max, gibibytes(2));
    EXPECT_EQ(job_status_from(written).user, kRoot);
    EXPECT_EQ(job_status_from(json::object()).user, kNoUser);
}

// Users' scripts read this: if keys or their meaning change, so does kSchemaVersion.
TEST(Status, IsThisJson) {
    EXPECT_EQ(
        to_json(full_status()).dump(),
        R"({"ended":[{"attached_s":0.5,"command":"","elapsed_s":0.0,"ended_unix_s":1700000000,"exit_status":130,)"
        R"("gpu":"","job":4,"log":"","name":"late","pid":43,"state":"ended","uid":0,"user":"","why_unshared":"no torch"}],"jobs":[{"attached_s":20.0,)"
        R"("attained_s":0.75,"behind":"vae","behind_job":4,"beside":true,"boundaries_delayed":9,"busy_s":0.25,)"
        R"("class":"interactive","class_reason":"because","client":5,"command":"python resnet.py","company":[4,7],"company_rate":1.75,"company_rate_error":0.125,"elapsed_s":21.0,)"
        R"("ephemeral_bytes":2,"estimate":"history","evacuations":7,"gpu":"GPU-1","gpu_number":6,"idle_s":0.125,"iteration_memory":{"least_bytes":30,"most_bytes":[31,32],"step_ms":4.0},"iteration_ms":250.0,"iteration_time_is":"expected","iterations":12,"iterations_before":2,)"
        R"("iterations_total":100,"job":3,"lane":2,"lane_bytes":4,"lane_peak_bytes":6,"launches":17,"left_s":1.5,)"
        R"("log":"/log","memory_time_gib_s":1.25,"missed_bytes":5,"name":"resnet50","occupancy":0.5,"on_device_bytes":10,"page_outs":8,)"
        R"("pageable":false,"paged_file_bytes":23,"paged_memory_bytes":22,"paged_out_bytes":11,"paged_pinned_bytes":21,"persistent_bytes":1,"pid":42,"placement":"load","priority":-3,"private_bytes":3,"request_p50_ms":5.0,"request_p99_ms":12.0,)"
        R"("requests":40,"state":"waiting","stays_because":"threads","suspending":true,"uid":1000,"user":"ada","waited_for_s":{"turn":0.5,"user-jobs":2.0},"waited_s":3.0,"waiting_now_s":1.0,)"
        R"("waits_for":"stopped-holder","weight":0.5,"why_unshared":""},{"attached_s":0.5,"behind":"vae","behind_job":4,"command":"","elapsed_s":0.0,"gpu":"","job":4,)"
        R"("log":"","name":"late","past_class":"interactive","past_ephemeral_bytes":5,"past_iteration_ms":20.0,)"
        R"("past_iterations":50,"past_persistent_bytes":4,"pid":43,"start_waits_for":"memory","state":"waiting","uid":0,"user":"","why_unshared":"no torch"}],"schema_version":1,)"
        R"("service":{"busy_share":0.75,"capacity_bytes":4294967296,"device":"cuda","devices":[{"busy_share":0.75,"capacity_bytes":4294967296,"device":"cuda","gates_closed_share":0.125,"gpu":"GPU-1",)"
        R"("held_by_orphans_bytes":1048576,"iteration_extra_ms":2.0,"iteration_pace":1.25,"lanes":[{"charge_bytes":30,"holder":5,"lane":2,"size_bytes":20,)"
        R"("uid":1000},{"charge_bytes":1,"lane":3,"size_bytes":1,"uid":1000}],"lost":"it fell off the bus","min_turn_ms":5.0,"mps":"/mps","number":6,)"
        R"("page_bytes_per_s":1000000000.0,"reserved_bytes":1073741824,"statistics":{"admissions":5,"denials":7,"fallbacks":16,"gate_closings":18,)"
        R"("lane_resizes":13,"lanes_opened":12,"page_ins":9,"page_outs":8,"paged_bytes":10,"profiling_turns":11,)"
        R"("refusals":6,"rehomings":14,"reservations":15,"reserved_peak_bytes":17,"revokes":4,"switches":2,)"
        R"("turns":1,"yields_asked":3},"trace":{"bytes":99,"path":"/t","previous":"/t.previous","recording":false},)"
        R"("used_by_others_bytes":2097152}],)"
        R"("gates_closed_share":0.125,"gpu":"GPU-1",)"
        R"("held_by_orphans_bytes":1048576,"iteration_extra_ms":2.0,"iteration_pace":1.25,"lanes":[{"charge_bytes":30,"holder":5,"lane":2,"size_bytes":20,)"
        R"("uid":1000},{"charge_bytes":1,"lane":3,"size_bytes":1,"uid":1000}],"lanes_max":3,"metrics":"127.0.0.1:9464","min_turn_ms":5.0,"mps":"/mps",)"
        R"("page_bytes_per_s":1000000000.0,"paging":true,"pid":77,"placement":"pack","policy":"fair","reserved_bytes":1073741824,"share_by":"user","socket":"/run/socket",)"
        R"("state":"/state","statistics":{"admissions":5,"denials":7,"fallbacks":16,"gate_closings":18,)"
        R"("lane_resizes":13,"lanes_opened":12,"page_ins":9,"page_outs":8,"paged_bytes":10,"profiling_turns":11,)"
        R"("refusals":6,"rehomings":14,"reservations":15,"reserved_peak_bytes":17,"revokes":4,"switches":2,)"
        R"("turns":1,"yields_asked":3},"trace":{"bytes":99,"path":"/t","previous":"/t.previous","recording":false},)"
        R"("uptime_s":2.5,"used_by_others_bytes":2097152,"version":"1.2.3"}})");
}

TEST(Status, ComesBackAsItWas) {
    const json written = to_json(full_status());
    EXPECT_EQ(to_json(status_from(written)), written);
    EXPECT_EQ(to_json(status_from(written).jobs[0]), written["jobs"][0]);
    EXPECT_EQ(to_json(job_status_from(written["ended"][0])), written["ended"][0]);
    EXPECT_EQ(to_json(trace_status_from(written["service"]["trace"])), written["service"]["trace"]);
    // Whatever a clock said.
    Status status;
    for (const std::int64_t ns : {1ll, 2'741'965ll, 458'917'914ll, 56'901'022'408ll, 86'400'000'000'123ll}) {
        status.service.uptime = {ns};
        EXPECT_EQ(status_from(to_json(status)).service.uptime.ns, ns);
    }
}

TEST(Status, WhatIsNotThereIsLeftOut) {
    Status status = full_status();
    Activity& activity = *status.jobs[0].activity;
    activity.wait = {};
    activity.lane = kNoLane;
    activity.length.reset();
    activity.left.reset();
    const json job = to_json(status.jobs[0]);
    EXPECT_EQ(job["waits_for"], "");
    for (const char* key : {"behind", "behind_job", "lane", "iterations_total", "estimate", "left_s"})
        EXPECT_FALSE(job.contains(key)) << key;
    activity.wait = {WaitReason::kTurn, Wait::Behind{"?", 0}};
    EXPECT_EQ(to_json(status.jobs[0])["behind"], "?");
    EXPECT_FALSE(to_json(status.jobs[0]).contains("behind_job"));
    EXPECT_EQ(to_json(Status{})["jobs"], json::array());
    status.ended[0].end->exit_status.reset();
    EXPECT_FALSE(to_json(status.ended[0]).contains("exit_status"));
}

TEST(Status, WhatIsNotAsItShouldBeKeepsItsDefault) {
    const json whole = to_json(full_status());
    for (const json& odd : {json(), json("x"), json(-1), json(1e300), json::array({1}), json::object(), json(true)}) {
        const Status status =
            status_from({{"service", {{"capacity_bytes", odd}, {"uptime_s", odd}, {"lanes", odd}}}, {"jobs", odd}});
        EXPECT_EQ(status.service.capacity, Bytes{});
        EXPECT_TRUE(odd == json(-1) || status.service.uptime == Duration{});
    }
    EXPECT_EQ(status_from({{"service", {{"pid", 5'000'000'000}}}}).service.pid, 0) << "it does not fit";
    EXPECT_EQ(status_from({{"jobs", {{{"iterations", ~std::uint64_t{0}}}}}}).jobs[0].activity->iterations,
              ~std::uint64_t{0});
    EXPECT_EQ(status_from({{"jobs", {{{"state", "dancing"}}}}}).jobs[0].state, JobState::kUnknown);
    EXPECT_FALSE(status_from({{"jobs", {{{"iterations", 1}, {"waits_for", "godot"}}}}}).jobs[0].activity->wait.reason);
}

TEST(Status, StatesAndReasonsHaveNames) {
    for (auto i = static_cast<unsigned>(JobState::kStarting); i <= static_cast<unsigned>(JobState::kEnded); ++i) {
        const auto state = static_cast<JobState>(i);
        EXPECT_FALSE(name_of(state).empty()) << i;
        EXPECT_EQ(job_state_from(name_of(state)), state);
    }
    EXPECT_EQ(job_state_from(""), JobState::kUnknown);
    EXPECT_EQ(wait_reason_from(""), WaitReason::kNothing);
    EXPECT_EQ(wait_reason_from("turn"), WaitReason::kTurn);
    EXPECT_EQ(wait_reason_from("refused"), WaitReason::kRefused);
    EXPECT_EQ(wait_reason_from("godot"), std::nullopt);
}

TEST(Status, ThePaceCorrectsByWhatIsLess) {
    const DeviceStatus::Pace slower{1.2, milliseconds(2)};
    EXPECT_EQ(slower.of(milliseconds(5)), milliseconds(6)) << "a fifth is less than 2 ms";
    EXPECT_EQ(slower.of(milliseconds(50)), milliseconds(52));
    const DeviceStatus::Pace faster{0.5, milliseconds(-3)};
    EXPECT_EQ(faster.of(milliseconds(4)), milliseconds(2));
    EXPECT_EQ(faster.of(milliseconds(40)), milliseconds(37));
    EXPECT_EQ((DeviceStatus::Pace{-1, seconds(-1)}).of(milliseconds(1)), Duration{}) << "whatever it says";
}

}  // namespace
}  // namespace salus
