// Something happens to one script in the middle of an iteration; the other one, in the same lane, does not notice.
#include <sys/resource.h>

#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

class TorchFaults : public TorchTest {
protected:
    TorchFaults() : TorchTest(/*usual=*/1) {}
    void SetUp() override {
        TorchTest::SetUp();
        if (IsSkipped()) return;
        environment_ = machine_.environment();
        environment_.merge(torch_environment());
    }

    Process run(const std::string& name, std::vector<std::string> arguments) {
        std::vector<std::string> command = {
            SALUS_BINARY, "run", "--name", name, "--", python(), SALUS_SOURCE_DIR "/tests/faults/" + arguments[0]};
        command.insert(command.end(), arguments.begin() + 1, arguments.end());
        return Process(command, environment_, machine_.path(name + ".out"));
    }
    /// One that goes on for some seconds, past its profiling.
    Process start_steady(int iterations = 200) {
        Process steady = run("steady", {"steady.py", std::to_string(iterations)});
        EXPECT_TRUE(eventually([&] { return machine_.iterations("steady") >= 5; })) << steady.output() << machine_.log();
        return steady;
    }
    /// One to which that happens: it is in the middle of an iteration now, or was.
    Process start_unlucky(const std::string& what) {
        Process unlucky = run("unlucky", {"unlucky.py", what});
        EXPECT_TRUE(eventually([&] { return unlucky.output().find("here") != std::string::npos; }))
            << unlucky.output() << machine_.log();
        return unlucky;
    }
    void expect_undisturbed(Process& steady) {
        EXPECT_EQ(steady.wait(120), 0) << steady.output();
        // Who has to wait is told so, once.
        EXPECT_EQ(std::regex_replace(steady.output(), std::regex("salus: steady waits.*\n"), ""), result_alone());
    }
    /// What the steady script prints without Salus; the same for all these tests, so it is kept.
    std::string result_alone() {
        const std::string kept = SALUS_SOURCE_DIR "/build/steady-" + version();
        const auto script_changed = std::filesystem::last_write_time(SALUS_SOURCE_DIR "/tests/faults/steady.py");
        if (std::filesystem::exists(kept) && std::filesystem::last_write_time(kept) > script_changed) return text_of(kept);
        Process alone({python(), SALUS_SOURCE_DIR "/tests/faults/steady.py", "200"}, torch_environment(),
                      machine_.path("alone.out"));
        EXPECT_EQ(alone.wait(120), 0) << alone.output();
        const std::string mine = kept + "." + std::to_string(::getpid());
        std::ofstream(mine) << alone.output();
        std::filesystem::rename(mine, kept);  // another of these tests may be doing the same
        return alone.output();
    }
    /// The process that Python is, below `salus run`.
    int pid_of(const std::string& name) const { return machine_.row(name).value("pid", 0); }

    Machine machine_{{"--capacity", "1GiB", "--lanes", "1", "--policy", "rr", "--rehome-after-s", "0.3"}};
    std::map<std::string, std::string> environment_;
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchFaults, ::testing::Values(0, 1), name_of);

TEST_P(TorchFaults, AScriptIsKilled) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("hangs");
    const int pid = pid_of("unlucky");
    ASSERT_GT(pid, 0);
    ::kill(pid, SIGKILL);
    EXPECT_EQ(unlucky.wait(), 128 + SIGKILL);
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptRaises) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("raises");
    EXPECT_EQ(unlucky.wait(), 1);
    EXPECT_NE(unlucky.output().find("a bug of the script"), std::string::npos);
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptExitsInMidIteration) {
    Process steady = start_steady();
    for (const auto& [what, status] : {std::pair{"exits", 7}, std::pair{"leaves", 8}}) {
        Process unlucky = start_unlucky(what);
        EXPECT_EQ(unlucky.wait(), status) << unlucky.output();
    }
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptForksAndItsChildOutlivesIt) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("forks");
    EXPECT_EQ(unlucky.wait(), 9) << unlucky.output();
    EXPECT_TRUE(machine_.goes_on("steady", 10)) << "while the child is still there";
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptAsksForMoreThanThereIs) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("asks for too much");
    EXPECT_EQ(unlucky.wait(), 6) << unlucky.output();
    EXPECT_NE(unlucky.output().find("refused"), std::string::npos);
    expect_undisturbed(steady);
}

// With so little address space the client's windows do not fit: it runs as if there were no Salus, and says so.
TEST_P(TorchFaults, AScriptHasALimitOfMemory) {
    Process steady = start_steady();
    Process limited({"/bin/sh", "-c", "ulimit -v 3000000; exec \"$@\"", "sh", SALUS_BINARY, "run", "--", python(),
                     SALUS_SOURCE_DIR "/tests/faults/steady.py", "20"},
                    environment_, machine_.path("limited.out"));
    EXPECT_EQ(limited.wait(), 0) << limited.output();
    EXPECT_NE(limited.output().find("the job runs without sharing"), std::string::npos) << limited.output();
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptIsStopped) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("hangs");
    const int pid = pid_of("unlucky");
    ASSERT_GT(pid, 0);
    ::kill(pid, SIGSTOP);
    EXPECT_TRUE(eventually([&] { return machine_.state_of("unlucky") == "stopped"; }));
    expect_undisturbed(steady);
    ::kill(pid, SIGKILL);
    EXPECT_EQ(unlucky.wait(), 128 + SIGKILL);
}

TEST_P(TorchFaults, AScriptIsInItsDebugger) {
    Process steady = start_steady();
    int input[2];
    ASSERT_EQ(::pipe(input), 0);
    const std::string script = SALUS_SOURCE_DIR "/tests/faults/unlucky.py";
    // Its prompt waits for a command that comes only when the other job is through.
    Process unlucky({"/bin/sh", "-c", "exec \"$@\" <&" + std::to_string(input[0]), "sh", SALUS_BINARY, "run", "--name",
                     "unlucky", "--", python(), script, "debugs"},
                    environment_, machine_.path("unlucky.out"));
    EXPECT_TRUE(eventually([&] { return unlucky.output().find("(Pdb)") != std::string::npos; })) << unlucky.output();
    expect_undisturbed(steady);
    const std::string quit = "import os; os._exit(4)\n";
    ASSERT_EQ(::write(input[1], quit.data(), quit.size()), static_cast<ssize_t>(quit.size()));
    EXPECT_EQ(unlucky.wait(), 4) << unlucky.output();
    ::close(input[0]);
    ::close(input[1]);
}

TEST_P(TorchFaults, AScriptWaitsInMidIterationForThreadsOfItsOwn) {
    Process steady = start_steady();
    Process unlucky = start_unlucky("waits for threads");
    EXPECT_EQ(unlucky.wait(), 5) << unlucky.output();
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptIsInterruptedWhileItWaits) {
    Process steady = start_steady();
    machine_.salus({"policy", "fifo"}).wait();
    Process waiting = run("unlucky", {"unlucky.py", "hangs"});
    ASSERT_TRUE(eventually([&] { return machine_.state_of("unlucky") == "waiting"; })) << machine_.log();
    ::kill(pid_of("unlucky"), SIGINT);
    EXPECT_EQ(waiting.wait(20), 128 + SIGINT) << waiting.output();
    EXPECT_NE(waiting.output().find("KeyboardInterrupt"), std::string::npos) << waiting.output();
    EXPECT_EQ(waiting.output().find("here"), std::string::npos);
    expect_undisturbed(steady);
}

TEST_P(TorchFaults, AScriptThatWaitsForItsDataLoaderHoldsNobodyUp) {
    for (const char* method : {"fork", "spawn"}) {
        SCOPED_TRACE(method);
        Process slow = run("slow", {"slow_data.py", method});
        ASSERT_TRUE(eventually([&] { return machine_.iterations("slow") >= 5; })) << slow.output() << machine_.log();
        Process steady = start_steady();
        ASSERT_TRUE(eventually([&] { return machine_.iterations("steady") >= 150; }));
        const nlohmann::json row = machine_.row("steady");
        EXPECT_LT(row.value("waited_s", 1e9), 0.3 * row.value("busy_s", 0.0)) << row;
        EXPECT_EQ(machine_.status()["jobs"].size(), 2u) << "workers are no clients";
        expect_undisturbed(steady);
        ::kill(pid_of("slow"), SIGKILL);
        EXPECT_EQ(slow.wait(), 128 + SIGKILL);
    }
}

}  // namespace
}  // namespace salus::test
