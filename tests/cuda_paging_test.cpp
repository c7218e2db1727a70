// Memory of a GPU is paged out and in while jobs share it: a service and real processes, on the stand-in.
#include <algorithm>
#include <random>

#include "tests/standin/gpu_machine.h"

namespace salus::test {
namespace {

constexpr int kContextOnGpuMiB = 64;

/// Two of these do not fit into kForOneMiB with all their memory, but one does beside what the other cannot move.
constexpr int kForOneMiB = 220;
Words paged_job(int seed, const std::string& iterations) {
    return {"--persistent",
            "48MiB",
            "--persistent-block",
            "5MiB",
            "--ephemeral",
            "16MiB",
            "--block",
            "4MiB",
            "--work",
            "15000",
            "--touch",
            "pages",
            "--iterations",
            iterations,
            "--seed",
            std::to_string(seed)};
}
Words paging_options(int capacity_mib = kForOneMiB) {
    return {"--policy", "rr",         "--lanes", "1",          "--min-turn-ms",
            "0",        "--page-gpu", "on",      "--capacity", std::to_string(capacity_mib) + "MiB"};
}

std::int64_t bytes_in(const nlohmann::json& row, const char* name) { return row.value(name, std::int64_t{0}); }

TEST(CudaPaging, JobsThatDoNotFitTogetherTakeTurnsAndLoseNothing) {
    constexpr const char* kIterations = "900";  // several times as long as one stays at least
    // A newcomer takes its memory before it has a turn, and so before anybody makes room for it.
    const int newcomer_mib = kContextOnGpuMiB + 52;
    GpuMachine machine(paging_options(), {{"SALUS_STANDIN_MEMORY", std::to_string((kForOneMiB + newcomer_mib) * kMiB)}});
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(machine.job("alone" + std::to_string(i), paged_job(i, kIterations) + Words{"--alone"}).wait(), 0);
    std::vector<Process*> jobs;
    for (int i = 0; i < 2; ++i) {
        jobs.push_back(&machine.job("job" + std::to_string(i), paged_job(i, kIterations)));
        ASSERT_TRUE(machine.goes_on("job" + std::to_string(i), 1)) << machine.status() << machine.log();
    }
    for (int i = 0; i < 2; ++i) {
        Process& job = *jobs[static_cast<std::size_t>(i)];
        EXPECT_EQ(job.wait(), 0) << job.output() << machine.log();
        const nlohmann::json report = machine.report("job" + std::to_string(i));
        EXPECT_EQ(report["digest"], machine.report("alone" + std::to_string(i))["digest"]);
        EXPECT_EQ(report["counters"].value("shared", 0), 1) << report;
    }
    EXPECT_GE(machine.status()["service"]["statistics"].value("page_outs", 0), 2) << machine.status();
    EXPECT_TRUE(eventually([&] { return machine.used_mib() == 0; })) << machine.used_mib();
}

TEST(CudaPaging, WhatStaysOnTheDeviceIsCharged) {
    GpuMachine machine(paging_options());
    machine.job("a", paged_job(1, "1000000"));
    ASSERT_TRUE(machine.goes_on("a", 4));
    machine.job("b", paged_job(2, "1000000"));
    nlohmann::json out;
    ASSERT_TRUE(eventually([&] {
        for (const char* name : {"a", "b"}) {
            const nlohmann::json row = machine.row(name);
            if (row.value("state", "") == "paged out") out = row;
        }
        return !out.is_null();
    })) << machine.status()
        << machine.log();
    EXPECT_NEAR(static_cast<double>(bytes_in(out, "on_device_bytes")), kContextOnGpuMiB * kMiB, 8 * kMiB) << out;
    EXPECT_NEAR(static_cast<double>(bytes_in(out, "paged_out_bytes")), 50 * kMiB, 8 * kMiB) << out;
    EXPECT_GE(bytes_in(out, "paged_memory_bytes") + bytes_in(out, "paged_file_bytes"), 48 * kMiB) << out;
    for (int i = 0; i < 40; ++i) {
        const int used = machine.used_mib();
        EXPECT_LE(used, kForOneMiB);
        sleep_s(0.02);
    }
    EXPECT_TRUE(machine.goes_on("a")) << machine.status();
    EXPECT_TRUE(machine.goes_on("b")) << machine.status();
}

TEST(CudaPaging, ItIsOffUnlessItIsAskedFor) {
    GpuMachine machine({"--capacity", std::to_string(kForOneMiB) + "MiB"});
    machine.job("job", paged_job(1, "1000000"));
    ASSERT_TRUE(machine.goes_on("job", 3));
    const nlohmann::json row = machine.row("job");
    EXPECT_FALSE(row.value("pageable", true)) << row;
    EXPECT_EQ(row.value("stays_because", ""), "paging of this device is off") << row;
}

TEST(CudaPaging, WithoutAPlaceOnTheHostTheyStay) {
    GpuMachine machine(paging_options() + Words{"--page-dir", "/proc"});
    machine.also["SALUS_STANDIN_FAIL"] = "cuMemcpyDtoHAsync_v2:1+";  // nothing can be copied
    machine.job("a", paged_job(1, "1000000"));
    ASSERT_TRUE(machine.goes_on("a", 4));
    machine.job("b", paged_job(2, "4"));
    sleep_s(0.5);
    EXPECT_TRUE(machine.goes_on("a")) << machine.status() << machine.log();
    EXPECT_EQ(machine.row("a").value("page_outs", -1), 0);
}

// Clients and services are killed at any moment of paging. Jobs check what they read in each iteration, and end if it is
// not what they wrote.
TEST(CudaPaging, NothingIsLostWhoeverIsKilled) {
    const bool all = std::getenv("SALUS_TEST_ALL") != nullptr;
    const int kills = all ? 300 : 24;
    const int count = 3;
    GpuMachine machine(paging_options(count * kContextOnGpuMiB + 64));
    std::mt19937 random(7);
    std::vector<Process*> jobs(count);
    std::vector<int> generation(count);
    const auto name_of = [&](int i) {
        return "job" + std::to_string(i) + "-" + std::to_string(generation[static_cast<std::size_t>(i)]);
    };
    const auto start = [&](int i) {
        ++generation[static_cast<std::size_t>(i)];
        jobs[static_cast<std::size_t>(i)] = &machine.job(
            name_of(i), {"--persistent", "24MiB", "--persistent-block", "5MiB", "--ephemeral", "8MiB", "--block", "4MiB",
                         "--work", "1000", "--touch", "pages", "--iterations", "100000000", "--seed", std::to_string(i)});
    };
    for (int i = 0; i < count; ++i) start(i);
    for (int i = 0; i < count; ++i) ASSERT_TRUE(machine.goes_on(name_of(i), 2)) << machine.status() << machine.log();
    for (int kill = 0; kill < kills; ++kill) {
        sleep_s(std::uniform_real_distribution<double>(0, 0.3)(random));
        const int victim = static_cast<int>(random() % count);
        const unsigned what = random() % 4;
        if (what != 0) jobs[static_cast<std::size_t>(victim)]->signal(SIGKILL);
        if (what == 0 || what == 1) {
            machine.service().signal(SIGKILL);
            machine.service().wait();
            machine.start_service();
        }
        if (what != 0) start(victim);
        for (int i = 0; i < count; ++i) {
            SCOPED_TRACE("kill " + std::to_string(kill) + ", " + name_of(i));
            ASSERT_TRUE(machine.goes_on(name_of(i), 1))
                << jobs[static_cast<std::size_t>(i)]->output() << machine.status() << machine.log();
        }
    }
    std::int64_t page_outs = 0;
    for (int i = 0; i < count; ++i) {
        EXPECT_TRUE(jobs[static_cast<std::size_t>(i)]->runs()) << jobs[static_cast<std::size_t>(i)]->output();
        page_outs += bytes_in(machine.row(name_of(i)), "page_outs");
    }
    EXPECT_GT(page_outs, 0);
}

}  // namespace
}  // namespace salus::test
