// Scripts are classed as a person would: batch if they work through a queue, interactive if somebody waits for an answer.
#include <set>

#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

class TorchClasses : public TorchTest {
protected:
    TorchClasses() : TorchTest(/*usual=*/0) {}
    void SetUp() override {
        TorchTest::SetUp();
        if (IsSkipped()) return;
        environment_ = machine_.environment();
        environment_.merge(torch_environment());
    }

    static std::string script(const std::string& name) { return SALUS_SOURCE_DIR "/tests/classes/" + name; }
    Process run(const std::string& name, std::vector<std::string> command, std::vector<std::string> options = {}) {
        std::vector<std::string> all = {SALUS_BINARY, "run", "--name", name};
        all.insert(all.end(), options.begin(), options.end());
        all.emplace_back("--");
        all.insert(all.end(), command.begin(), command.end());
        return Process(all, environment_, machine_.path(name + ".out"));
    }
    /// "batch", "interactive"; empty while it is not known.
    std::string class_of(const std::string& name) const { return machine_.row(name).value("class", ""); }
    std::string reason_of(const std::string& name) const { return machine_.row(name).value("class_reason", ""); }
    bool becomes(const std::string& name, const std::string& wanted) const {
        return eventually([&] { return class_of(name) == wanted; }, 30);
    }
    /// All classes that it is seen to have until it ends.
    std::set<std::string> classes_of(const std::string& name, Process& job) {
        std::set<std::string> seen;
        for (; job.runs(); sleep_s(0.05)) {
            if (const std::string now = class_of(name); !now.empty()) seen.insert(now);
            if (const std::string why = reason_of(name); !why.empty()) reasons_.insert(why);
        }
        EXPECT_EQ(job.wait(), 0) << job.output();
        return seen;
    }

    Machine machine_{{"--capacity", "1GiB"}};
    std::map<std::string, std::string> environment_;
    std::set<std::string> reasons_;
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchClasses, ::testing::Values(0, 1), name_of);

TEST_P(TorchClasses, AScorerWithASlowLoaderIsBatch) {
    Process scorer = run("scorer", {python(), script("scorer.py")});
    EXPECT_EQ(classes_of("scorer", scorer), std::set<std::string>{"batch"});
    EXPECT_TRUE(reasons_.contains("it fetches data between its calls"));
}

TEST_P(TorchClasses, ValidationInsideATrainingIsBatch) {
    Process training = run("training", {python(), script("validation.py")});
    EXPECT_EQ(classes_of("training", training), std::set<std::string>{"batch"});
    EXPECT_TRUE(reasons_.contains("it trains"));
}

TEST_P(TorchClasses, AServerIsInteractive) {
    const std::string port = machine_.path("port");
    Process server = run("server", {python(), script("server.py"), port});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(port); }, 60)) << server.output();
    Process asker({"/usr/bin/env", "python3", script("asker.py"), port}, environment_, machine_.path("asker.out"));
    EXPECT_TRUE(becomes("server", "interactive")) << asker.output() << machine_.log();
    EXPECT_EQ(reason_of("server"), "it waits between its calls");
    EXPECT_TRUE(machine_.row("server").value("beside", false));
}

TEST_P(TorchClasses, SomebodyAtAPromptIsInteractive) {
    const std::string lines = "import torch; m = torch.nn.Linear(64, 64).eval(); x = torch.ones(1, 64)";
    const std::string types = "echo '" + lines + "'; while sleep 0.3; do echo 'y = m(x)' || exit; done";
    Process prompt = run("prompt", {"/bin/bash", "-c", "(" + types + ") | " + python() + " -iq"});
    EXPECT_TRUE(becomes("prompt", "interactive")) << prompt.output() << machine_.log();
}

TEST_P(TorchClasses, AQueueThatBecomesAServerAndBack) {
    Process job = run("job", {python(), script("queue_then_server.py")});
    EXPECT_TRUE(becomes("job", "batch")) << job.output();
    EXPECT_TRUE(becomes("job", "interactive")) << job.output() << machine_.log();
    EXPECT_NE(job.output().find("server"), std::string::npos);
    EXPECT_TRUE(becomes("job", "batch")) << machine_.log();
    EXPECT_NE(job.output().find("queue again"), std::string::npos) << "it was a server until then";
    EXPECT_EQ(job.wait(60), 0) << job.output();
}

TEST_P(TorchClasses, WhatItsUserSaysHolds) {
    Process job = run("job", {python(), script("queue_then_server.py")}, {"--class", "interactive"});
    ASSERT_TRUE(becomes("job", "interactive"));
    EXPECT_EQ(reason_of("job"), "as its user said");
    EXPECT_EQ(machine_.salus({"set", "job", "class=batch"}).wait(), 0);
    EXPECT_TRUE(becomes("job", "batch"));
    ASSERT_TRUE(eventually([&] { return job.output().find("queue again") != std::string::npos; }, 60));
    EXPECT_EQ(class_of("job"), "batch") << "whatever it does";
    job.end();
}

}  // namespace
}  // namespace salus::test
