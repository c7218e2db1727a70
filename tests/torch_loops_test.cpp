// The matrix of loops: each script of tests/loops runs alone and as a job. Output and exit status are the same, and the
// iterations found are those that a person counts: each script says how many in its first lines.
#include <set>

#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

struct Loop {
    std::string name;
    std::string path;
    std::uint64_t iterations = 0;
    int status = 0;
    bool needs_torch_2 = false;
};

/// Those that run with any torch, or those that need torch 2.
std::vector<Loop> loops(bool needs_torch_2) {
    std::vector<Loop> all;
    for (const auto& entry : std::filesystem::directory_iterator(SALUS_SOURCE_DIR "/tests/loops")) {
        if (entry.path().extension() != ".py") continue;
        Loop loop{entry.path().filename().string(), entry.path().string(), 0, 0, false};
        std::ifstream script(loop.path);
        bool counted = false;
        for (std::string line; std::getline(script, line) && line.starts_with('#');) {
            std::istringstream words(line);
            std::string hash, key;
            words >> hash >> key;
            if (key == "iterations:") counted = static_cast<bool>(words >> loop.iterations);
            if (key == "status:") words >> loop.status;
            if (key == "torch:") loop.needs_torch_2 = true;
        }
        EXPECT_TRUE(counted) << loop.path << " does not say how many iterations it has";
        if (loop.needs_torch_2 == needs_torch_2) all.push_back(loop);
    }
    std::sort(all.begin(), all.end(), [](const Loop& a, const Loop& b) { return a.name < b.name; });
    return all;
}

class LoopTest : public TorchTest {
protected:
    explicit LoopTest(std::size_t usual) : TorchTest(usual) {}
    void expect_counted(const std::vector<Loop>& all);
};

void LoopTest::expect_counted(const std::vector<Loop>& all) {
    // Alone: all of them, one after another, each in a child of a process that has imported torch once.
    Machine machine({"--capacity", "2GiB", "--lanes", "1"});
    std::vector<std::string> run_alone = {python(), SALUS_SOURCE_DIR "/tests/run_alone.py", machine.path("")};
    for (const Loop& loop : all) run_alone.push_back(loop.path);
    Process alone(run_alone, torch_environment(), machine.path("alone.out"));
    // Jobs: one at a time, each a process of its own.
    auto environment = machine.environment();
    environment.merge(torch_environment());
    std::map<std::string, int> statuses;
    for (const Loop& loop : all) {
        Process job({"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", machine.path(loop.name + ".job.err"), SALUS_BINARY, "run",
                     "--", python(), loop.path},
                    environment, machine.path(loop.name + ".job.out"));
        statuses[loop.name] = job.wait(120);
    }
    ASSERT_EQ(alone.wait(300), 0) << alone.output();
    const std::string log = machine.log();
    for (const Loop& loop : all) {
        SCOPED_TRACE(loop.name);
        const std::string errors = text_of(machine.path(loop.name + ".job.err"));
        EXPECT_EQ(statuses[loop.name], loop.status) << errors;
        EXPECT_EQ(text_of(machine.path(loop.name + ".alone.status")), std::to_string(loop.status));
        EXPECT_EQ(text_of(machine.path(loop.name + ".job.out")), text_of(machine.path(loop.name + ".alone.out"))) << errors;
        EXPECT_EQ(errors.find("salus:"), std::string::npos) << errors;
        const std::vector<Account> accounts = accounts_in(log, loop.name);
        ASSERT_EQ(accounts.size(), 1u) << "clients; DataLoader workers are none\n" << errors;
        EXPECT_EQ(accounts[0].iterations, loop.iterations);
    }
}

class Loops : public LoopTest {
protected:
    Loops() : LoopTest(/*usual=*/1) {}
};
INSTANTIATE_TEST_SUITE_P(Torch, Loops, ::testing::Values(0, 1), name_of);

TEST_P(Loops, AreCountedAsAPersonWould) {
    const std::vector<Loop> all = loops(/*needs_torch_2=*/false);
    ASSERT_GE(all.size(), 20u);
    expect_counted(all);
}

class CompiledLoops : public LoopTest {
protected:
    CompiledLoops() : LoopTest(/*usual=*/0) {}
};
INSTANTIATE_TEST_SUITE_P(Torch, CompiledLoops, ::testing::Values(0, 1), name_of);

TEST_P(CompiledLoops, AreCountedAsAPersonWould) {
    if (is_torch_1()) GTEST_SKIP() << "needs torch 2";
    const std::vector<Loop> all = loops(/*needs_torch_2=*/true);
    ASSERT_GE(all.size(), 3u);
    expect_counted(all);
}

}  // namespace
}  // namespace salus::test
