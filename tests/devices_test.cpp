// A service with several devices: which job goes where, what people see of it, restarts, and a GPU that is lost.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/standin/gpu_machine.h"

namespace salus::test {
namespace {

using nlohmann::json;

constexpr const char* kUuid = "GPU-5a1d5a1d-0000-4000-8000-00000000000";  // and the GPU's number

std::string uuid_of(int gpu) { return kUuid + std::to_string(gpu); }

/// With the reports and output of its jobs. A job runs until it is told to end, or for so many iterations.
class Devices {
public:
    explicit Devices(Machine& machine) : machine_(machine) {}

    Process& run(const std::string& name, const Words& options = {}, const std::string& iterations = "1000000",
                 const Words& job = {"--persistent", "4MiB", "--ephemeral", "8MiB"}) {
        runs_[name] =
            machine_.salus(Words{"run", "--name", name} + options +
                           Words{"--", SALUS_JOB_BINARY, "--report", machine_.path(name + ".json"), "--block", "4MiB",
                                 "--work", "200", "--touch", "pages", "--think-ms", "2", "--iterations", iterations} +
                           job);
        return runs_[name];
    }
    Process& operator[](const std::string& name) { return runs_.at(name); }
    /// It has done some iterations.
    bool works(const std::string& name) {
        return eventually([&] { return machine_.iterations(name) >= 3; }) && runs_.at(name).runs();
    }
    int gpu_of(const std::string& name) { return machine_.row(name).value("gpu_number", -1); }
    std::string placement_of(const std::string& name) { return machine_.row(name).value("placement", ""); }
    /// How many jobs each device has.
    std::map<int, int> counts() {
        std::map<int, int> all;
        for (const auto& [name, run] : runs_) ++all[gpu_of(name)];
        return all;
    }

private:
    Machine& machine_;
    std::map<std::string, Process> runs_;
};

std::string output_of(Machine& machine, const Words& words) {
    Process command = machine.salus(words);
    EXPECT_EQ(command.wait(), 0) << command.output();
    return command.output();
}

// --------------------------------------------------------------------------------------------------------- host devices

class HostDevices : public ::testing::TestWithParam<int> {
protected:
    HostDevices() : machine({"--device", "host:" + std::to_string(GetParam())}), jobs(machine) {}

    void start_two_each() {
        for (int i = 0; i < 2 * GetParam(); ++i) {
            const std::string name = "job" + std::to_string(i);
            jobs.run(name);
            ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
        }
    }

    Machine machine;
    Devices jobs;
};

TEST_P(HostDevices, JobsAreSpreadAndPeopleSeeWhereAndWhy) {
    start_two_each();
    for (int device = 0; device < GetParam(); ++device) EXPECT_EQ(jobs.counts()[device], 2) << device;
    EXPECT_EQ(jobs.placement_of("job0"), "empty");
    EXPECT_EQ(jobs.placement_of("job" + std::to_string(GetParam())), "load");
    const json devices = machine.status()["service"]["devices"];
    ASSERT_EQ(devices.size(), static_cast<std::size_t>(GetParam()));
    for (const json& device : devices) {
        EXPECT_LE(device.value("reserved_bytes", std::int64_t{-1}), device.value("capacity_bytes", std::int64_t{-2}));
        EXPECT_EQ(device.value("gpu", ""), "host-" + std::to_string(device.value("number", -1)));
        EXPECT_GT(device["statistics"].value("turns", 0), 0) << device;
    }
    const std::string ps = output_of(machine, {"ps"});
    EXPECT_NE(ps.find(" GPU "), std::string::npos) << ps;
    EXPECT_NE(ps.find("the fewest jobs were there"), std::string::npos) << ps;
    const std::string status = output_of(machine, {"status"});
    for (int device = 0; device < GetParam(); ++device)
        EXPECT_NE(status.find(std::to_string(device) + ": host-" + std::to_string(device)), std::string::npos) << status;
    const std::string replay = output_of(machine, {"trace", "--replay"});
    EXPECT_EQ(std::ranges::count(replay, '\n'), GetParam()) << replay;
    const std::string last = std::to_string(GetParam() - 1);
    EXPECT_NE(replay.find("gpu " + last + " host-" + last), std::string::npos) << replay;
    EXPECT_NE(output_of(machine, {"trace", "--gpu", last, "--replay"}).find("identical"), std::string::npos);
    EXPECT_NE(text_of(machine.state() + "/device-" + last + "/trace").find(" device=host-" + last), std::string::npos);
    output_of(machine, {"trace", machine.path("timeline.svg")});
    const std::string picture = text_of(machine.path("timeline.svg"));
    for (int device = 0; device < GetParam(); ++device)
        EXPECT_NE(picture.find("gpu " + std::to_string(device) + " host-"), std::string::npos) << device;
}

TEST_P(HostDevices, AJobStaysWhereItWasWhenTheServiceIsKilled) {
    start_two_each();
    std::map<std::string, int> before;
    for (int i = 0; i < 2 * GetParam(); ++i) before["job" + std::to_string(i)] = jobs.gpu_of("job" + std::to_string(i));
    machine.service().signal(SIGKILL);
    machine.service().wait();
    machine.start_service();
    for (const auto& [name, gpu] : before) {
        ASSERT_TRUE(eventually([&] { return machine.row(name).contains("client"); })) << name << machine.status();
        EXPECT_EQ(jobs.gpu_of(name), gpu) << name;
        EXPECT_TRUE(machine.goes_on(name)) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(TwoAndFour, HostDevices, ::testing::Values(2, 4));

TEST(HostDevicesByChoice, TheUserNamesOne) {
    Machine machine({"--device", "host:3"});
    Devices jobs(machine);
    for (const auto& [name, gpu, expected] :
         {std::tuple("a", "1", 1), std::tuple("b", "host-2", 2), std::tuple("c", "1", 1)}) {
        jobs.run(name, {"--gpu", gpu});
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
        EXPECT_EQ(jobs.gpu_of(name), expected) << name;
        EXPECT_EQ(jobs.placement_of(name), "said");
    }
    jobs.run("d", {"--gpu", "1,2"});
    ASSERT_TRUE(jobs.works("d"));
    EXPECT_EQ(jobs.gpu_of("d"), 2) << "one of those, where the fewest jobs are";
    jobs.run("e", {"--gpu", "auto"});
    ASSERT_TRUE(jobs.works("e"));
    EXPECT_EQ(jobs.gpu_of("e"), 0);
    Process& wrong = jobs.run("f", {"--gpu", "7"});
    EXPECT_EQ(wrong.wait(), 2);
    EXPECT_NE(wrong.output().find("--gpu: there is no GPU '7'; the service shares 0 (host-0), 1 (host-1), 2 (host-2)"),
              std::string::npos)
        << wrong.output();
}

TEST(HostDevicesByChoice, AnEngineAssignsOne) {
    Machine machine({"--device", "host:3"});
    Devices jobs(machine);
    for (const auto& [name, assigned, expected, placement] :
         {std::tuple("a", "1", 1, "assigned"), std::tuple("b", "1", 1, "assigned"), std::tuple("c", "7,2", 2, "assigned"),
          std::tuple("d", "GPU-5a1d5a1d", 0, "empty")}) {
        machine.also["CUDA_VISIBLE_DEVICES"] = assigned;
        jobs.run(name);
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
        EXPECT_EQ(jobs.gpu_of(name), expected) << name;
        EXPECT_EQ(jobs.placement_of(name), placement) << name;
    }
}

TEST(HostDevicesByChoice, BatchJobsArePackedAndInteractiveOnesSpread) {
    Machine machine({"--device", "host:2", "--placement", "pack"});
    Devices jobs(machine);
    for (const char* name : {"a", "b", "c"}) {
        jobs.run(name, {"--class", "batch"});
        ASSERT_TRUE(jobs.works(name));
    }
    EXPECT_EQ(jobs.counts(), (std::map<int, int>{{0, 3}})) << "all beside the first";
    EXPECT_EQ(jobs.placement_of("c"), "packed");
    for (const char* name : {"answers", "answers2"}) {
        jobs.run(name, {"--class", "interactive"});
        ASSERT_TRUE(jobs.works(name));
    }
    EXPECT_EQ(jobs.gpu_of("answers"), 1);
    EXPECT_EQ(jobs.gpu_of("answers2"), 0) << "not beside the other";
    EXPECT_EQ(jobs.placement_of("answers2"), "apart");
}

TEST(HostDevicesByChoice, OneDeviceIsAsEver) {
    Machine machine({"--device", "host"});
    Devices jobs(machine);
    jobs.run("a");
    ASSERT_TRUE(jobs.works("a"));
    EXPECT_EQ(jobs.placement_of("a"), "only");
    const std::string ps = output_of(machine, {"ps"});
    EXPECT_EQ(ps.find("GPU"), std::string::npos) << ps;
    EXPECT_EQ(ps.find("PLACED"), std::string::npos) << ps;
    EXPECT_EQ(text_of(machine.state() + "/trace").find("device="), std::string::npos);
}

// ---------------------------------------------------------------------------------------------------- GPUs (the stand-in)

/// Four GPUs of different sizes, and who uses how much of each.
class FourGpus : public ::testing::Test {
protected:
    explicit FourGpus(const Words& options = {})
        : machine(Words{"--device", "cuda"} + options, /*start=*/false), jobs(machine) {
        add_gpu(machine, {{"SALUS_STANDIN_DEVICES", "4"}, {"SALUS_STANDIN_MEMORY", sizes()}});
        watcher_ = std::make_unique<Part>(machine.also, [](const Line& line) {
            Standin::load();
            for (int gpu = line.hear(); gpu >= 0; gpu = line.hear()) {
                const auto nvml = device::cuda::Nvml::open(uuid_of(gpu));
                line.say(static_cast<int>(nvml.value().used().value_or(Bytes{}).count / kMiB));
            }
        });
        machine.start_service();
    }
    ~FourGpus() override { watcher_->line().say(-1); }

    static constexpr int kSizes_mib[] = {6144, 4096, 8192, 5120};
    static std::string sizes() {
        std::string all;
        for (const int size : kSizes_mib) all += (all.empty() ? "" : ",") + std::to_string(size * kMiB);
        return all;
    }
    int used_mib(int gpu) const {
        watcher_->line().say(gpu);
        return watcher_->line().hear();
    }
    void lose(int gpu) const { std::ofstream(machine.path("gpu.lost-" + std::to_string(gpu))); }

    Machine machine;
    Devices jobs;

private:
    std::unique_ptr<Part> watcher_;
};

TEST_F(FourGpus, SixteenJobsArePlacedAndNoGpuIsEverOverfull) {
    const json devices = machine.status()["service"]["devices"];
    ASSERT_EQ(devices.size(), 4u);
    for (int gpu = 0; gpu < 4; ++gpu) {
        const json& device = devices[static_cast<std::size_t>(gpu)];
        EXPECT_EQ(device.value("number", -1), gpu);
        EXPECT_EQ(device.value("gpu", ""), uuid_of(gpu));
        EXPECT_EQ(device.value("capacity_bytes", std::int64_t{0}) / kMiB, kSizes_mib[gpu]);
    }
    constexpr int kJobs = 16;
    std::vector<std::string> names;
    for (int i = 0; i < kJobs; ++i) {
        names.push_back("job" + std::to_string(i));
        jobs.run(names.back(), {}, "60", {"--persistent", "64MiB", "--ephemeral", "256MiB"});
    }
    std::map<std::string, std::pair<int, std::string>> seen;
    EXPECT_TRUE(eventually([&] {
        for (int gpu = 0; gpu < 4; ++gpu) EXPECT_LE(used_mib(gpu), kSizes_mib[gpu]) << gpu;
        const json status = machine.status();
        for (const json& row : status["jobs"]) {
            if (row.contains("client"))
                seen[row.value("name", "")] = {row.value("gpu_number", -1), row.value("placement", "")};
        }
        // Not the capacity, which falls for a moment while a process that has left keeps its memory.
        for (const json& device : status["service"]["devices"])
            EXPECT_LE(device.value("reserved_bytes", std::int64_t{0}), kSizes_mib[device.value("number", 0)] * kMiB);
        return std::ranges::none_of(names, [&](const std::string& name) { return jobs[name].runs(); });
    })) << machine.status();
    std::map<int, int> counts;
    for (const std::string& name : names) {
        EXPECT_EQ(jobs[name].wait(), 0) << jobs[name].output();
        EXPECT_EQ(machine.report(name)["counters"].value("shared", 0), 1) << jobs[name].output();
        EXPECT_FALSE(seen[name].second.empty()) << name << " has a reason";
        ++counts[seen[name].first];
    }
    EXPECT_EQ(counts.size(), 4u) << "all GPUs were used";
    output_of(machine, {"trace", "--replay"});
}

TEST_F(FourGpus, OneThatIsLostIsClosedAndTheOthersGoOn) {
    for (int gpu = 0; gpu < 4; ++gpu) {
        const std::string name = "job" + std::to_string(gpu);
        jobs.run(name, {"--gpu", std::to_string(gpu)});
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
    }
    lose(1);
    ASSERT_TRUE(eventually([&] { return !machine.status()["service"]["devices"][1].value("lost", "").empty(); }));
    EXPECT_NE(machine.log().find("the GPU 1 (" + uuid_of(1) + ") is lost"), std::string::npos) << machine.log();
    EXPECT_TRUE(eventually([&] {
        return jobs["job1"].output().find("the GPU 1 (" + uuid_of(1) + ") is lost") != std::string::npos;
    })) << jobs["job1"].output();
    for (const char* name : {"job0", "job2", "job3"}) {
        EXPECT_TRUE(machine.goes_on(name)) << name;
        EXPECT_TRUE(jobs[name].runs()) << name;
    }
    if (jobs["job1"].runs()) {
        EXPECT_EQ(machine.state_of("job1"), "lost") << machine.row("job1");
    }
    for (int i = 0; i < 3; ++i) {
        const std::string name = "new" + std::to_string(i);
        jobs.run(name);
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
        EXPECT_NE(jobs.gpu_of(name), 1);
    }
    Process& wanted = jobs.run("wanted", {"--gpu", "1", "--require"});
    EXPECT_EQ(wanted.wait(), 125);
    EXPECT_NE(wanted.output().find("is lost"), std::string::npos) << wanted.output();
    const std::string status = output_of(machine, {"status"});
    EXPECT_NE(status.find("1: " + uuid_of(1) + ", lost: no job goes there any more"), std::string::npos) << status;
}

TEST_F(FourGpus, JobsStayWhereTheyWereWhenTheServiceIsKilled) {
    for (const int gpu : {3, 1, 2}) {
        const std::string name = "job" + std::to_string(gpu);
        jobs.run(name, {"--gpu", std::to_string(gpu)});
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
    }
    machine.service().signal(SIGKILL);
    machine.service().wait();
    machine.start_service();
    for (const int gpu : {3, 1, 2}) {
        const std::string name = "job" + std::to_string(gpu);
        ASSERT_TRUE(eventually([&] { return machine.row(name).contains("client"); })) << machine.status();
        EXPECT_EQ(jobs.gpu_of(name), gpu);
        EXPECT_EQ(jobs.placement_of(name), "stayed");
        EXPECT_TRUE(machine.goes_on(name)) << name;
    }
}

TEST_F(FourGpus, DoctorAndStatusNameAll) {
    machine.also["PATH"] = machine.path("nowhere");  // no Python, which takes its time
    Process doctor = machine.salus({"doctor"});
    doctor.wait();
    const std::string status = output_of(machine, {"status", "--json"});
    for (int gpu = 0; gpu < 4; ++gpu) {
        EXPECT_NE(doctor.output().find("GPU " + std::to_string(gpu) + " "), std::string::npos) << doctor.output();
        EXPECT_NE(doctor.output().find(uuid_of(gpu)), std::string::npos) << doctor.output();
        EXPECT_NE(status.find(uuid_of(gpu)), std::string::npos);
    }
}

TEST_F(FourGpus, WhatTheUserHasAssignedWinsInEverySpelling) {
    const std::string first = uuid_of(0), third = uuid_of(2);
    const struct {
        const char* visible;
        Words options;
        int gpu;
        const char* placement;
        std::string job_sees;
    } rows[] = {
        {"2", {}, 2, "assigned", third},
        {third.c_str(), {}, 2, "assigned", third},
        {"GPU-5a1d5a1d-0000-4000-8000-000000000002", {}, 2, "assigned", third},
        {"3,0", {}, 3, "assigned", "3,0"},
        {"0,1,2,3", {}, 0, "assigned", "0,1,2,3"},
        {"2", {"--gpu", "0"}, 0, "said", first},
        {"1", {"--gpu", "auto"}, 2, "empty", third},  // the largest
    };
    for (const auto& row : rows) {
        machine.also["CUDA_VISIBLE_DEVICES"] = row.visible;
        const std::string file = machine.path("sees");
        Process run = machine.salus(Words{"run", "--name", "asks"} + row.options +
                                    Words{"--", "sh", "-c", "echo -n $CUDA_VISIBLE_DEVICES >" + file + "; sleep 600"});
        ASSERT_TRUE(eventually([&] { return !text_of(file).empty(); })) << run.output();
        EXPECT_EQ(text_of(file), row.job_sees) << row.visible;
        EXPECT_EQ(jobs.gpu_of("asks"), row.gpu) << row.visible;
        EXPECT_EQ(jobs.placement_of("asks"), row.placement) << row.visible;
        run.end();
        std::filesystem::remove(file);
        ASSERT_TRUE(eventually([&] { return machine.row("asks").empty(); }));
    }
    for (const char* none : {"", "-1", "9", "GPU-5a1d5a1d", "NoDevFiles"}) {
        machine.also["CUDA_VISIBLE_DEVICES"] = none;
        Process run = machine.salus({"run", "--", "sh", "-c", "echo \"sees '$CUDA_VISIBLE_DEVICES'\""});
        EXPECT_EQ(run.wait(), 0);
        EXPECT_NE(run.output().find("names no GPU that the service shares; the job starts without sharing"),
                  std::string::npos)
            << none << run.output();
        EXPECT_NE(run.output().find(std::string("sees '") + none + "'"), std::string::npos) << run.output();
    }
}

// CUDA counts the fastest first then, and nobody else knows which one that is.
TEST_F(FourGpus, AmongDifferentModelsANumberStaysForCudaToRead) {
    machine.also["SALUS_STANDIN_MODELS"] = "slow,slow,fast,slow";
    const std::string file = machine.path("sees");
    const auto sees = [&](const Words& options) {
        Process run =
            machine.salus(Words{"run"} + options + Words{"--", "sh", "-c", "echo -n $CUDA_VISIBLE_DEVICES >" + file});
        EXPECT_EQ(run.wait(), 0) << run.output();
        return text_of(file);
    };
    machine.also["CUDA_VISIBLE_DEVICES"] = "2";
    EXPECT_EQ(sees({}), "2");
    EXPECT_EQ(sees({"--gpu", "2"}), uuid_of(2)) << "that is a number of nvidia-smi";
    machine.also["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
    EXPECT_EQ(sees({}), uuid_of(2));
    machine.also.erase("CUDA_DEVICE_ORDER");
    machine.also["SALUS_STANDIN_MODELS"] = "slow,slow,slow,slow";
    EXPECT_EQ(sees({}), uuid_of(2));
}

TEST_F(FourGpus, AJobWithSeveralSharesTheOneThatItUses) {
    machine.also["CUDA_VISIBLE_DEVICES"] = "3,1";
    jobs.run("several");
    ASSERT_TRUE(jobs.works("several")) << jobs["several"].output();
    EXPECT_EQ(jobs.gpu_of("several"), 3);
    EXPECT_GT(used_mib(3), 0);
    EXPECT_EQ(used_mib(1), 0);
}

/// A job whose process uses another GPU than the first of those that it was assigned.
TEST_F(FourGpus, AJobIsCountedWhereItsProcessIs) {
    machine.also["CUDA_VISIBLE_DEVICES"] = "3,1";
    const std::string file = machine.path("inner");
    Process run = machine.salus({"run", "--name", "inner", "--", "sh", "-c",
                                 "CUDA_VISIBLE_DEVICES=" + uuid_of(1) + " exec " + SALUS_JOB_BINARY +
                                     " --block 4MiB --work 200 --think-ms 2 --iterations 1000000 --persistent 4MiB "
                                     "--ephemeral 8MiB"});
    ASSERT_TRUE(machine.goes_on("inner")) << run.output() << machine.log();
    EXPECT_EQ(jobs.gpu_of("inner"), 1);
    machine.also.erase("CUDA_VISIBLE_DEVICES");
    for (const char* name : {"a", "b", "c"}) {
        jobs.run(name);
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
    }
    std::set<int> used;
    for (const char* name : {"a", "b", "c"}) used.insert(jobs.gpu_of(name));
    EXPECT_EQ(used, (std::set<int>{0, 2, 3})) << "one job each, and nobody beside the first";
}

/// The service sees two of them, in an order of its own.
class SomeGpus : public FourGpus {
protected:
    SomeGpus() : FourGpus({}) {
        machine.service().end();
        machine.also["CUDA_VISIBLE_DEVICES"] = uuid_of(3) + ",1";
        machine.start_service();
        machine.also.erase("CUDA_VISIBLE_DEVICES");
    }
};

TEST_F(SomeGpus, AServiceManagesThoseThatItsEnvironmentAllows) {
    const json devices = machine.status()["service"]["devices"];
    ASSERT_EQ(devices.size(), 2u) << devices;
    EXPECT_EQ(devices[0].value("number", -1), 3);
    EXPECT_EQ(devices[1].value("number", -1), 1);
    jobs.run("one", {"--gpu", "1"});
    ASSERT_TRUE(jobs.works("one")) << jobs["one"].output();
    EXPECT_EQ(jobs.gpu_of("one"), 1);
    Process& other = jobs.run("other", {"--gpu", "0"});
    EXPECT_EQ(other.wait(), 2);
    EXPECT_NE(other.output().find("there is no GPU '0'"), std::string::npos) << other.output();
}

TEST_F(SomeGpus, AClientOnAGpuThatIsNotSharedIsTurnedAway) {
    machine.also["CUDA_VISIBLE_DEVICES"] = uuid_of(0);
    machine.also["SALUS_DEVICE"] = "cuda";
    Process& job = machine.job("elsewhere", {"--iterations", "20", "--persistent", "4MiB", "--ephemeral", "8MiB"});
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(machine.report("elsewhere")["counters"].value("shared", -1), 0);
    EXPECT_NE(machine.log().find("the process uses the GPU " + uuid_of(0) + "; the service shares 3 ("), std::string::npos)
        << machine.log();
}

TEST(TwoGpus, AJobThatWaitsIsPlacedAnewWhenAnotherGpuIsFree) {
    Machine machine({"--device", "cuda"}, /*start=*/false);
    // One job at a time has room to learn what it needs.
    add_gpu(machine, {{"SALUS_STANDIN_DEVICES", "2"}, {"SALUS_STANDIN_MEMORY", std::to_string(1800 * kMiB)}});
    machine.start_service();
    Devices jobs(machine);
    for (const char* name : {"a", "b"}) {
        jobs.run(name);
        ASSERT_TRUE(jobs.works(name)) << jobs[name].output();
    }
    EXPECT_EQ(jobs.counts(), (std::map<int, int>{{0, 1}, {1, 1}}));
    jobs.run("c");
    ASSERT_TRUE(eventually([&] { return machine.state_of("c") == "waiting"; })) << machine.status();
    EXPECT_EQ(jobs.placement_of("c"), "queue");
    const int before = jobs.gpu_of("c");
    jobs[before == 0 ? "b" : "a"].signal(SIGTERM);  // the other GPU is free then
    ASSERT_TRUE(jobs.works("c")) << machine.status() << machine.log();
    EXPECT_EQ(jobs.gpu_of("c"), 1 - before) << machine.log();
    EXPECT_TRUE(jobs[before == 0 ? "a" : "b"].runs());
    EXPECT_EQ(machine.log().find("MPS"), std::string::npos) << machine.log();
}

}  // namespace
}  // namespace salus::test
