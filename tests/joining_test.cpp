// Processes that join by themselves: with the variables that `salus env` prints, and no `salus run`.
#include "tests/shim_machine.h"
#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

using nlohmann::json;

/// What `salus env` prints on this machine, beside what the machine's processes have.
std::map<std::string, std::string> joining_environment(Machine& machine) {
    Process env = machine.salus({"env", "--json"});
    EXPECT_EQ(env.wait(), 0) << env.output();
    auto all = machine.environment();
    all.erase("SALUS_SOCKET");
    const json variables = json::parse(env.output(), nullptr, false);
    for (const auto& [name, value] : variables.items()) all[name] = value.get<std::string>();
    return all;
}

json history_of(Machine& machine) {
    Process list = machine.salus({"history", "--json"});
    EXPECT_EQ(list.wait(), 0) << list.output();
    return json::parse(list.output(), nullptr, false);
}

TEST(JoinsWithoutPython, AProgramThatUsesTheLibraryIsAJobWithAnEnd) {
    Machine machine;
    Process job(Words{SALUS_JOB_BINARY, "--join", "--iterations", "20", "--persistent", "4MiB", "--ephemeral", "4MiB"},
                joining_environment(machine), machine.path("job.out"));
    EXPECT_EQ(job.wait(), 0) << job.output();
    json known;
    ASSERT_TRUE(eventually([&] { return (known = history_of(machine)).size() == 1; })) << machine.log();
    EXPECT_EQ(known[0]["status"], 0);
    EXPECT_EQ(known[0]["iterations"], 20);
}

/// Trains for so many iterations, then does what the last argument says.
constexpr const char* kJoiningScript = R"(
import os, signal, subprocess, sys, time
import torch
here, most, then = os.path.dirname(os.path.abspath(__file__)), int(sys.argv[1]), sys.argv[2]
heard = []
if then == 'count-signals':
    signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(most):
    model(torch.ones(64, 256)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if heard:
        time.sleep(0.5)
        print('heard', len(heard))
        break
if then == 'sleep':
    time.sleep(1000)
elif then == 'child':
    subprocess.run([sys.executable, os.path.abspath(__file__), '30', 'end'], check=True)
elif then.startswith('exit'):
    sys.exit(int(then[4:]))
)";
constexpr const char* kForEver = "100000000";

class Joins : public TorchTest {
protected:
    explicit Joins(std::size_t usual = 0, const Words& options = {})
        : TorchTest(usual), machine_(Words{"--capacity", "1GiB"} + options) {}
    void SetUp() override {
        TorchTest::SetUp();
        if (IsSkipped()) return;
        environment_ = joining_environment(machine_);
        environment_.merge(torch_environment());
        std::ofstream(machine_.path("train.py")) << kJoiningScript;
    }
    Process start(const std::string& name, const Words& arguments, std::map<std::string, std::string> more = {}) {
        auto all = environment_;
        if (!name.empty()) all["SALUS_NAME"] = name;
        for (const auto& [key, value] : more) all[key] = value;
        return Process(Words{python(), machine_.path("train.py")} + arguments, all,
                       machine_.path("joins-" + std::to_string(started_++) + ".out"), uid_);
    }
    bool is_gone(const std::string& name) {
        return eventually([&] { return machine_.row(name).empty(); });
    }
    /// The record of the only command, once it has run so often.
    json record(int runs) {
        json last;
        EXPECT_TRUE(eventually([&] {
            last = history_of(machine_);
            return last.size() == 1 && last[0]["runs"] == runs;
        })) << last;
        return last.empty() ? json::object() : last[0];
    }

    Machine machine_;
    std::map<std::string, std::string> environment_;
    int started_ = 0;
    unsigned uid_ = 0;  ///< of those that join; 0: ours
};
INSTANTIATE_TEST_SUITE_P(Torch, Joins, ::testing::Values(0, 1), name_of);

TEST_P(Joins, AScriptIsAJobWithNameCommandAndHistory) {
    Process job = start("", {kForEver, "end"});
    ASSERT_TRUE(machine_.goes_on("train.py")) << job.output() << machine_.log();
    const json row = machine_.row("train.py");
    EXPECT_EQ(row["pid"], job.pid());
    EXPECT_EQ(row["command"], python() + " " + machine_.path("train.py") + " " + kForEver + " end");
    Process logs = machine_.salus({"logs", "train.py"});
    EXPECT_NE(logs.wait(), 0) << "its output is its own";
    job.end();
    EXPECT_TRUE(is_gone("train.py"));
    EXPECT_EQ(record(1)["status"], -1) << "nobody saw how it ended";
    EXPECT_GT(record(1)["took_s"], 0.0);
}

TEST_P(Joins, ItsEndIsRecordedAndTheNextRunHasAnEstimateAsWithSalusRun) {
    Process first = start("", {"200", "exit0"});
    ASSERT_EQ(first.wait(), 0) << first.output();
    EXPECT_EQ(first.output(), "");
    EXPECT_EQ(record(1)["status"], 0);
    EXPECT_EQ(record(1)["iterations"], 200);
    Process second = start("again", {"200", "exit0"});
    EXPECT_TRUE(eventually([&] { return machine_.row("again").value("iterations_total", 0) == 200; })) << second.output();
    EXPECT_EQ(second.wait(), 0);
    record(2);

    Process run(Words{SALUS_BINARY, "run", "--", python(), machine_.path("train.py"), "200", "exit0"}, environment_,
                machine_.path("run.out"));
    EXPECT_EQ(run.wait(), 0) << run.output();
    EXPECT_EQ(record(3)["iterations"], 200) << "it is the same command";
}

TEST_P(Joins, ItsExitStatusIsKnown) {
    Process job = start("fails", {"20", "exit3"});
    EXPECT_EQ(job.wait(), 3) << job.output();
    EXPECT_EQ(record(1)["status"], 3);
    Process wait = machine_.salus({"wait", "fails"});
    EXPECT_EQ(wait.wait(), 3) << wait.output();
}

TEST_P(Joins, AKeyNamesTheCommandInTheHistory) {
    for (const char* iterations : {"20", "30"}) {
        Process job = start("", {iterations, "exit0"}, {{"SALUS_KEY", "my experiment"}});
        ASSERT_EQ(job.wait(), 0) << job.output();
        EXPECT_TRUE(is_gone("train.py"));
    }
    EXPECT_EQ(record(2)["command"], "my experiment");
}

TEST_P(Joins, ASignalArrivesOnce) {
    Process job = start("counts", {kForEver, "count-signals"});
    ASSERT_TRUE(machine_.goes_on("counts")) << job.output();
    EXPECT_EQ(machine_.salus({"kill", "counts"}).wait(), 0);
    EXPECT_EQ(job.wait(), 0);
    EXPECT_EQ(job.output(), "heard 1\n");
}

TEST_P(Joins, ItsChildrenBelongToTheJob) {
    Process job = start("parent", {"20", "child"});
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(record(1)["iterations"], 30) << "that of the longest of its processes";
}

TEST_P(Joins, OneThatIsIdleHoldsNobodyUp) {
    Process idle = start("idle", {"20", "sleep"});
    ASSERT_TRUE(eventually([&] { return machine_.iterations("idle") == 20; })) << idle.output();
    Process other = start("other", {kForEver, "end"});
    ASSERT_TRUE(machine_.goes_on("other", 100)) << other.output();
    EXPECT_EQ(machine_.state_of("idle"), "idle");
    for (const json& lane : machine_.status()["service"]["lanes"])
        EXPECT_NE(lane.value("holder", -1), machine_.row("idle").value("client", -2)) << "it holds no lane";
}

TEST_P(Joins, KilledInMidTurnItLetsOthersGoOn) {
    Process first = start("first", {kForEver, "end"});
    Process second = start("second", {kForEver, "end"});
    ASSERT_TRUE(machine_.goes_on("first") && machine_.goes_on("second")) << first.output() << second.output();
    first.signal(SIGKILL);
    EXPECT_TRUE(is_gone("first"));
    EXPECT_TRUE(machine_.goes_on("second", 20));
    EXPECT_EQ(machine_.salus({"wait", "first"}).wait(), 1) << "nobody saw its exit status";
}

TEST_P(Joins, AServiceThatComesBackKnowsItByItsNumber) {
    Process job = start("stays", {kForEver, "end"});
    ASSERT_TRUE(machine_.goes_on("stays")) << job.output();
    const json before = machine_.row("stays");
    for (int i = 0; i < 3; ++i) {
        machine_.service().end();
        machine_.start_service();
        ASSERT_TRUE(machine_.goes_on("stays")) << job.output() << machine_.log();
    }
    EXPECT_EQ(machine_.row("stays")["job"], before["job"]);
    EXPECT_EQ(machine_.row("stays")["command"], before["command"]);
    EXPECT_EQ(job.output(), "");
    EXPECT_EQ(machine_.services().size(), 1u) << "jobs start none";
}

TEST_P(Joins, AProcessThatHasDetachedGoesOnAsAJob) {
    std::ofstream(machine_.path("train.py")) << R"(
import ctypes, sys, time
from _salus import library
assert library.join(None, None) is None
client = library.Attachment()
assert client._library.salus_detach(client._client) == 0
time.sleep(float(sys.argv[1]))
sys.exit(7)
)";
    Process job = start("leaves", {"0.5"});
    EXPECT_EQ(job.wait(), 7) << job.output();
    EXPECT_EQ(record(1)["status"], 7);
    EXPECT_GE(record(1)["took_s"], 0.5);
}

class JoinsAtTheLimit : public Joins {
protected:
    JoinsAtTheLimit() : Joins(/*usual=*/1, {"--users", "all", "--user-jobs-max", "1"}) {}
    /// Root has no limit.
    void SetUp() override {
        Joins::SetUp();
        if (IsSkipped() || ::getuid() != 0) return;
        uid_ = 1;
        Process probe({python(), "-c", "import torch"}, {{"HOME", "/"}}, machine_.path("probe.out"), uid_);
        if (probe.wait() != 0) GTEST_SKIP() << "SKIPPED: only root may run this Python";
    }
};
INSTANTIATE_TEST_SUITE_P(Torch, JoinsAtTheLimit, ::testing::Values(0, 1), name_of);

TEST_P(JoinsAtTheLimit, ItWaitsToStartAndCanBeInterrupted) {
    Process first = start("first", {kForEver, "end"});
    ASSERT_TRUE(machine_.goes_on("first")) << first.output();
    Process waits = start("waits", {"20", "exit0"}), interrupted = start("interrupted", {"20", "exit0"});
    ASSERT_TRUE(eventually([&] { return machine_.state_of("waits") == "waiting"; })) << waits.output();
    ASSERT_TRUE(eventually([&] { return machine_.state_of("interrupted") == "waiting"; })) << interrupted.output();
    interrupted.signal(SIGINT);
    EXPECT_NE(interrupted.wait(), 0);
    EXPECT_NE(interrupted.output().find("KeyboardInterrupt"), std::string::npos) << interrupted.output();
    EXPECT_TRUE(waits.runs());
    first.end();
    EXPECT_EQ(waits.wait(), 0) << waits.output();
}

// ------------------------------------------------------------------------------------------------------------- the shim

TEST(JoinsByShim, AProgramIsAJobAndWaitsForRoomBeforeTheDriverStarts) {
    ShimMachine machine;
    const auto environment = joining_environment(machine);
    ASSERT_TRUE(environment.contains("LD_PRELOAD"));
    const auto start = [&](const std::string& name, const Words& arguments) {
        auto all = environment;
        all["SALUS_NAME"] = name;
        return Process(Words{SALUS_SHIM_PROGRAM} + arguments, all, machine.path(name + ".out"));
    };
    Process large = start("large", {"dlsym", "--us", "1000", "--seconds", "600", "--mib", "2000"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("large") == "running"; })) << large.output() << machine.log();
    EXPECT_EQ(machine.row("large")["pid"], large.pid());
    ASSERT_TRUE(eventually([&] { return machine.used_mib(large.pid()) >= 2000; }));
    Process late = start("late", {"resolver", "--launches", "50"});
    Process hurried = start("hurried", {"resolver", "--launches", "50"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("late") == "waiting"; })) << late.output() << machine.status();
    EXPECT_EQ(machine.used_mib(late.pid()), 0) << "it has no context yet";
    hurried.end();
    EXPECT_TRUE(eventually([&] { return machine.row("hurried").empty(); })) << "a process that waits may be killed";
    Process stopped = start("stopped", {"resolver", "--launches", "50"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("stopped") == "waiting"; })) << stopped.output();
    stopped.signal(SIGINT);
    EXPECT_EQ(stopped.wait(), 130) << "its own handler has heard of it: " << stopped.output();
    EXPECT_TRUE(large.runs());
    large.end();
    EXPECT_EQ(late.wait(), 0) << late.output();
    EXPECT_EQ(machine.line_of(late).value("sum", 0), 50);
    EXPECT_TRUE(eventually([&] {
        const json all = history_of(machine);
        return std::ranges::any_of(all, [](const json& one) { return one["status"] == 0; });
    })) << history_of(machine);
}

/// Three GPUs, of which the service shares the last two.
class JoinsOnGpus : public ::testing::Test {
protected:
    JoinsOnGpus() : machine_({"--device", "cuda"}, /*start=*/false) {
        add_gpu(machine_, {{"SALUS_STANDIN_DEVICES", "3"}, {"SALUS_STANDIN_MEMORY", std::to_string(4096 * kMiB)}});
        start_service();
        environment_ = joining_environment(machine_);
    }
    static std::string uuid_of(int gpu) { return "GPU-5a1d5a1d-0000-4000-8000-00000000000" + std::to_string(gpu); }
    void start_service() {
        machine_.also["CUDA_VISIBLE_DEVICES"] = uuid_of(1) + "," + uuid_of(2);
        machine_.start_service();
        machine_.also.erase("CUDA_VISIBLE_DEVICES");
    }
    Process start(const std::string& name, const Words& arguments, const std::map<std::string, std::string>& more = {}) {
        auto all = environment_;
        all["SALUS_NAME"] = name;
        for (const auto& [key, value] : more) all[key] = value;
        return Process(Words{SALUS_SHIM_PROGRAM} + arguments, all, machine_.path(name + ".out"));
    }
    int gpu_of(const std::string& name) { return machine_.row(name).value("gpu_number", -1); }

    Machine machine_;
    std::map<std::string, std::string> environment_;
};

TEST_F(JoinsOnGpus, OneThatIsRefusedSharesNoOtherGpu) {
    Process job = start("refused", {"resolver", "--launches", "50"}, {{"CUDA_VISIBLE_DEVICES", "0"}});
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find("CUDA_VISIBLE_DEVICES is '" + uuid_of(0) + "', which names no GPU that the service shares"),
              std::string::npos)
        << job.output();
    EXPECT_EQ(machine_.log().find("refused, pid"), std::string::npos) << machine_.log();
    EXPECT_EQ(machine_.log().find("turned away"), std::string::npos) << "it has not asked: " << machine_.log();
    EXPECT_EQ(history_of(machine_).size(), 0u) << "it was no job";
}

TEST_F(JoinsOnGpus, TheNextServiceCountsItWhereItIs) {
    Process job = start("stays", {"resolver", "--us", "1000", "--seconds", "600"}, {{"CUDA_VISIBLE_DEVICES", "2"}});
    ASSERT_TRUE(eventually([&] { return machine_.row("stays").contains("client"); })) << job.output();
    EXPECT_EQ(gpu_of("stays"), 2);
    machine_.service().end();
    start_service();
    ASSERT_TRUE(eventually([&] { return machine_.row("stays").contains("client"); })) << job.output() << machine_.log();
    EXPECT_EQ(gpu_of("stays"), 2);
    EXPECT_EQ(machine_.row("stays").value("placement", ""), "stayed");
    Process other = start("other", {"resolver", "--us", "1000", "--seconds", "600"});
    ASSERT_TRUE(eventually([&] { return machine_.row("other").contains("client"); })) << other.output();
    EXPECT_EQ(gpu_of("other"), 1) << "nobody is there";
}

TEST_F(JoinsOnGpus, RanksThatAreJobsOfTheirOwnTakeNoTurns) {
    const std::map<std::string, std::string> ranks = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    Process first = start("first", {"resolver", "--us", "1000", "--seconds", "600"}, ranks);
    Process second = start("second", {"resolver", "--us", "1000", "--seconds", "600"}, ranks);
    for (const char* name : {"first", "second"}) {
        EXPECT_TRUE(eventually([&] {
            return machine_.row(name).value("why_unshared", "").find("wait for others") != std::string::npos;
        })) << name
            << machine_.status();
    }
}

/// The service shares a GPU, and a launcher has dropped LD_PRELOAD.
class JoinsWithoutTheShim : public TorchTest {
protected:
    JoinsWithoutTheShim() : TorchTest(0) {}
    Process start(const std::string& script) {
        auto all = joining_environment(machine_);
        all.merge(torch_environment());
        all.erase("LD_PRELOAD");
        return Process({python(), "-c", script}, all, machine_.path("python.out"));
    }
    ShimMachine machine_;
};
INSTANTIATE_TEST_SUITE_P(Torch, JoinsWithoutTheShim, ::testing::Values(0, 1), name_of);

TEST_P(JoinsWithoutTheShim, TensorsOnTheCpuStayThere) {
    Process job = start("import torch\nprint('sum', int(torch.ones(1 << 21).sum()))");
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find("sum 2097152\n"), std::string::npos) << job.output();
    EXPECT_NE(job.output().find("the service shares a GPU, and this torch was built without CUDA"), std::string::npos)
        << job.output();
}

TEST_P(JoinsWithoutTheShim, NoLibraryOnTheHostAllocatesFromAGpu) {
    Process job = start(
        "from _salus.library import Attachment\n"
        "client = Attachment()\n"
        "print(client.device, client.interpose('libc.so.6'))");
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find("cuda the service shares a GPU, whose memory the library cannot use"), std::string::npos)
        << job.output();
}

TEST(SalusEnv, PrintsTheSameInThreeWays) {
    Machine machine;
    Process json_text = machine.salus({"env", "--json"}), lines = machine.salus({"env"}),
            shell = machine.salus({"env", "--shell"});
    ASSERT_EQ(json_text.wait(), 0) << json_text.output();
    ASSERT_EQ(lines.wait(), 0);
    ASSERT_EQ(shell.wait(), 0);
    const json variables = json::parse(json_text.output());
    EXPECT_EQ(variables["SALUS_SOCKET"], machine.socket());
    EXPECT_FALSE(variables.contains("LD_PRELOAD")) << "there is no GPU";
    for (const auto& [name, value] : variables.items()) {
        EXPECT_NE(lines.output().find(name + "=" + value.get<std::string>() + "\n"), std::string::npos) << lines.output();
        EXPECT_NE(shell.output().find("export " + name + "='" + value.get<std::string>() + "'\n"), std::string::npos);
    }
}

TEST(SalusEnv, SaysThatThereIsNoService) {
    Machine machine({}, /*start=*/false);
    Process env = machine.salus({"env"});
    EXPECT_EQ(env.wait(), 1);
    EXPECT_TRUE(env.output().starts_with("salus: ")) << env.output();
    EXPECT_TRUE(machine.services().empty());
}

}  // namespace
}  // namespace salus::test
