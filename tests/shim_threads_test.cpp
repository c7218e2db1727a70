// Programs whose threads use the GPU without pause while one of them does what disturbs the others most
// (tests/shim/threads.cpp), beside another job, on the stand-in GPU under the shim.
#include "tests/shim_machine.h"

namespace salus::test {
namespace {

const bool kLong = std::getenv("SALUS_TEST_ALL") != nullptr;
constexpr int kLimitMib = 64;

struct CrowdedMachine : ShimMachine {
    CrowdedMachine() : ShimMachine({"--lanes", "1", "--min-turn-ms", "1"}) {
        also["SALUS_STANDIN_REUSE"] = "1";
        other = run({"--name", "other"}, {"dlsym", "--us", "500", "--seconds", "600"});
        EXPECT_TRUE(eventually([&] { return state_of("other") == "running"; })) << other.output();
    }
    Process disturbed(const std::string& mode) {
        return salus({"run", "--name", "disturbed", "--memory", std::to_string(kLimitMib) + "MiB", "--", SALUS_SHIM_THREADS,
                      mode, kLong ? "15000" : "1500"});
    }
    /// What it counted: its last line, because it may say why an allocation fails, and what it starts speaks before.
    static long count_of(const Process& process) {
        const std::string output = "\n" + process.output();
        return std::atol(output.substr(output.rfind('\n', output.size() - 2) + 1).c_str());
    }
    bool other_goes_on() const {
        return other.runs() && eventually([&] { return state_of("other") == "running"; });
    }
    Process other;
};

class ShimThreads : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ShimThreads, ::testing::Values("reopen", "fork", "exec", "contexts", "detach", "jump"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(ShimThreads, LaunchOnWhatever) {
    const std::string mode = GetParam();
#if defined(__SANITIZE_THREAD__)
    if (mode == "jump") GTEST_SKIP() << "the sanitizer delivers a signal later, when a lock may be held";
#endif
    CrowdedMachine machine;
    if (mode == "fork") machine.also["ASAN_OPTIONS"] = "detect_leaks=0";  // a child has not the threads that own what it has
    Process process = machine.disturbed(mode);
    EXPECT_EQ(process.wait(), 0) << process.output() << machine.log();
    EXPECT_GT(machine.count_of(process), 0) << process.output();
    EXPECT_TRUE(machine.other_goes_on()) << machine.status();
}

TEST(ShimCrowd, MayCallTheDriverFirstAllAtOnce) {
    CrowdedMachine machine;
    for (int round = 0; round < (kLong ? 50 : 5); ++round) {
        Process process = machine.disturbed("first-calls");
        EXPECT_EQ(process.wait(), 0) << process.output() << machine.log();
    }
}

TEST(ShimCrowd, MayDetachWhileTheServiceIsKilledAndRestarted) {
    CrowdedMachine machine;
    Process process = machine.disturbed("detach");
    for (int restart = 0; restart < (kLong ? 20 : 3); ++restart) {
        EXPECT_TRUE(eventually([&] { return !machine.row("disturbed").empty() || !process.runs(); })) << machine.log();
        machine.service().signal(SIGKILL);
        machine.service().wait();
        machine.start_service();
    }
    EXPECT_EQ(process.wait(), 0) << process.output() << machine.log();
    EXPECT_TRUE(machine.other_goes_on()) << machine.status();
}

/// What is given back can be had again: all that --memory allows.
TEST(ShimCrowd, MayTakeMemoryAndGiveItBackAtOnce) {
    CrowdedMachine machine;
    Process process = machine.disturbed("memory");
    EXPECT_EQ(process.wait(), 0) << process.output() << machine.log();
    EXPECT_EQ(machine.count_of(process), kLimitMib) << process.output();
}

/// The driver gives the handle of what is gone to another thread, before the first one hears that it is gone.
TEST(ShimCrowd, KeepWhatHasTheHandleOfWhatIsGone) {
    constexpr int kKeptMib = 48;
    CrowdedMachine machine;
    for (int round = 0; round < (kLong ? 20 : 2); ++round) {
        Process process = machine.disturbed("handles");
        EXPECT_EQ(process.wait(), 0) << process.output() << machine.log();
        EXPECT_EQ(machine.count_of(process), kLimitMib - kKeptMib) << process.output();
    }
}

}  // namespace
}  // namespace salus::test
