#include "cli/status_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"
#include "core/types.h"

namespace salus::cli {
namespace {

using nlohmann::json;

JobStatus resnet() {
    Activity activity;
    activity.lane = LaneId{1};
    activity.iterations = 12;
    activity.length = {100, /*is_past=*/false};
    activity.left = seconds_of(146.7);
    activity.attained = seconds(5);
    activity.busy = seconds_of(4.9);
    activity.waited = seconds(130);
    activity.persistent = mebibytes(512);
    activity.ephemeral = gibibytes(6);
    JobStatus job;
    job.job = 3;
    job.client = ClientId{0};
    job.name = "resnet50";
    job.pid = 4242;
    job.user = UserId{1000};
    job.attached = seconds(20);
    job.elapsed = seconds(22);
    job.state = JobState::kRunning;
    job.activity = activity;
    return job;
}

JobStatus waiting_vae() {
    JobStatus job = resnet();
    job.job = 4;
    job.client = ClientId{1};
    job.name = "vae";
    job.state = JobState::kWaiting;
    job.activity->wait = {WaitReason::kTurn, Wait::Behind{"resnet50", 3}};
    job.activity->waiting_now = seconds(12);
    job.activity->length.reset();
    job.activity->left.reset();
    return job;
}

JobStatus starting() {
    JobStatus job;
    job.job = 12;
    job.name = "late";
    job.pid = 7;
    job.attached = job.elapsed = seconds_of(0.5);
    job.state = JobState::kStarting;
    return job;
}

Status status_of(std::vector<JobStatus> jobs) {
    Status status;
    ServiceStatus& service = status.service;
    service.pid = 77;
    service.version = "1.2.3";
    service.socket = "/run/salus/socket";
    service.uptime = seconds(125);
    service.device = "host";
    service.policy = "fair";
    service.paging = true;
    service.min_turn = milliseconds(5);
    service.capacity = gibibytes(16);
    service.reserved = gibibytes(8);
    service.trace = {"/var/lib/salus/trace", "", true, mebibytes(3)};
    service.statistics.turns = 1200;
    service.statistics.switches = 340;
    service.statistics.page_outs = 2;
    service.statistics.page_ins = 1;
    service.statistics.paged = gibibytes(1);
    service.statistics.reserved_peak = gibibytes(9);
    service.lanes = {{LaneId{1}, gibibytes(6), gibibytes(6), UserId{}, ClientId{0}},
                     {LaneId{2}, gibibytes(1), gibibytes(2), UserId{}, kNoClient}};
    status.jobs = std::move(jobs);
    return status;
}

// ---------------------------------------------------------------------------------------------------------------- ps

TEST(FormatPs, AlignsItsColumnsAndSaysWhyJobsWait) {
    EXPECT_EQ(
        format_ps(status_of({resnet(), waiting_vae(), starting()})),
        "JOB  NAME      CLASS  STATE     LANE  ITERATIONS   IT/S    LEFT  SHARE        P        T    TIME  WAITED   PID  "
        "WHY\n"
        "  3  resnet50  batch  running      1      12/100  0.600  2m 27s   25 %  512 MiB  6.0 GiB  22.0 s  2m 10s  4242\n"
        "  4  vae       batch  waiting      1          12  0.600       -   25 %  512 MiB  6.0 GiB  22.0 s  2m 10s  4242  "
        "waits for its turn, after resnet50 (job 3), for 12 s\n"
        " 12  late      -      starting     -           -      -       -      -        -        -   0.5 s       -     7  "
        "has not asked for the device yet\n");
}

/// Of a service with two devices; the vae is on the second, which is lost.
Status on_two_devices() {
    Status status = status_of({resnet(), waiting_vae()});
    DeviceStatus first = status.service, second = status.service;
    first.gpu = "GPU-1";
    second.gpu = "GPU-2";
    second.number = 1;
    second.lost = "it fell off the bus";
    second.reserved = gibibytes(2);
    second.lanes = {{LaneId{1}, gibibytes(1), gibibytes(1), UserId{}, status.jobs[1].client}};
    status.service.devices = {first, second};
    for (unsigned i = 0; i < 2; ++i) {
        status.jobs[i].gpu_number = i;
        status.jobs[i].gpu = status.service.devices[i].gpu;
        status.jobs[i].placement = i == 0 ? PlacementReason::kEmpty : PlacementReason::kLoad;
    }
    return status;
}

TEST(FormatPs, SaysWhereJobsAreAndWhyIfTheyCouldBeElsewhere) {
    Status status = on_two_devices();
    const std::string table = format_ps(status);
    EXPECT_NE(table.find("NAME      GPU  CLASS"), std::string::npos) << table;
    EXPECT_NE(table.find("vae         1  batch"), std::string::npos) << table;
    EXPECT_NE(table.find("the fewest jobs were there"), std::string::npos) << table;
    for (JobStatus& job : status.jobs) job.placement = PlacementReason::kOnly;
    EXPECT_EQ(format_ps(status).find("GPU"), std::string::npos) << "all jobs would say the same";
}

TEST(FormatStatus, ListsEachDeviceWithItsJobs) {
    const std::string text = format_status(on_two_devices());
    const std::size_t first = text.find("device    0: GPU-1\n"),
                      second = text.find("device    1: GPU-2, lost: no job goes there");
    ASSERT_TRUE(first != std::string::npos && second != std::string::npos) << text;
    EXPECT_LT(first, second);
    EXPECT_NE(text.find("memory    2.0 GiB of 16.0 GiB", second), std::string::npos) << text;
    EXPECT_NE(text.find("1: 1.0 GiB, held by vae", second), std::string::npos) << text;
    EXPECT_NE(text.find("jobs      1\n", second), std::string::npos) << text;
}

TEST(FormatPs, ShowsWhoseJobsTheyAreAndTheirSettingsIfTheyDiffer) {
    const auto header_of = [](const Status& status, PsOptions options = {}) {
        const std::string text = format_ps(status, options);
        return text.substr(0, text.find('\n'));
    };
    const auto has = [](const std::string& header, const char* column) { return header.find(column) != std::string::npos; };
    Status status = status_of({resnet(), waiting_vae()});
    for (const char* column : {"USER", "PRIO", "WEIGHT"})
        EXPECT_FALSE(has(header_of(status, {.ended_before_unix_s = {}, .viewer = UserId{1000}}), column)) << column;
    const std::string wider = header_of(status, {.ended_before_unix_s = {}, .viewer = UserId{0}});
    EXPECT_TRUE(has(wider, "USER"));
    EXPECT_LE(wider.size(), 120u);
    status.jobs[1].activity->priority = 5;
    EXPECT_TRUE(has(header_of(status), "PRIO"));
    EXPECT_FALSE(has(header_of(status), "WEIGHT"));
    status.jobs[0].activity->weight = 0.5;
    status.jobs[0].user_name = "ada";
    const std::string text = format_ps(status, {.ended_before_unix_s = {}, .viewer = UserId{0}});
    EXPECT_NE(text.find("  3  resnet50  ada   batch     0     0.5  running "), std::string::npos) << text;
    EXPECT_NE(text.find("  4  vae       1000  batch     5       1  waiting "), std::string::npos) << text;
}

TEST(FormatPs, ShowsTheCommandOfWhoeverHasOne) {
    Status status = status_of({resnet(), starting()});
    EXPECT_EQ(format_ps(status).find("COMMAND"), std::string::npos);
    status.jobs[0].command = "python train.py\n--lr 0.1";
    const std::string text = format_ps(status);
    EXPECT_TRUE(text.substr(0, text.find('\n')).ends_with("  COMMAND")) << text;
    EXPECT_NE(text.find("  python train.py?--lr 0.1\n"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("has not asked for the device yet  -\n")) << text;
    status.jobs[0].command = "python train.py " + std::string(200, 'x');
    EXPECT_EQ(format_ps(status).find(std::string(60, 'x')), std::string::npos) << "a long one is cut in the middle";
}

TEST(FormatPs, ShowsJobsThatHaveEndedIfAsked) {
    Status status = status_of({resnet()});
    JobStatus ended = starting();
    ended.job = 2;
    ended.name = "done";
    ended.pid = 0;
    ended.state = JobState::kEnded;
    ended.elapsed = seconds(125);
    ended.command = "python train.py";
    ended.end = {1000, 3};
    status.ended = {ended};
    EXPECT_EQ(format_ps(status).find("done"), std::string::npos);
    std::string text = format_ps(status, {.ended_before_unix_s = 1061, .viewer = {}});
    EXPECT_NE(text.find("2m 05s       -     -  status 3, 61.0 s ago  python train.py\n"), std::string::npos) << text;
    EXPECT_LT(text.find("done"), text.find("resnet50")) << "what runs is next to the prompt";
    status.ended[0].end->exit_status.reset();
    status.ended[0].command.clear();
    text = format_ps(status, {.ended_before_unix_s = 999, .viewer = {}});
    EXPECT_NE(text.find("  status not known, 0.0 s ago\n"), std::string::npos) << text;
    status.jobs.clear();
    EXPECT_EQ(format_ps(status), "no jobs\n");
}

TEST(PsJson, IsAPartOfTheStatus) {
    Status status = status_of({resnet()});
    status.ended = {starting()};
    const json whole = to_json(status);
    const json part = ps_json(status, /*with_ended=*/false);
    EXPECT_EQ(part.size(), 2u);
    EXPECT_EQ(part["schema_version"], kSchemaVersion);
    EXPECT_EQ(part["jobs"], whole["jobs"]);
    EXPECT_EQ(ps_json(status, /*with_ended=*/true)["ended"], whole["ended"]);
}

TEST(FormatPs, SaysWhyAClientHasItsClass) {
    JobStatus server = resnet();
    server.activity->interactive = server.activity->beside = true;
    server.activity->class_reason = "it waits between its calls";
    EXPECT_NE(format_ps(status_of({server})).find("interactive: it waits between its calls\n"), std::string::npos);
    server.activity->beside = false;
    EXPECT_NE(format_ps(status_of({server})).find("takes turns: there is no memory to run beside the others\n"),
              std::string::npos);
}

TEST(FormatPs, SaysWithWhomAJobRunsAndWhatThatGains) {
    JobStatus row = resnet();
    row.activity->company = {{4, 7}, 1.75, 0.125};
    EXPECT_NE(format_ps(status_of({row})).find("runs with jobs 4, 7, 1.8 times as fast as in turns"), std::string::npos);
    row.activity->company = {{4}, 0, 0};
    const std::string unknown = format_ps(status_of({row}));
    EXPECT_NE(unknown.find("runs with job 4"), std::string::npos);
    EXPECT_EQ(unknown.find("times as fast"), std::string::npos);
}

TEST(FormatPs, SaysHowFastRequestsAreAnswered) {
    JobStatus server = waiting_vae();
    server.activity->requests = {40, milliseconds(5), milliseconds(12)};
    const std::string figures = "40 requests, p50 5.0 ms, p99 12.0 ms\n";
    EXPECT_NE(format_ps(status_of({server})).find(", after resnet50 (job 3), for 12 s; " + figures), std::string::npos);
    server = resnet();
    server.activity->requests = {40, milliseconds(5), milliseconds(12)};
    EXPECT_NE(format_ps(status_of({server})).find("  4242  " + figures), std::string::npos);
}

TEST(FormatStatus, SaysHowLongGatesWereClosedIfTheyEverWere) {
    Status status = status_of({});
    EXPECT_EQ(format_status(status).find("gates"), std::string::npos);
    status.service.statistics.gate_closings = 12;
    status.service.gates_closed_share = 0.08;
    EXPECT_NE(format_status(status).find("gates     closed 12 times for requests, 8 % of the last second (at most 25 %)\n"),
              std::string::npos);
}

TEST(FormatStatus, SaysHowBusyTheDeviceIsIfThatIsKnown) {
    Status status = status_of({});
    EXPECT_EQ(format_status(status).find("busy"), std::string::npos);
    status.service.busy_share = 0.42;
    EXPECT_NE(format_status(status).find("busy      42 % of the last second\n"), std::string::npos);
}

TEST(FormatPs, MarksALengthThatIsFromAnEarlierRun) {
    JobStatus job = resnet();
    job.activity->length->is_past = true;
    EXPECT_NE(format_ps(status_of({job})).find(" 12/~100 "), std::string::npos);
    job.activity->length.reset();
    EXPECT_EQ(format_ps(status_of({job})).find('~'), std::string::npos);
}

TEST(FormatPs, NoJobs) {
    EXPECT_EQ(format_ps(status_of({})), "no jobs\n");
    EXPECT_EQ(format_ps(status_from(json::object())), "no jobs\n");
    EXPECT_EQ(format_ps(status_from(json())), "no jobs\n");
}

TEST(FormatPs, NamesOfOthersDoNotMoveTheCursor) {
    JobStatus job = resnet();
    job.name = "a\x1b[2J\nb\xc2\x9b\x7f";
    EXPECT_NE(format_ps(status_of({job})).find(" a?[2J?b?? "), std::string::npos);
}

TEST(FormatPs, ColumnsStayAlignedBesideWideNames) {
    JobStatus wide = resnet();
    wide.name = "変分";
    JobStatus accented = resnet();
    accented.name = "é";
    const std::string text = format_ps(status_of({wide, accented}));
    const auto lines = split(text, '\n');
    EXPECT_EQ(width_of(lines[1].substr(0, lines[1].find("running"))), 18);
    EXPECT_EQ(width_of(lines[2].substr(0, lines[2].find("running"))), 18);
}

// A service that is a little older or newer than we are.
TEST(FormatPs, WhatIsNotAsItShouldBeIsShownSomehow) {
    const json whole = to_json(status_of({waiting_vae(), resnet()}));
    const std::vector<json> odd_ones = {json(),           json("x"),      json(-1),  json(1e300),
                                        json::array({1}), json::object(), json(true)};
    const auto expect_text = [](const json& document) {
        Status status = status_from(document);
        EXPECT_FALSE(format_ps(status).empty());
        EXPECT_FALSE(format_status(status).empty());
        Rates rates;
        rates.update(status);
        status.service.uptime += seconds(1);
        rates.update(status);
        for (const JobStatus& job : status.jobs) rates.of(job);
    };
    for (const json& odd : odd_ones) {
        for (const char* path :
             {"/jobs/0", "/jobs/1", "/service", "/service/lanes/0", "/service/trace", "/service/statistics"}) {
            const json::json_pointer place(path);
            for (const auto& [key, value] : whole.at(place).items()) {
                json document = whole;
                document[place][key] = odd;
                expect_text(document);
                document[place].erase(key);
                expect_text(document);
            }
            json document = whole;
            document[place] = odd;
            expect_text(document);
        }
        for (const char* part : {"jobs", "service"}) expect_text({{part, odd}});
        expect_text(odd);
    }
}

// --------------------------------------------------------------------------------------------------------- wait_text

TEST(WaitText, EveryReasonHasWordsOfItsOwn) {
    std::vector<std::string> seen;
    for (auto i = static_cast<unsigned>(WaitReason::kTurn); i <= static_cast<unsigned>(WaitReason::kUserJobs); ++i) {
        const std::string name(name_of(static_cast<WaitReason>(i)));
        ASSERT_NE(name, "?");
        const std::string text = wait_text(JobState::kWaiting, {static_cast<WaitReason>(i), Wait::Behind{"vae", 4}});
        EXPECT_TRUE(text.starts_with("waits") || text.starts_with("is ")) << text;
        EXPECT_TRUE(name == "memory" || text != "waits for " + name) << name << " has no words";
        EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0) << text;
        seen.push_back(text);
    }
    EXPECT_EQ(name_of(static_cast<WaitReason>(static_cast<unsigned>(WaitReason::kUserJobs) + 1)), "?") << "a new reason";
}

TEST(WaitText, NamesWhoIsInTheWay) {
    const auto text = [](WaitReason reason, bool known) {
        return wait_text(JobState::kWaiting, {reason, known ? std::optional(Wait::Behind{"vae", 4}) : std::nullopt});
    };
    EXPECT_EQ(text(WaitReason::kTurn, true), "waits for its turn, after vae (job 4)");
    EXPECT_EQ(text(WaitReason::kTurn, false), "waits for its turn");
    EXPECT_EQ(text(WaitReason::kStoppedHolder, true),
              "waits: its lane is held by vae (job 4), which does nothing inside an iteration");
    EXPECT_EQ(text(WaitReason::kStoppedHolder, false),
              "waits: its lane is held by another job, which does nothing inside an iteration");
    EXPECT_EQ(text(WaitReason::kProfiling, true), "waits for the first iterations of vae (job 4)");
    EXPECT_EQ(text(WaitReason::kProfiling, false), "waits for room for its first iterations");
    EXPECT_EQ(text(WaitReason::kOrder, true), "waits: the policy lets vae (job 4) go first");
    EXPECT_EQ(text(WaitReason::kOrder, false), "waits: the policy lets others go first");
    EXPECT_EQ(text(WaitReason::kMemory, true), "waits for memory, of which vae (job 4) holds most");
    EXPECT_EQ(text(WaitReason::kMemory, false), "waits for memory");
    EXPECT_EQ(wait_text(JobState::kWaiting, {WaitReason::kTurn, Wait::Behind{"?", 0}}),
              "waits for its turn, after another job");
}

TEST(WaitText, StatesThatSayItThemselves) {
    const Wait nothing, paused{WaitReason::kPaused, {}}, refused{WaitReason::kRefused, {}}, unknown{std::nullopt, {}};
    EXPECT_EQ(wait_text(JobState::kRunning, nothing), "");
    EXPECT_EQ(wait_text(JobState::kIdle, nothing), "");
    EXPECT_EQ(wait_text(JobState::kPaused, paused), "is paused; salus resume continues it");
    EXPECT_EQ(wait_text(JobState::kStopped, paused), "is stopped, by a signal or a debugger");
    EXPECT_EQ(wait_text(JobState::kStopped, nothing), "is stopped, by a signal or a debugger");
    EXPECT_EQ(wait_text(JobState::kWaiting, paused), "is stopped, by a signal or a debugger");
    EXPECT_EQ(wait_text(JobState::kAsleep, nothing), "does nothing in the middle of an iteration");
    EXPECT_EQ(wait_text(JobState::kPaused, refused), "is refused: it could never fit on the device");
    EXPECT_EQ(wait_text(JobState::kRefused, nothing), "is refused: it could never fit on the device");
    EXPECT_EQ(wait_text(JobState::kGrowing, nothing), "waits in mid-iteration for more memory");
    EXPECT_EQ(wait_text(JobState::kStarting, nothing), "has not asked for the device yet");
    EXPECT_EQ(wait_text(JobState::kUnseen, nothing), "uses the GPU without Salus: its calls pass by the shim");
    EXPECT_EQ(wait_text(JobState::kWaiting, unknown), "waits, for a reason that only a newer salus knows");
    EXPECT_EQ(wait_text(JobState::kUnknown, nothing), "");
}

TEST(JobCells, SayWhyAJobRunsWithoutSharing) {
    JobStatus job = starting();
    EXPECT_EQ(cells_of(job, {}).why, "has not asked for the device yet");
    job.state = JobState::kUnshared;
    EXPECT_EQ(cells_of(job, {}).state, "unshared");
    EXPECT_EQ(cells_of(job, {}).why, "runs without sharing");
    job.why_unshared = "torch.distributed\x1b";
    EXPECT_EQ(cells_of(job, {}).why, "runs without sharing: torch.distributed?");
    job.state = JobState::kUnseen;
    EXPECT_EQ(cells_of(job, {}).why, "runs without sharing: torch.distributed?");
    job.why_unshared.clear();
    EXPECT_EQ(cells_of(job, {}).why, "uses the GPU without Salus: its calls pass by the shim");
}

TEST(JobCells, NameWhoHasTheMemoryThatAJobWaitsForToStart) {
    JobStatus job = starting();
    job.state = JobState::kWaiting;
    EXPECT_EQ(cells_of(job, {}).why, "waits for memory on the GPU, to start");
    job.start_wait = StartWait{{WaitReason::kMemory, Wait::Behind{"vae", 4}}};
    EXPECT_EQ(cells_of(job, {}).why, "waits for memory on the GPU, to start; vae (job 4) holds most");
    EXPECT_EQ(start_wait_text(*job.start_wait), cells_of(job, {}).why) << "what its `salus run` says";
    job.start_wait = StartWait{{WaitReason::kMemory, Wait::Behind{"", 4}}};
    EXPECT_EQ(cells_of(job, {}).why, "waits for memory on the GPU, to start; job 4 holds most") << "another user's";
}

TEST(WaitText, NamesTheLimitOfTheUser) {
    Wait jobs{WaitReason::kUserJobs, {}};
    EXPECT_EQ(wait_text(JobState::kWaiting, jobs), "waits: as many jobs of its user run as that user may have");
    jobs.user_jobs_max = 3;
    EXPECT_EQ(wait_text(JobState::kWaiting, jobs), "waits: as many jobs of its user run as that user may have (3)");
    Wait memory{WaitReason::kUserMemory, {}};
    memory.user_memory_max = gibibytes(40);
    EXPECT_EQ(wait_text(JobState::kWaiting, memory),
              "waits: the jobs of its user have as much memory as that user may have (40.0 GiB)");
    EXPECT_EQ(start_wait_text({memory}), wait_text(JobState::kWaiting, memory));
}

TEST(JobCells, SayIfAClientShowsNoIterations) {
    JobStatus job = starting();
    job.state = JobState::kIdle;
    job.activity.emplace();
    job.attached = seconds(9);
    EXPECT_EQ(cells_of(job, {}).why, "");
    job.attached = seconds(10);
    EXPECT_EQ(cells_of(job, {}).why, "has shown no iteration yet");
    job.activity->iterations = 1;
    EXPECT_EQ(cells_of(job, {}).why, "");
}

// ------------------------------------------------------------------------------------------------------------ status

TEST(FormatStatus, SaysHowTheServiceIs) {
    EXPECT_EQ(format_status(status_of({resnet()})),
              "service   salusd 1.2.3, pid 77, up 2m 05s\n"
              "socket    /run/salus/socket\n"
              "policy    fair, turns of 5 ms or more, paging on\n"
              "device    host\n"
              "memory    8.0 GiB of 16.0 GiB reserved, peak 9.0 GiB\n"
              "lanes     1: 6.0 GiB, held by resnet50 (job 3)\n"
              "          2: 1.0 GiB (2.0 GiB until all clients have unmapped it), free\n"
              "jobs      1\n"
              "turns     1200, 340 job switches\n"
              "paging    2 page-outs, 1 page-ins, 1.0 GiB moved\n"
              "trace     /var/lib/salus/trace, 3.0 MiB, being recorded\n");
}

TEST(FormatStatus, AGpuHasNoPaging) {
    Status status = status_of({});
    status.service.device = "cuda";
    status.service.paging = false;
    const std::string text = format_status(status);
    EXPECT_NE(text.find("policy    fair, turns of 5 ms or more, no paging on a GPU\n"), std::string::npos) << text;
}

TEST(FormatStatus, SaysWhatIsUnusual) {
    Status status = status_of({});
    status.service.held_by_orphans = gibibytes(1);
    status.service.trace.recording = false;
    status.service.lanes.clear();
    status.service.statistics.fallbacks = 1;
    status.service.metrics = "127.0.0.1:9464";
    const std::string text = format_status(status);
    EXPECT_NE(text.find("socket    /run/salus/socket\nmetrics   127.0.0.1:9464\n"), std::string::npos) << text;
    EXPECT_NE(text.find("          1.0 GiB still held by jobs of an earlier service\n"), std::string::npos) << text;
    EXPECT_NE(text.find("lanes     none\n"), std::string::npos) << text;
    EXPECT_NE(text.find("fallback  the policy misbehaved"), std::string::npos) << text;
    EXPECT_NE(text.find("no longer recorded\n"), std::string::npos) << text;
}

// ------------------------------------------------------------------------------------------------------------- rates

class RatesTest : public testing::Test {
protected:
    Rate at(double uptime_s, std::uint64_t iterations, double busy_s, JobState state = JobState::kRunning) {
        JobStatus job = resnet();
        job.activity->iterations = iterations;
        job.activity->attained = {};
        job.activity->busy = seconds_of(busy_s);
        job.state = state;
        Status status = status_of({job});
        status.service.uptime = seconds_of(uptime_s);
        status.service.statistics.turns = static_cast<std::uint64_t>(10 * uptime_s);
        rates.update(status);
        return rates.of(job);
    }
    Rates rates;
};

TEST_F(RatesTest, SinceTheLastSnapshotAndOnAverageAtFirst) {
    const Rate first = at(100, 12, 5);
    EXPECT_DOUBLE_EQ(first.iterations_per_s.value(), 0.6);
    EXPECT_DOUBLE_EQ(first.share.value(), 0.25);
    EXPECT_FALSE(rates.turns_per_s());
    const Rate second = at(102, 52, 6);
    EXPECT_DOUBLE_EQ(second.iterations_per_s.value(), 20);
    EXPECT_DOUBLE_EQ(second.share.value(), 0.5);
    EXPECT_DOUBLE_EQ(rates.turns_per_s().value(), 10);
    const Rate same = at(102, 52, 6);
    EXPECT_DOUBLE_EQ(same.iterations_per_s.value(), 20) << "the same snapshot again";
    const Rate waits = at(103, 52, 6, JobState::kWaiting);
    EXPECT_DOUBLE_EQ(waits.iterations_per_s.value(), 0);
    EXPECT_DOUBLE_EQ(waits.share.value(), 0);
}

TEST_F(RatesTest, IterationsLongerThanTheIntervalDoNotFlicker) {
    at(100, 10, 50);
    at(105, 11, 55);
    for (const double s : {106.0, 107.0, 108.0, 109.0}) {
        EXPECT_DOUBLE_EQ(at(s, 11, 55).iterations_per_s.value(), 0.2);
        EXPECT_DOUBLE_EQ(rates.of(resnet()).share.value(), 1);
    }
    EXPECT_DOUBLE_EQ(at(110, 12, 60).iterations_per_s.value(), 0.2);
    EXPECT_DOUBLE_EQ(at(130, 12, 60).iterations_per_s.value(), 0.05) << "this one takes longer";
}

TEST_F(RatesTest, TimeThatWasCountedLateIsNoMoreThanAll) {
    at(100, 10, 50);
    EXPECT_DOUBLE_EQ(at(101, 11, 53).share.value(), 1);
}

TEST_F(RatesTest, AnotherServiceStartsAnew) {
    at(100, 10, 50);
    at(101, 20, 51);
    EXPECT_DOUBLE_EQ(at(1, 20, 0).share.value(), 0);
    EXPECT_FALSE(rates.turns_per_s());
    EXPECT_DOUBLE_EQ(at(2, 25, 0.5).iterations_per_s.value(), 5);
}

TEST(AverageRate, WhatTheServiceCountsMayBeLate) {
    JobStatus job = resnet();
    job.activity->attained = seconds(1);
    job.activity->busy = seconds(19);
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.95);
    EXPECT_DOUBLE_EQ(average_rate(job).iterations_per_s.value(), 0.6);
}

TEST(AverageRate, WhatWasDoneUnderTheLastServiceDoesNotCount) {
    JobStatus job = resnet();
    job.attached = seconds(5);
    job.activity->iterations = 4000;
    job.activity->busy = seconds(100);
    job.activity->attained = seconds(2);
    EXPECT_FALSE(average_rate(job).iterations_per_s) << "how many are new is not known";
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.4);
    job.activity->iterations_before = 3900;
    EXPECT_DOUBLE_EQ(average_rate(job).iterations_per_s.value(), 20);
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.5) << "25 ms each";
}

TEST_F(RatesTest, JobsThatAreNotKnownHaveNone) {
    at(100, 10, 50);
    EXPECT_FALSE(rates.of(waiting_vae()).share);
    EXPECT_FALSE(rates.of(starting()).iterations_per_s);
    EXPECT_FALSE(average_rate(starting()).iterations_per_s);
}

// ------------------------------------------------------------------------------------------------------------ figures

TEST(Figures, SecondsAndRates) {
    EXPECT_EQ(format_seconds(0), "0.0 s");
    EXPECT_EQ(format_seconds(99.94), "99.9 s");
    EXPECT_EQ(format_seconds(99.96), "1m 40s");
    EXPECT_EQ(format_seconds(3599.4), "59m 59s");
    EXPECT_EQ(format_seconds(3599.6), "1h 00m");
    EXPECT_EQ(format_seconds(47.99 * 3600), "47h 59m");
    EXPECT_EQ(format_seconds(50 * 3600), "2d 2h");
    EXPECT_EQ(format_seconds(-1), "-");
    EXPECT_EQ(format_rate(0), "0");
    EXPECT_EQ(format_rate(0.0421), "0.042");
    EXPECT_EQ(format_rate(0.9999), "1.00");
    EXPECT_EQ(format_rate(9.996), "10.0");
    EXPECT_EQ(format_rate(99.96), "100");
}

TEST(Columns, ALineOfOurOwnIsWrappedToFromMidLineOnly) {
    EXPECT_EQ(on_own_line("salus: x\n", 0), "salus: x\n") << "no terminal";
    EXPECT_EQ(on_own_line("salus: x\n", 5), "    \rsalus: x\n");
}

TEST(Columns, WidthCutAndPad) {
    EXPECT_EQ(width_of("abc"), 3);
    EXPECT_EQ(width_of("é変e\u0301"), 4);
    EXPECT_EQ(width_of("\xff\xc3"), 2) << "what is no UTF-8 counts byte by byte";
    EXPECT_EQ(cut("変分法", 5), "変分");
    EXPECT_EQ(cut("abc", -1), "");
    EXPECT_EQ(shorten("resnet50", 6, "…"), "resne…");
    EXPECT_EQ(shorten("resnet", 6, "…"), "resnet");
    EXPECT_EQ(shorten("resnet", 0, "…"), "");
    EXPECT_EQ(pad("é", 3, Align::kRight), "  é");
    EXPECT_EQ(printable("\xc0\x9b\xed\xa0\x80"), "?????") << "overlong, surrogate";
    EXPECT_EQ(bar(0.5, 4, false), "##..");
    EXPECT_EQ(bar(7, 2, false), "##");
    EXPECT_EQ(bar(-1, 2, true), "░░");
}

}  // namespace
}  // namespace salus::cli
