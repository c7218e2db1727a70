// A service and jobs on the stand-in GPU: lanes in its memory, what else is used there, MPS, and machines without any.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "device/cuda/gpu.h"
#include "salus/salus.h"
#include "tests/standin/gpu_machine.h"

namespace salus::test {
namespace {

constexpr int kContextMiB = 64;

std::size_t count_of(const std::string& what, const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
}

/// A process that has nothing to do with Salus, and so much memory beside its context.
std::unique_ptr<Part> ballast(const GpuMachine& machine, std::int64_t mib) {
    auto part = std::make_unique<Part>(machine.also, [mib](const Line& line) {
        const Standin gpu = Standin::start();
        const device::cuda::AllocationProperties properties;
        device::cuda::Handle handle = 0;
        EXPECT_EQ(gpu.memory_create(&handle, static_cast<std::size_t>(mib * kMiB), &properties, 0), 0);
        line.say();
        line.hear();
    });
    part->line().hear();
    return part;
}
void end(std::unique_ptr<Part> part) {
    part->line().say();
    EXPECT_EQ(part->status(), 0);
}

Words job_of(const std::string& persistent, const std::string& ephemeral, const std::string& iterations = "1000000") {
    return {"--persistent", persistent, "--ephemeral", ephemeral, "--block",      "8MiB",
            "--work",       "200",      "--touch",     "pages",   "--iterations", iterations};
}

// ------------------------------------------------------------------------------------------------------------ monitoring

TEST(CudaSharing, TheJobsOfAGpuAreListedForNvidiasExporter) {
    char directory[] = "/tmp/salus-mapping-test-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    const std::string file = std::string(directory) + "/0";
    {
        GpuMachine machine({"--job-mapping-dir", directory});
        EXPECT_FALSE(std::filesystem::exists(file));
        Process& one = machine.job("one", job_of("8MiB", "8MiB"));
        ASSERT_TRUE(eventually([&] { return text_of(file) == "1\n"; })) << text_of(file);
        machine.job("two", job_of("8MiB", "8MiB"));
        ASSERT_TRUE(eventually([&] { return text_of(file) == "1\n2\n"; })) << text_of(file);
        one.end();
        EXPECT_TRUE(eventually([&] { return text_of(file) == "2\n"; })) << text_of(file);
        machine.service().signal(SIGTERM);
        EXPECT_EQ(machine.service().wait(), 0);
        EXPECT_FALSE(std::filesystem::exists(file));
    }
    std::filesystem::remove_all(directory);
}

// --------------------------------------------------------------------------------------------------------------- sharing

TEST(CudaSharing, SurvivorsAreEvacuatedAndResultsAreThoseOfRunningAlone) {
    const Words job = {"--persistent", "16MiB", "--ephemeral",  "48MiB", "--block", "8MiB",
                       "--work",       "100",   "--iterations", "40",    "--touch", "pages"};
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    // The first keeps a block in every iteration: the next survivor lies in the piece that was evacuated for the last.
    const auto survives = [](int i) {
        return Words{"--survive", std::to_string(1 + 3 * i), "--seed", std::to_string(i + 1)};
    };
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(machine.job("alone" + std::to_string(i), job + survives(i) + Words{"--alone"}).wait(), 0);
    }
    // One that hangs holds all of them up until they are there: from then on they take turns.
    Process& first = machine.job("first", job + Words{"--hang-at", "3"});
    ASSERT_TRUE(eventually([&] { return machine.iterations("first") == 3; })) << machine.status();
    std::vector<Process*> running;
    for (int i = 0; i < 3; ++i) running.push_back(&machine.job("shared" + std::to_string(i), job + survives(i)));
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(eventually([&] { return !machine.row("shared" + std::to_string(i)).empty(); })) << machine.status();
    }
    first.signal(SIGKILL);
    for (int i = 0; i < 3; ++i) {
        const std::string number = std::to_string(i);
        Process& process = *running[static_cast<std::size_t>(i)];
        EXPECT_EQ(process.wait(), 0) << process.output();
        const nlohmann::json report = machine.report("shared" + number);
        EXPECT_EQ(report["digest"], machine.report("alone" + number)["digest"]);
        EXPECT_GE(report["counters"].value("evacuations", 0), i == 0 ? 20 : 2) << report;
        EXPECT_GE(report["counters"].value("turns", 0), 20) << report;
        EXPECT_EQ(report["counters"].value("shared", 0), 1) << report;
    }
    EXPECT_EQ(machine.status()["service"].value("device", ""), "cuda");
    EXPECT_TRUE(eventually([&] { return machine.used_mib() == 0; })) << machine.used_mib();
}

TEST(CudaSharing, ThreeJobsInOneLaneNeedTheirContextsTheSumOfPAndOneT) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    const int p_mib = 32, t_mib = 128;  // 120 MiB in whole pieces
    for (int i = 0; i < 3; ++i) machine.job("job" + std::to_string(i), job_of("32MiB", "120MiB"));
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(eventually([&] { return machine.iterations("job" + std::to_string(i)) >= 12; })) << machine.status();
    }
    int most = 0;
    for (int sample = 0; sample < 20; ++sample) {
        most = std::max(most, machine.used_mib());
        sleep_s(0.01);
    }
    EXPECT_LE(most, 3 * kContextMiB + 3 * p_mib + t_mib);
    const nlohmann::json status = machine.status();
    ASSERT_EQ(status["service"]["lanes"].size(), 1u);
    EXPECT_EQ(status["service"]["lanes"][0].value("size_bytes", std::int64_t{0}), t_mib * kMiB);
    const int unsure_mib = 16;  // of each: what is less does not matter to the service
    EXPECT_GE(status["service"].value("reserved_bytes", std::int64_t{0}), (most - 3 * unsure_mib) * kMiB)
        << "it knows what is in use";
    for (int i = 0; i < 3; ++i) {
        const nlohmann::json row = machine.row("job" + std::to_string(i));
        EXPECT_GE(row.value("lane_peak_bytes", std::int64_t{0}), 120 * kMiB) << row;
        EXPECT_GE(row.value("persistent_bytes", std::int64_t{0}), (kContextMiB + p_mib - unsure_mib) * kMiB) << row;
    }
}

// Each application that answers requests has a lane of its own, so what a lane takes beyond T is taken many times over.
TEST(CudaSharing, ManySmallApplicationsTakeLittleMoreThanTheyNeed) {
    const int count = 8, p_mib = 45, t_mib = 13;
    GpuMachine machine({}, {{"SALUS_STANDIN_MEMORY", std::to_string(4096 * kMiB)}});
    const auto job_name = [](int i) { return "job" + std::to_string(i); };
    for (int i = 0; i < count; ++i) {
        machine.job(job_name(i),
                    {"--persistent", "45MiB", "--persistent-block", "3MiB", "--ephemeral", "13MiB", "--block", "3MiB",
                     "--work", "100", "--touch", "pages", "--kind", "inference", "--rate", "50", "--iterations", "1000000"},
                    {{"SALUS_CLASS", "interactive"}});
    }
    for (int i = 0; i < count; ++i) ASSERT_TRUE(machine.goes_on(job_name(i), 20)) << machine.status();
    ASSERT_TRUE(eventually([&] { return machine.status()["service"]["lanes"].size() == count; })) << machine.status();
    const int a_piece_of_each_mib = 2 * 2;
    const int most_mib = count * (kContextMiB + p_mib + t_mib + a_piece_of_each_mib);
    EXPECT_TRUE(eventually([&] { return machine.used_mib() <= most_mib; })) << machine.used_mib() << " of " << most_mib;
}

TEST(CudaSharing, AJobGrowsInMidIterationOrIsOutOfMemory) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    Process& other = machine.job("other", job_of("16MiB", "32MiB"));
    Process& grower = machine.job("grower", job_of("16MiB", "32MiB", "40") + Words{"--grow-at", "20", "--grow-persistent",
                                                                                   "64MiB", "--grow-ephemeral", "160MiB"});
    EXPECT_EQ(grower.wait(), 0) << grower.output();
    EXPECT_GE(machine.report("grower")["counters"].value("lane_peak", std::int64_t{0}), 152 * kMiB);
    // What it needs is the lane's to give: none of its blocks is taken for private.
    Process& in_lane = machine.job("in_lane", job_of("16MiB", "32MiB", "20") + Words{"--grow-at", "10", "--grow-ephemeral",
                                                                                     "200MiB", "--alloc", "ephemeral"});
    EXPECT_EQ(in_lane.wait(), 0) << in_lane.output();
    EXPECT_GE(machine.report("in_lane")["counters"].value("lane_peak", std::int64_t{0}), 200 * kMiB);
    for (const char* kind : {"auto", "ephemeral"}) {
        Process& glutton = machine.job("glutton", job_of("16MiB", "32MiB", "40") +
                                                      Words{"--grow-at", "20", "--grow-ephemeral", "2GiB", "--alloc", kind});
        EXPECT_EQ(glutton.wait(), 1) << kind;
        EXPECT_NE(glutton.output().find("out of memory"), std::string::npos) << glutton.output();
        EXPECT_NE(glutton.output().find(" more do not fit: job "), std::string::npos) << glutton.output();
        EXPECT_NE(glutton.output().find(" (other) holds "), std::string::npos) << glutton.output();
    }
    EXPECT_TRUE(machine.goes_on("other", 10));
    EXPECT_TRUE(eventually([&] { return machine.lanes_mib() == 32; })) << machine.status();
    EXPECT_TRUE(eventually([&] { return machine.used_mib() == kContextMiB + 16 + 32; })) << machine.used_mib();
    EXPECT_TRUE(other.runs());
}

// What it was given while its new blocks were not expected yet is not asked for on top of the larger lane.
TEST(CudaSharing, ALoneJobMayGrowToMoreThanHalfOfTheGpu) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1"});
    Process& job =
        machine.job("job", job_of("16MiB", "48MiB", "40") + Words{"--grow-at", "20", "--grow-ephemeral", "600MiB"});
    EXPECT_EQ(job.wait(), 0) << job.output();
}

// Memory is given back to the device before it is promised to somebody else.
TEST(CudaSharing, WhatOneLaneGivesUpIsThereForAnother) {
    {
        SCOPED_TRACE("lent in mid-iteration");
        GpuMachine machine({"--lanes", "2", "--mps", "off", "--min-turn-ms", "0"});
        machine.job("other", job_of("16MiB", "448MiB"));
        ASSERT_TRUE(machine.goes_on("other", 5));
        Process& grower =
            machine.job("grower", job_of("16MiB", "48MiB", "330") +
                                      Words{"--grow-at", "300", "--grow-ephemeral", "512MiB", "--alloc", "ephemeral"});
        EXPECT_EQ(grower.wait(), 0) << grower.output();
    }
    {
        SCOPED_TRACE("closed, and one of the same size opened");
        GpuMachine machine({"--policy", "pack", "--lanes", "1", "--mps", "off"});  // nobody shares a lane
        const Words job = job_of("16MiB", "500MiB", "30") + Words{"--alloc", "ephemeral", "--profile-known"};
        Process& first = machine.job("first", job);
        ASSERT_TRUE(machine.goes_on("first", 1));
        Process& second = machine.job("second", job);
        EXPECT_EQ(first.wait(), 0) << first.output();
        EXPECT_EQ(second.wait(), 0) << second.output();
    }
}

TEST(CudaSharing, ALaneForWhichThereIsNoMemoryIsTriedAgain) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1"}, {{"SALUS_STANDIN_FAIL", "cuMemCreate:1,cuMemCreate:2"}});
    machine.also.erase("SALUS_STANDIN_FAIL");  // it is for the service
    Process& job = machine.job("job", job_of("16MiB", "32MiB", "20"));
    EXPECT_EQ(job.wait(), 0) << job.output();
    const nlohmann::json counters = machine.report("job")["counters"];
    EXPECT_EQ(counters.value("attachments", 0), 1) << counters;
    EXPECT_GT(counters.value("lane_bytes", std::int64_t{0}), 0) << counters;
    EXPECT_EQ(count_of(" error ", machine.log()), 1u) << machine.log();
}

// The device lacks the memory for a moment, or for ever. Torch asks again when it is told that there is none.
TEST(CudaSharing, WhoNeedsALaneThatCouldNotGrowWaitsAndIsAnswered) {
    const std::string first_beyond = std::to_string(device::cuda::kLanePieces.count(40 * kMiB) + 1);
    for (const bool in_vain : {false, true}) {
        GpuMachine machine({"--policy", "rr", "--lanes", "1"},
                           {{"SALUS_STANDIN_FAIL", "cuMemCreate:" + first_beyond + (in_vain ? "+" : "")}});
        machine.also["SALUS_STANDIN_FAIL"] = "";
        machine.also["SALUS_SOCKET"] = machine.socket();
        Part part(machine.also, [in_vain](const Line&) {
            Standin::load();
            salus_client* client = nullptr;
            ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
            const auto scratch = [&] { return salus_alloc(client, 40 << 20, SALUS_EPHEMERAL); };
            for (int i = 0; i < 4; ++i) {
                ASSERT_EQ(salus_begin(client), SALUS_OK);
                salus_free(client, scratch());
                ASSERT_EQ(salus_end(client), SALUS_OK);
            }
            ASSERT_EQ(salus_begin(client), SALUS_OK);
            void* first = scratch();
            EXPECT_TRUE(salus_in_lane(client, first));
            for (int i = 0; i < 3; ++i) {
                void* second = scratch();
                EXPECT_EQ(second != nullptr && salus_in_lane(client, second), !in_vain);
                salus_free(client, second);
            }
            ASSERT_EQ(salus_end(client), SALUS_OK);
            ASSERT_EQ(salus_detach(client), SALUS_OK);
        });
        EXPECT_EQ(part.status(), 0);
    }
}

TEST(CudaSharing, WhoIsKilledInMidIterationLeavesItsMemoryToTheOthers) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    Process& other = machine.job("other", job_of("16MiB", "48MiB"));
    Process& victim = machine.job("victim", job_of("64MiB", "192MiB") + Words{"--crash-at", "12", "--crash", "during"});
    EXPECT_EQ(victim.wait(), 128 + SIGKILL) << victim.output();
    EXPECT_TRUE(eventually([&] { return machine.row("victim").empty(); }));
    EXPECT_TRUE(machine.goes_on("other", 20));
    // Its work may go on where it was, so the lane is elsewhere now.
    EXPECT_EQ(count_of(" renew-lane ", text_of(machine.state() + "/trace")), 1u);
    EXPECT_TRUE(eventually([&] { return machine.used_mib() == kContextMiB + 16 + 48; })) << machine.used_mib();
    EXPECT_EQ(machine.used_mib(other.pid()), kContextMiB + 16);
    Process& next = machine.job("next", job_of("64MiB", "192MiB", "10"));
    EXPECT_EQ(next.wait(), 0) << next.output();
    EXPECT_EQ(machine.report("next")["counters"].value("shared", 0), 1);
    EXPECT_EQ(count_of(" renew-lane ", text_of(machine.state() + "/trace")), 1u) << "who ends by itself leaves nothing";
}

// The lane takes more than half of the GPU: there is no room for another one beside it.
TEST(CudaSharing, ALaneIsRenewedWhereThereIsRoomForOneOnly) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"}, {{"SALUS_STANDIN_MEMORY", "1073741824"}});
    Process& other = machine.job("other", job_of("16MiB", "600MiB", "120"));
    Process& victim = machine.job("victim", job_of("16MiB", "600MiB") + Words{"--crash-at", "30", "--crash", "during"});
    EXPECT_EQ(victim.wait(), 128 + SIGKILL) << victim.output();
    EXPECT_EQ(other.wait(), 0) << other.output() << machine.log();
    EXPECT_EQ(count_of(" renew-lane ", text_of(machine.state() + "/trace")), 1u);
    EXPECT_GE(machine.report("other")["counters"].value("lane_peak", std::int64_t{0}), 590 * kMiB);
}

TEST(CudaSharing, AThreadThatIsInsideAnIterationIsNotAtRest) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "its search for leaks does not survive an exit with a thread inside an iteration";
#endif
    GpuMachine machine({"--policy", "srtf", "--lanes", "1"});
    machine.also["SALUS_SOCKET"] = machine.socket();
    Part part(machine.also, [](const Line&) {
        Standin::load();
        salus_client* client = nullptr;
        ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
        std::atomic<bool> is_inside = false;
        std::thread([&] {
            for (int i = 0; i < 6; ++i) {
                EXPECT_EQ(salus_begin(client), SALUS_OK);
                salus_free(client, salus_alloc(client, 8 << 20, SALUS_AUTO));
                if (i == 5) break;
                EXPECT_EQ(salus_end(client), SALUS_OK);
            }
            is_inside = true;
            ::pause();
        }).detach();
        while (!is_inside) ::usleep(1000);
        std::exit(0);
    });
    EXPECT_EQ(part.status(), 0);
    EXPECT_TRUE(eventually([&] { return count_of(" die ", text_of(machine.state() + "/trace")) == 1; }));
    EXPECT_EQ(count_of(" renew-lane ", text_of(machine.state() + "/trace")), 1u);
}

TEST(CudaSharing, WhoExitsWithNothingInFlightLeavesTheLaneAsItIs) {
    for (const bool at_once : {false, true}) {
        SCOPED_TRACE(at_once ? "_exit" : "exit");
        GpuMachine machine({"--policy", "srtf", "--lanes", "1"});
        machine.also["SALUS_SOCKET"] = machine.socket();
        Part part(machine.also, [at_once](const Line& line) {
            Standin::load();
            salus_client* client = nullptr;
            ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
            for (int i = 0; i < 6; ++i) {
                ASSERT_EQ(salus_begin(client), SALUS_OK);
                salus_free(client, salus_alloc(client, 8 << 20, SALUS_AUTO));
                ASSERT_EQ(salus_end(client), SALUS_OK);
            }
            line.say();
            line.hear();
            // It has the grant, still, for nobody else wants it.
            if (at_once) ::_exit(0);
            std::exit(0);
        });
        part.line().hear();
        part.line().say();
        EXPECT_EQ(part.status(), 0);
        EXPECT_TRUE(eventually([&] { return count_of(" die ", text_of(machine.state() + "/trace")) == 1; }));
        EXPECT_EQ(count_of(" renew-lane ", text_of(machine.state() + "/trace")), at_once ? 1u : 0u);
    }
}

// -------------------------------------------------------------------------------------------------------------- restarts

TEST(CudaSharing, JobsAttachToTheNextServiceAndLoseNothing) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    std::vector<Process*> running;
    for (int i = 0; i < 2; ++i) {
        const std::string name = "job" + std::to_string(i);
        running.push_back(&machine.job(
            name, job_of("16MiB", "48MiB", "120") + Words{"--survive", "11", "--log", machine.path(name + ".log")}));
    }
    for (int restart = 0; restart < 2; ++restart) {
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(machine.goes_on("job" + std::to_string(i), 15));
        machine.service().signal(SIGKILL);
        machine.service().wait();
        machine.start_service();
    }
    for (int i = 0; i < 2; ++i) {
        const std::string name = "job" + std::to_string(i);
        EXPECT_EQ(running[static_cast<std::size_t>(i)]->wait(), 0) << running[static_cast<std::size_t>(i)]->output();
        std::istringstream log(text_of(machine.path(name + ".log")));
        int expected = 0;
        for (std::string line; std::getline(log, line); ++expected) ASSERT_EQ(line, "iteration " + std::to_string(expected));
        EXPECT_EQ(expected, 120);
        const nlohmann::json report = machine.report(name);
        EXPECT_EQ(report["counters"]["attachments"], 3) << report;
        EXPECT_EQ(report["counters"]["shared"], 1) << report;
    }
    EXPECT_TRUE(eventually([&] { return machine.used_mib() == 0; })) << machine.used_mib();
}

TEST(CudaSharing, WithoutAServiceForLongAJobGoesOnAlone) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1"});
    Process& job =
        machine.job("orphan", job_of("16MiB", "48MiB", "300") + Words{"--survive", "9"}, {{"SALUS_ORPHAN_WAIT", "0.2"}});
    ASSERT_TRUE(machine.goes_on("orphan"));
    machine.service().signal(SIGKILL);
    machine.service().wait();
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(machine.report("orphan")["counters"]["shared"], 0);
    EXPECT_NE(job.output().find("continues without sharing"), std::string::npos) << job.output();
}

TEST(CudaSharing, AServiceThatIsToldToStopDoesSoInOrder) {
    GpuMachine machine;  // whose driver has threads of its own, which a signal may reach as well
    machine.service().signal(SIGTERM);
    EXPECT_EQ(machine.service().wait(), 0);
    EXPECT_EQ(count_of("stopped", machine.log()), 1u) << machine.log();
    EXPECT_FALSE(std::filesystem::exists(machine.socket()));
}

// ------------------------------------------------------------------------------------------------------ others on the GPU

TEST(CudaSharing, WhatOthersUseIsNotJobsToHave) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1"});
    machine.job("job", job_of("16MiB", "48MiB"));
    ASSERT_TRUE(machine.goes_on("job", 10));
    EXPECT_TRUE(eventually([&] { return machine.capacity_mib() == 1024; })) << machine.capacity_mib();
    std::unique_ptr<Part> other = ballast(machine, 300);
    EXPECT_TRUE(eventually([&] { return machine.capacity_mib() == 1024 - kContextMiB - 300; })) << machine.capacity_mib();
    Process& large =
        machine.job("large", job_of("100MiB", "500MiB", "5") + Words{"--profile-known", "--alloc", "ephemeral"});
    EXPECT_TRUE(eventually([&] { return machine.row("large").value("waiting_now_s", 0.0) > 0.2; })) << machine.status();
    EXPECT_EQ(machine.row("large").value("waits_for", ""), "memory");
    end(std::move(other));
    EXPECT_TRUE(eventually([&] { return machine.capacity_mib() == 1024; })) << machine.capacity_mib();
    EXPECT_EQ(large.wait(), 0) << large.output();
    EXPECT_TRUE(machine.goes_on("job"));
}

TEST(CudaSharing, JobsStartWhenThereIsRoomForTheirContexts) {
    // Room for two contexts, and for one job to learn what it needs: whoever starts while there is none has no memory on the
    // GPU, and shares nothing.
    GpuMachine machine(
        {"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"},
        {{"SALUS_STANDIN_CONTEXT", std::to_string(600 * kMiB)}, {"SALUS_STANDIN_MEMORY", std::to_string(2600 * kMiB)}});
    std::vector<Process> runs;
    for (int i = 0; i < 4; ++i) {
        const std::string name = "job" + std::to_string(i);
        runs.push_back(machine.salus(Words{"run", "--name", name, "--", SALUS_JOB_BINARY, "--report",
                                           machine.path(name + ".json"), "--think-ms", "10"} +
                                     job_of("16MiB", "48MiB", "40")));
    }
    int most = 0;
    bool one_waited = false;
    for (const Process& run : runs) {
        ASSERT_TRUE(eventually([&] {
            const int contexts = machine.processes();
            most = std::max(most, contexts);
            const nlohmann::json status = machine.status();
            const auto waits_to_start = [](const nlohmann::json& row) {
                return row.value("state", "") == "waiting" && !row.contains("client");
            };
            one_waited =
                one_waited || (contexts == 2 && std::any_of(status["jobs"].begin(), status["jobs"].end(), waits_to_start));
            return !run.runs();
        })) << machine.status();
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
        EXPECT_EQ(runs[i].wait(), 0) << runs[i].output();
        EXPECT_EQ(machine.report("job" + std::to_string(i))["counters"].value("shared", 0), 1) << runs[i].output();
    }
    EXPECT_EQ(most, 2);
    EXPECT_TRUE(one_waited);
}

TEST(CudaSharing, SoDoThoseInTheBackgroundAndThoseWhoseServiceIsKilled) {
    for (const bool killed : {false, true}) {
        SCOPED_TRACE(killed ? "killed" : "in the background");
        GpuMachine machine({"--lanes", "1"}, {{"SALUS_STANDIN_CONTEXT", std::to_string(600 * kMiB)},
                                              {"SALUS_STANDIN_MEMORY", std::to_string(2600 * kMiB)}});
        std::vector<Process> runs;
        for (int i = 0; i < 4; ++i) {
            const std::string name = "job" + std::to_string(i);
            const Words how = killed ? Words{} : Words{"--detach"};
            runs.push_back(
                machine.salus(Words{"run", "--name", name} + how +
                              Words{"--", SALUS_JOB_BINARY, "--report", machine.path(name + ".json"), "--think-ms", "40"} +
                              job_of("16MiB", "48MiB", "40")));
        }
        int most = 0;
        const auto all_contexts = [&] { return most = std::max(most, machine.processes()); };
        ASSERT_TRUE(eventually([&] { return all_contexts() == 2 && machine.status()["jobs"].size() == 4; }));
        if (killed) {
            machine.service().signal(SIGKILL);
            machine.service().wait();
        }
        for (int i = 0; i < 4; ++i) {
            const std::string report = machine.path("job" + std::to_string(i) + ".json");
            ASSERT_TRUE(eventually([&] { return all_contexts() > 2 || std::filesystem::exists(report); }, 60)) << report;
        }
        EXPECT_EQ(most, 2);
        for (Process& run : runs) EXPECT_EQ(run.wait(), 0) << run.output();
        for (int i = 0; i < 4; ++i) {
            const std::string name = "job" + std::to_string(i);
            ASSERT_TRUE(eventually([&] { return machine.report(name).is_object(); })) << name;
            EXPECT_EQ(machine.report(name)["counters"].value("shared", 0), 1) << name;
        }
        machine.salus({"stop"}).wait();  // one that a runner has started
    }
}

TEST(CudaSharing, WhoStartsWhenIsInTheTraceAndReplays) {
    GpuMachine machine({"--lanes", "1"}, {{"SALUS_STANDIN_CONTEXT", std::to_string(600 * kMiB)},
                                          {"SALUS_STANDIN_MEMORY", std::to_string(1800 * kMiB)}});
    const auto run = [&](const std::string& name) {
        return machine.salus(Words{"run", "--name", name, "--", SALUS_JOB_BINARY, "--quiet", "--think-ms", "10"} +
                             job_of("16MiB", "48MiB"));
    };
    const auto trace_has = [&](const std::string& line) {
        machine.salus({"trace"}).wait();  // writes what is recorded
        return count_of(line, text_of(machine.path("state/trace"))) == 1;
    };
    Process first = run("first");
    ASSERT_TRUE(machine.goes_on("first"));
    Process second = run("second");
    ASSERT_TRUE(eventually([&] { return machine.state_of("second") == "waiting"; })) << machine.status();
    Process third = run("third");
    ASSERT_TRUE(eventually([&] { return machine.state_of("third") == "waiting"; })) << machine.status();
    second.signal(SIGTERM);  // it waits, and has nothing to pass a signal on to
    EXPECT_EQ(second.wait(), 128 + SIGTERM);
    EXPECT_TRUE(eventually([&] { return trace_has(" withdraw job=2\n"); }));
    EXPECT_EQ(machine.state_of("third"), "waiting");
    first.signal(SIGTERM);
    EXPECT_EQ(first.wait(), 128 + SIGTERM);
    EXPECT_TRUE(machine.goes_on("third"));
    third.signal(SIGTERM);
    EXPECT_EQ(third.wait(), 128 + SIGTERM);
    for (const char* started : {"  start job=1\n", "  start job=3\n"}) EXPECT_TRUE(trace_has(started)) << started;
    EXPECT_FALSE(trace_has("  start job=2\n"));
    Process replay = machine.salus({"trace", "--replay"});
    EXPECT_EQ(replay.wait(), 0) << replay.output();
}

// ---------------------------------------------------------------------------------------------------------- which device

/// What is found under the driver's name is none, whatever else this machine has.
void remove_driver(Machine& machine) {
    std::filesystem::create_directory(machine.path("lib"));
    for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) std::ofstream(machine.path("lib/") + library);
    machine.also["LD_LIBRARY_PATH"] = machine.path("lib");
}

TEST(CudaSharing, AGpuThatIsNotThereIsALineAndStatusOne) {
    const struct {
        bool driver;
        const char* why;
    } rows[] = {
        {false, "salusd: no CUDA driver found (libcuda.so.1)\n"},
        {true, "salusd: the CUDA driver failed to start: CUDA_ERROR_NO_DEVICE\n"},
    };
    for (const auto& row : rows) {
        Machine machine({}, /*start=*/false);
        if (row.driver) add_gpu(machine, {{"CUDA_VISIBLE_DEVICES", ""}});
        else remove_driver(machine);
        Process service({SALUSD_BINARY, "--config", "/dev/null", "--socket", machine.socket(), "--state", machine.state(),
                         "--device", "cuda"},
                        machine.also, machine.path("service.out"));
        EXPECT_EQ(service.wait(), 1);
        EXPECT_EQ(service.output(), row.why);
        EXPECT_FALSE(std::filesystem::exists(machine.socket()));
    }
}

TEST(CudaSharing, AutoIsTheGpuOrTheHost) {
    for (const bool driver : {false, true}) {
        Machine machine({"--device", "auto"}, /*start=*/false);
        if (driver) add_gpu(machine, {});
        else remove_driver(machine);
        machine.start_service();
        EXPECT_EQ(machine.status()["service"].value("device", ""), driver ? "cuda" : "host");
        EXPECT_EQ(count_of("no CUDA driver found (libcuda.so.1): jobs share the host's memory", machine.log()),
                  driver ? 0u : 1u)
            << machine.log();
        Process& job = machine.job("job", job_of("4MiB", "8MiB", "5"));
        EXPECT_EQ(job.wait(), 0) << job.output();
        EXPECT_EQ(machine.report("job")["counters"].value("shared", 0), 1);
    }
}

TEST(CudaSharing, DoctorListsWhatAGpuNeeds) {
    for (const bool driver : {false, true}) {
        Machine machine({}, /*start=*/false);
        if (driver) add_gpu(machine, {});
        else remove_driver(machine);
        machine.also["PATH"] = machine.path("nowhere");  // no Python, which takes its time, and no MPS
        Process doctor = machine.salus({"doctor", "--json"});
        doctor.wait();
        std::map<std::string, nlohmann::json> found;
        for (const nlohmann::json& finding : nlohmann::json::parse(doctor.output(), nullptr, false)) {
            if (finding.is_object()) found[finding.value("what", "")] = finding;
        }
        if (!driver) {
            EXPECT_NE(found["GPU"].value("detail", "").find("no CUDA driver found"), std::string::npos);
            EXPECT_FALSE(found.contains("driver"));
            continue;
        }
        const std::pair<const char*, const char*> lines[] = {
            {"GPU", "Stand-in GPU, 1.0 GiB, GPU-5a1d5a1d-0000-4000-8000-000000000000"},
            {"driver", "0.0 (stand-in), CUDA 13.0"},
            {"GPU memory", "can be shared (virtual memory management, passed to jobs as descriptors)"},
            {"GPU processes", "their memory use is visible (libnvidia-ml)"},
            {"MPS", "nvidia-cuda-mps-control is missing: lanes take turns"},
            {"shim", "every CUDA program shares (LD_PRELOAD=" SALUS_SHIM_FILE ")"},
        };
        for (const auto& [what, detail] : lines) {
            EXPECT_TRUE(found[what].value("ok", false)) << what << doctor.output();
            EXPECT_EQ(found[what].value("detail", ""), detail);
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------- MPS

/// A daemon as the real one, as far as a service knows it.
void add_mps(Machine& machine) {
    std::filesystem::create_directory(machine.path("bin"));
    const std::string program = machine.path("bin/nvidia-cuda-mps-control");
    std::ofstream(program) << R"(#!/bin/sh
if [ "$1" != -f ]; then
    read command
    echo "$command" >"$CUDA_MPS_PIPE_DIRECTORY/control"
    exit
fi
echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
mkfifo "$CUDA_MPS_PIPE_DIRECTORY/control"
read command <"$CUDA_MPS_PIPE_DIRECTORY/control"
)";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    machine.also["PATH"] = machine.path("bin") + ":" + std::getenv("PATH");
}

bool mps_is_installed() {
    return ::access("/usr/bin/nvidia-cuda-mps-control", X_OK) == 0 ||
           ::access("/usr/local/nvidia/bin/nvidia-cuda-mps-control", X_OK) == 0;
}

class CudaMps : public ::testing::Test {
protected:
    explicit CudaMps(const Words& options = {"--mps", "on"})
        : machine(Words{"--device", "cuda"} + options, /*start=*/false) {
        add_gpu(machine, {});
    }
    ~CudaMps() override { machine.salus({"stop"}).wait(); }  // it outlives one that is killed

    /// What a job is told of where MPS is; empty if it is not.
    std::string told_to_a_job(const Words& options = {}) {
        const std::string file = machine.path("environment");
        Process run = machine.salus(Words{"run", "--name", "asker"} + options + Words{"--", "sh", "-c", "env >" + file});
        EXPECT_EQ(run.wait(), 0) << run.output();
        const std::string text = "\n" + text_of(file);
        EXPECT_NE(text.find("\nSALUS_DEVICE=cuda\n"), std::string::npos) << text;
        const std::string name = "\nCUDA_MPS_PIPE_DIRECTORY=";
        const std::size_t at = text.find(name);
        if (at == std::string::npos) return "";
        const std::size_t start = at + name.size();
        return text.substr(start, text.find('\n', start) - start);
    }

    Machine machine;
};

TEST_F(CudaMps, OneThatIsNotThereIsAWarningAndJobsRun) {
    if (mps_is_installed()) GTEST_SKIP() << "it is there";
    machine.start_service();
    Process& job = machine.job("job", job_of("4MiB", "8MiB", "5"));
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(machine.report("job")["counters"].value("shared", 0), 1);
    EXPECT_EQ(told_to_a_job(), "");
    EXPECT_EQ(count_of("MPS: MPS cannot be started: there is no nvidia-cuda-mps-control; lanes take turns on the GPU",
                       machine.log()),
              1u)
        << machine.log();
    EXPECT_EQ(count_of("no MPS", machine.log()), 1u) << machine.log();
}

TEST_F(CudaMps, JobsAreToldWhereItIsUntilItIsGone) {
    add_mps(machine);
    machine.start_service();
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    int daemon = 0;
    std::ifstream(machine.state() + "/mps/nvidia-cuda-mps-control.pid") >> daemon;
    ASSERT_GT(daemon, 0);
    EXPECT_EQ(count_of("MPS is gone", machine.log()), 0u);
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
    EXPECT_TRUE(eventually([&] { return count_of("MPS is gone", machine.log()) == 1; })) << machine.log();
    EXPECT_NE(machine.log().find("was ended by signal 9"), std::string::npos) << machine.log();
    EXPECT_EQ(told_to_a_job(), "");
    Process& job = machine.job("job", job_of("4MiB", "8MiB", "5"));
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(count_of("MPS is gone", machine.log()), 1u) << machine.log();
}

TEST_F(CudaMps, EachGpuHasItsOwn) {
    add_mps(machine);
    machine.also["SALUS_STANDIN_DEVICES"] = "2";
    machine.start_service();
    EXPECT_EQ(told_to_a_job({"--gpu", "0"}), machine.state() + "/mps");
    EXPECT_EQ(told_to_a_job({"--gpu", "1"}), machine.state() + "/device-1/mps");
    int daemon = 0;
    std::ifstream(machine.state() + "/device-1/mps/nvidia-cuda-mps-control.pid") >> daemon;
    ASSERT_GT(daemon, 0);
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
    EXPECT_TRUE(eventually([&] { return count_of("MPS is gone", machine.log()) == 1; })) << machine.log();
    EXPECT_EQ(told_to_a_job({"--gpu", "1"}), "");
    EXPECT_EQ(told_to_a_job({"--gpu", "0"}), machine.state() + "/mps") << "the other one goes on";
}

/// One server of MPS is one user's.
class CudaMpsForAll : public CudaMps {
protected:
    CudaMpsForAll() : CudaMps({"--mps", "on", "--users", "all"}) {}
};

TEST_F(CudaMpsForAll, OnlyJobsOfTheServicesOwnUserUseIt) {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    add_mps(machine);
    machine.start_service();
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    const std::string salus = machine.path("salus");
    std::filesystem::copy_file(SALUS_BINARY, salus);
    ASSERT_EQ(::chmod(salus.c_str(), 0755), 0);
    auto environment = machine.environment();
    environment.erase("SALUS_STATE");
    Process run({salus, "run", "--", "env"}, environment, machine.path("other.out"), 54321);
    EXPECT_EQ(run.wait(), 0) << run.output();
    EXPECT_NE(run.output().find("SALUS_DEVICE=cuda\n"), std::string::npos) << run.output();
    EXPECT_EQ(run.output().find("CUDA_MPS_PIPE_DIRECTORY"), std::string::npos) << run.output();
    EXPECT_NE(machine.log().find("runs without MPS"), std::string::npos) << machine.log();
}

TEST_F(CudaMps, AServiceThatIsKilledLeavesItToTheNext) {
    add_mps(machine);
    machine.start_service();
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    const std::string daemon = text_of(machine.state() + "/mps/nvidia-cuda-mps-control.pid");
    machine.service().signal(SIGKILL);
    machine.service().wait();
    machine.start_service();
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    EXPECT_EQ(text_of(machine.state() + "/mps/nvidia-cuda-mps-control.pid"), daemon);
    EXPECT_EQ(::kill(std::stoi(daemon), 0), 0);
    EXPECT_EQ(machine.salus({"stop"}).wait(), 0);
    EXPECT_TRUE(eventually([&] { return ::kill(std::stoi(daemon), 0) != 0; }));
}

TEST_F(CudaMps, OneThatIsStoppedLeavesItToJobsThatAreStillThere) {
    add_mps(machine);
    machine.start_service();
    const std::string runs_now = machine.path("sleeper");
    Process run = machine.salus({"run", "--name", "sleeper", "--", "sh", "-c", ">" + runs_now + "; exec sleep 60"});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(runs_now); })) << run.output();
    const int daemon = std::stoi(text_of(machine.state() + "/mps/nvidia-cuda-mps-control.pid"));
    machine.service().signal(SIGTERM);
    machine.service().wait();
    EXPECT_EQ(::kill(daemon, 0), 0);
    run.signal(SIGTERM);
    run.wait();
    machine.salus({"stop"}).wait();  // the service that the job's runner has started in its stead
    EXPECT_TRUE(eventually([&] { return ::kill(daemon, 0) != 0; }));
}

/// A service whose policy wants no MPS, until it is switched.
class CudaMpsOnDemand : public CudaMps {
protected:
    explicit CudaMpsOnDemand(const Words& options = {}) : CudaMps(Words{"--policy", "fair"} + options) {}

    void start() {
        machine.start_service();
        EXPECT_EQ(told_to_a_job(), "");
    }
    /// What `salus policy` says of MPS.
    std::string switch_to(const std::string& policy) {
        Process command = machine.salus({"policy", policy});
        EXPECT_EQ(command.wait(), 0) << command.output();
        EXPECT_EQ(machine.status()["service"].value("policy", ""), policy);
        std::string said = command.output();
        const std::string done = "the policy is " + policy + " now\n";
        EXPECT_TRUE(said.ends_with(done)) << said;
        return said.substr(0, said.size() - std::min(said.size(), done.size()));
    }
};

TEST_F(CudaMpsOnDemand, APolicyThatRunsLanesAtOnceStartsIt) {
    add_mps(machine);
    start();
    EXPECT_EQ(switch_to("pack"), "");
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    EXPECT_EQ(count_of("MPS runs in", machine.log()), 1u) << machine.log();
    EXPECT_EQ(switch_to("fair"), "");
    EXPECT_EQ(told_to_a_job(), "") << "who comes now needs it no more";
    EXPECT_EQ(switch_to("pack"), "");
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    EXPECT_EQ(count_of("MPS runs in", machine.log()), 1u) << "it was still there";
    const int daemon = std::stoi(text_of(machine.state() + "/mps/nvidia-cuda-mps-control.pid"));
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
    EXPECT_TRUE(eventually([&] { return count_of("MPS is gone", machine.log()) == 1; })) << "it is watched";
    EXPECT_EQ(switch_to("pack"), "") << "it is started anew";
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
}

TEST_F(CudaMpsOnDemand, JobsThatWereThereBeforeAreToldOf) {
    add_mps(machine);
    start();
    const std::string runs_now = machine.path("sleeper");
    Process run = machine.salus({"run", "--name", "sleeper", "--", "sh", "-c", ">" + runs_now + "; exec sleep 60"});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(runs_now); })) << run.output();
    EXPECT_EQ(switch_to("pack"),
              "salus: MPS runs from now on; jobs started before (1) take turns on the GPU until they are restarted\n");
    EXPECT_EQ(switch_to("pack"), "") << "nothing has changed";
    run.signal(SIGTERM);
    run.wait();
}

TEST_F(CudaMpsOnDemand, WithoutItOneLineSaysWhy) {
    if (mps_is_installed()) GTEST_SKIP() << "it is there";
    start();
    EXPECT_EQ(switch_to("pack"),
              "salus: no MPS: MPS cannot be started: there is no nvidia-cuda-mps-control; lanes take turns on the GPU\n");
    EXPECT_EQ(told_to_a_job(), "");
}

class CudaMpsOff : public CudaMpsOnDemand {
protected:
    CudaMpsOff() : CudaMpsOnDemand({"--mps", "off"}) {}
};

TEST_F(CudaMpsOff, StaysOffAndOneLineSaysWhatToDo) {
    add_mps(machine);
    start();
    EXPECT_EQ(switch_to("pack"),
              "salus: the service was started with --mps off: lanes take turns on the GPU until it restarts without that "
              "option\n");
    EXPECT_EQ(told_to_a_job(), "");
    EXPECT_EQ(switch_to("srtf"), "");
}

TEST_F(CudaMps, ItTakesSoManyJobsAndTheNextOnesRunWithout) {
    add_mps(machine);
    machine.also["SALUS_STANDIN_MEMORY"] = std::to_string(64 * 1024 * kMiB);  // for all to start; nobody takes it
    machine.start_service();
    std::vector<Process> runs;
    for (int i = 0; i < 48; ++i) {  // one by one: they are let in in that order
        const std::string runs_now = machine.path("sleeper" + std::to_string(i));
        runs.push_back(machine.salus({"run", "--name", "sleeper", "--", "sh", "-c", ">" + runs_now + "; exec sleep 20"}));
        ASSERT_TRUE(eventually([&] { return std::filesystem::exists(runs_now); })) << runs.back().output();
    }
    EXPECT_EQ(told_to_a_job(), "");
    EXPECT_EQ(count_of("runs without MPS, which takes at most 48 jobs", machine.log()), 1u) << machine.log();
    for (int i = 0; i < 2; ++i) {
        runs.back().signal(SIGTERM);
        EXPECT_EQ(runs.back().wait(), 128 + SIGTERM);
        runs.pop_back();
    }
    ASSERT_TRUE(eventually([&] { return machine.status()["jobs"].size() == 46; }));
    EXPECT_EQ(told_to_a_job(), machine.state() + "/mps");
    for (Process& run : runs) run.signal(SIGTERM);
    for (Process& run : runs) run.wait();
}

}  // namespace
}  // namespace salus::test
