// Jobs that their users suspend, idle ones that are paged out, and Ctrl-Z, with real processes.
#include <sys/wait.h>

#include "device/host/write_guard.h"
#include "tests/processes_fixture.h"
#include "tests/standin/gpu_machine.h"

namespace salus::test {
namespace {

constexpr std::int64_t kMiBytes = std::int64_t{1} << 20;

Words suspend_job(const std::string& persistent = "64MiB") {
    return {"--persistent", persistent, "--ephemeral", "16MiB", "--work", "200", "--iterations", "1000000"};
}
/// After this iteration it does nothing any more.
Words idle_job_after(int iteration) {
    return suspend_job() + Words{"--hang-at", std::to_string(iteration), "--hang", "idle"};
}

class Suspend : public ::testing::Test {
protected:
    explicit Suspend(const Words& more = {}) : machine_(Words{"--capacity", "1GiB", "--device", "host"} + more) {}
    ~Suspend() override { machine_.salus({"stop", "--force"}).wait(); }

    /// It succeeds; returns what it said.
    std::string says(const Words& command, int status = 0) {
        Process process = machine_.salus(command);
        EXPECT_EQ(process.wait(), status) << command[0] << ": " << process.output();
        return process.output();
    }
    std::int64_t bytes(const std::string& name, const char* key) const {
        return machine_.row(name).value(key, std::int64_t{-1});
    }
    bool is_off(const std::string& name) const {
        const nlohmann::json row = machine_.row(name);
        return row.value("state", "") == "suspended" && !row.value("suspending", true) && !row.contains("lane");
    }

    Machine machine_;
};

TEST_F(Suspend, AJobGivesUpTheDeviceUntilItIsResumed) {
    machine_.job("job", suspend_job());
    machine_.job("other", suspend_job());
    ASSERT_TRUE(machine_.goes_on("job") && machine_.goes_on("other"));
    EXPECT_NE(says({"suspend", "job", "other"}).find("leave the device\n"), std::string::npos);
    for (const char* name : {"job", "other"}) {
        ASSERT_TRUE(eventually([&] { return is_off(name); })) << machine_.status();
        EXPECT_EQ(bytes(name, "on_device_bytes"), 0);
        EXPECT_GE(bytes(name, "paged_out_bytes"), 64 * kMiBytes);
    }
    EXPECT_EQ(machine_.status()["service"].value("reserved_bytes", -1), 0);
    const std::uint64_t before = machine_.iterations("job");
    sleep_s(0.3);
    EXPECT_EQ(machine_.iterations("job"), before);
    EXPECT_NE(says({"ps"}).find("suspended"), std::string::npos);
    EXPECT_NE(says({"pause", "job"}, 1).find("is suspended already"), std::string::npos);
    says({"resume", "job", "other"});
    EXPECT_TRUE(machine_.goes_on("job") && machine_.goes_on("other")) << "and their memory is as it was: they check it";
}

TEST_F(Suspend, ItHoldsUnderTheNextServiceToo) {
    machine_.job("job", suspend_job());
    ASSERT_TRUE(machine_.goes_on("job"));
    says({"suspend", "job"});
    ASSERT_TRUE(eventually([&] { return is_off("job"); }));
    const std::uint64_t before = machine_.iterations("job");
    machine_.service().end();
    machine_.start_service();
    ASSERT_TRUE(eventually([&] { return is_off("job"); })) << machine_.status();
    EXPECT_GE(bytes("job", "paged_out_bytes"), 64 * kMiBytes) << machine_.row("job");
    sleep_s(0.2);
    EXPECT_EQ(machine_.iterations("job"), before) << "not even one iteration";
    says({"resume", "job"});
    EXPECT_TRUE(machine_.goes_on("job"));
}

TEST_F(Suspend, AJobThatHasNotAttachedIsSuspendedWhenItDoes) {
    Process run = machine_.salus(Words{"run", "--name", "late", "--", SALUS_JOB_BINARY, "--quiet", "--startup-ms", "500"} +
                                 suspend_job());
    ASSERT_TRUE(eventually([&] { return machine_.state_of("late") == "starting"; }));
    EXPECT_NE(says({"suspend", "late"}).find("is suspended; it begins when it is resumed"), std::string::npos);
    EXPECT_EQ(machine_.state_of("late"), "suspended");
    ASSERT_TRUE(eventually([&] { return machine_.row("late").contains("iterations"); }));
    sleep_s(0.2);
    EXPECT_EQ(machine_.iterations("late"), 0u);
    says({"resume", "late"});
    EXPECT_TRUE(machine_.goes_on("late"));
    says({"kill", "late"});
    EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST_F(Suspend, AJobThatIsSuspendedCanBeKilled) {
    Process run = machine_.salus(Words{"run", "--name", "job", "--", SALUS_JOB_BINARY, "--quiet"} + suspend_job());
    ASSERT_TRUE(machine_.goes_on("job"));
    says({"suspend", "job"});
    ASSERT_TRUE(eventually([&] { return is_off("job"); }));
    says({"kill", "job"});
    EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST_F(Suspend, WhatCannotBePagedStaysAndTheLineSaysWhy) {
    machine_.job("threads", suspend_job() + Words{"--threads", "2"});
    ASSERT_TRUE(machine_.goes_on("threads"));
    EXPECT_NE(says({"suspend", "threads"}).find("stay on the device: several threads use its memory"), std::string::npos);
    ASSERT_TRUE(eventually([&] { return is_off("threads"); })) << machine_.status();
    EXPECT_GE(bytes("threads", "on_device_bytes"), 64 * kMiBytes);
    says({"resume", "threads"});
    EXPECT_TRUE(machine_.goes_on("threads"));
}

// ---------------------------------------------------------------------------------------------------------------- idle

TEST_F(Suspend, IdleJobsGoAndComeBackByThemselves) {
    if (!device::WriteGuard({}).holds()) GTEST_SKIP() << "this kernel holds no writers";
    machine_.job("idle", idle_job_after(20));
    machine_.job("server", suspend_job() + Words{"--think-ms", "1000"});
    machine_.job("busy", suspend_job());
    ASSERT_TRUE(eventually([&] { return machine_.state_of("idle") == "idle" && machine_.iterations("server") >= 3; }))
        << machine_.status();
    ASSERT_TRUE(eventually([&] { return machine_.state_of("server") == "idle"; }));
    const std::string said = says({"page-out", "--idle"});
    EXPECT_NE(said.find("busy"), std::string::npos) << said;
    EXPECT_NE(said.find("idle (job "), std::string::npos) << said;
    EXPECT_NE(said.find("are on the host"), std::string::npos) << said;
    EXPECT_EQ(bytes("idle", "on_device_bytes"), 0) << machine_.row("idle");
    EXPECT_GE(bytes("idle", "paged_out_bytes"), 64 * kMiBytes);
    EXPECT_TRUE(machine_.goes_on("server", 2)) << "it is back, and finds what it wrote";
    EXPECT_TRUE(machine_.goes_on("busy"));
}

class PageIdle : public Suspend {
protected:
    PageIdle() : Suspend({"--page-idle-s", "0.3"}) {}
};

TEST_F(PageIdle, AJobThatIdlesForLongGoesForNobody) {
    if (!device::WriteGuard({}).holds()) GTEST_SKIP() << "this kernel holds no writers";
    machine_.job("idle", idle_job_after(20));
    machine_.job("busy", suspend_job());
    const auto is_out = [&] { return machine_.iterations("idle") >= 20 && machine_.state_of("idle") == "paged out"; };
    ASSERT_TRUE(eventually(is_out)) << machine_.status();
    EXPECT_GE(bytes("idle", "paged_out_bytes"), 64 * kMiBytes);
    EXPECT_TRUE(machine_.goes_on("busy"));
}

// -------------------------------------------------------------------------------------------------------------- Ctrl-Z

TEST_F(Suspend, CtrlZTakesAJobOffTheDeviceAndStopsIt) {
    Process run = machine_.salus(Words{"run", "--name", "job", "--", "sh", "-c",
                                       std::string(SALUS_JOB_BINARY) + " --quiet --name job --persistent 64MiB --ephemeral "
                                                                       "16MiB --work 200 --iterations 1000000; exit 7"});
    ASSERT_TRUE(machine_.goes_on("job"));
    const int attached = machine_.row("job")["pid"];
    const double asked = seconds_now();
    for (const pid_t pid : {run.pid(), static_cast<pid_t>(attached)}) ::kill(pid, SIGTSTP);  // as a terminal does
    ASSERT_TRUE(eventually([&] { return os::is_stopped(run.pid()) && os::is_stopped(attached); }));
    EXPECT_LT(seconds_now() - asked, 10.0);
    EXPECT_EQ(machine_.state_of("job"), "suspended");
    EXPECT_EQ(bytes("job", "on_device_bytes"), 0) << machine_.row("job");
    ::kill(run.pid(), SIGCONT);
    EXPECT_TRUE(machine_.goes_on("job")) << machine_.status();
    EXPECT_FALSE(os::is_stopped(attached));
    ::kill(attached, SIGTERM);
    EXPECT_EQ(run.wait(), 7);
}

TEST_F(Suspend, AJobThatWasSuspendedBeforeCtrlZStaysSo) {
    Process run = machine_.salus(Words{"run", "--name", "job", "--", SALUS_JOB_BINARY, "--quiet"} + suspend_job());
    ASSERT_TRUE(machine_.goes_on("job"));
    says({"suspend", "job"});
    ASSERT_TRUE(eventually([&] { return is_off("job"); }));
    run.signal(SIGTSTP);
    ASSERT_TRUE(eventually([&] { return os::is_stopped(run.pid()); }));
    run.signal(SIGCONT);
    ASSERT_TRUE(eventually([&] { return !os::is_stopped(run.pid()); }));
    sleep_s(0.2);
    EXPECT_EQ(machine_.state_of("job"), "suspended");
    says({"resume", "job"});
    EXPECT_TRUE(machine_.goes_on("job"));
    says({"kill", "job"});
    EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST_F(Suspend, CtrlZWithoutAServiceStopsTheJobAllTheSame) {
    Process run = machine_.salus({"run", "--", "sleep", "1000"});
    ASSERT_TRUE(eventually([&] { return machine_.state_of("sleep") == "starting"; }));
    machine_.service().signal(SIGSTOP);
    machine_.service().end();
    run.signal(SIGTSTP);
    EXPECT_TRUE(eventually([&] { return os::is_stopped(run.pid()); }));
    run.signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return !os::is_stopped(run.pid()); }));
    run.signal(SIGTERM);
    EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

// ---------------------------------------------------------------------------------------------------- GPU, the stand-in

TEST(SuspendOnGpu, AJobGivesUpAllButItsRest) {
    GpuMachine machine({"--policy", "rr", "--page-gpu", "on", "--capacity", "600MiB"});
    const Words options = {"--persistent", "48MiB", "--ephemeral", "16MiB", "--block",      "4MiB",
                           "--work",       "2000",  "--touch",     "pages", "--iterations", "1000000"};
    machine.job("job", options);
    ASSERT_TRUE(machine.goes_on("job", 4)) << machine.status() << machine.log();
    const int before = machine.used_mib();
    Process suspend = machine.salus({"suspend", "job"});
    EXPECT_EQ(suspend.wait(), 0) << suspend.output();
    EXPECT_NE(suspend.output().find("leave the device"), std::string::npos) << suspend.output();
    ASSERT_TRUE(eventually([&] {
        const nlohmann::json row = machine.row("job");
        return row.value("state", "") == "suspended" && !row.value("suspending", true);
    })) << machine.status();
    EXPECT_LE(machine.used_mib(), before - 48) << "and its lane";
    EXPECT_GE(machine.row("job").value("paged_out_bytes", std::int64_t{0}), 48 * kMiBytes) << machine.row("job");
    Process page_out = machine.salus({"page-out", "--idle", "job"});
    EXPECT_EQ(page_out.wait(), 0) << page_out.output();
    Process resume = machine.salus({"resume", "job"});
    EXPECT_EQ(resume.wait(), 0) << resume.output();
    EXPECT_TRUE(machine.goes_on("job")) << machine.status() << machine.log();
}

TEST(SuspendOnGpu, WithoutPagingItIsPausedAndTheLineSaysWhatStays) {
    GpuMachine machine({"--capacity", "600MiB"});
    machine.job("job", suspend_job("32MiB"));
    ASSERT_TRUE(machine.goes_on("job", 4)) << machine.status() << machine.log();
    Process suspend = machine.salus({"suspend", "job"});
    EXPECT_EQ(suspend.wait(), 0) << suspend.output();
    EXPECT_NE(suspend.output().find("stay on the device: paging of this device is off"), std::string::npos)
        << suspend.output();
    ASSERT_TRUE(eventually([&] { return machine.state_of("job") == "suspended"; }));
    Process resume = machine.salus({"resume", "job"});
    EXPECT_EQ(resume.wait(), 0) << resume.output();
    EXPECT_TRUE(machine.goes_on("job"));
}

TEST(SuspendOnGpu, AJobThatWaitsToStartDoesNotStart) {
    GpuMachine machine({"--capacity", "600MiB"});
    const Words command = {SALUS_JOB_BINARY, "--quiet", "--persistent", "400MiB", "--ephemeral",  "16MiB",
                           "--touch",        "pages",   "--work",       "2000",   "--iterations", "1000000"};
    Process first = machine.salus(Words{"run", "--name", "first", "--"} + command);
    ASSERT_TRUE(machine.goes_on("first", 4)) << machine.status() << machine.log();
    Process second = machine.salus(Words{"run", "--name", "second", "--"} + command);
    ASSERT_TRUE(eventually([&] { return machine.state_of("second") == "waiting"; })) << machine.status();
    Process suspend = machine.salus({"suspend", "second"});
    EXPECT_EQ(suspend.wait(), 0);
    EXPECT_EQ(machine.state_of("second"), "suspended");
    Process kill = machine.salus({"kill", "first"});
    EXPECT_EQ(kill.wait(), 0);
    EXPECT_EQ(first.wait(), 128 + SIGTERM);
    sleep_s(0.5);
    EXPECT_EQ(machine.state_of("second"), "suspended");
    EXPECT_FALSE(machine.row("second").contains("iterations"));
    Process resume = machine.salus({"resume", "second"});
    EXPECT_EQ(resume.wait(), 0);
    EXPECT_TRUE(machine.goes_on("second", 4)) << machine.status() << machine.log();
}

}  // namespace
}  // namespace salus::test
