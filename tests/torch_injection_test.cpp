// How the adaptor gets into a job's Pythons, and what is said where it does not.
#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

/// Five iterations.
constexpr const char* kTraining = R"(
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
print('trained')
)";

class TorchInjection : public TorchTest {
protected:
    TorchInjection() : TorchTest(/*usual=*/0) {}
    void SetUp() override {
        TorchTest::SetUp();
        if (IsSkipped()) return;
        environment_ = machine_.environment();
        environment_.merge(torch_environment());
        environment_["SALUS_BINARY"] = SALUS_BINARY;
        script_ = write("train.py", kTraining);
    }

    std::string write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories(std::filesystem::path(machine_.path(name)).parent_path());
        std::ofstream(machine_.path(name)) << text;
        return machine_.path(name);
    }
    /// Runs the command as a job; what it prints.
    std::string run(std::vector<std::string> command, int status = 0) {
        command.insert(command.begin(), {SALUS_BINARY, "run", "--name", "job", "--"});
        Process job(command, environment_, machine_.path("job.out"));
        EXPECT_EQ(job.wait(90), status) << job.output();
        return job.output();
    }
    /// Of all clients that there were, in order.
    std::vector<std::uint64_t> iterations() const {
        std::vector<std::uint64_t> all;
        for (const Account& account : accounts_in(machine_.log(), "job")) all.push_back(account.iterations);
        return all;
    }
    static std::size_t lines_of(const std::string& output) {
        std::size_t lines = 0;
        for (std::size_t at = 0; (at = output.find("salus: ", at)) != std::string::npos; ++at) ++lines;
        return lines;
    }

    Machine machine_{{"--capacity", "1GiB", "--lanes", "1"}};
    std::map<std::string, std::string> environment_;
    std::string script_;
    const std::vector<std::uint64_t> kFive = {5};
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchInjection, ::testing::Values(0, 1), name_of);

TEST_P(TorchInjection, AScriptAModuleAndAShellScript) {
    EXPECT_EQ(run({python(), script_}), "trained\n");
    environment_["PYTHONPATH"] = machine_.path("");
    EXPECT_EQ(run({python(), "-m", "train"}), "trained\n");
    environment_.erase("PYTHONPATH");
    EXPECT_EQ(run({"/bin/sh", write("train.sh", "cd /\n" + python() + " " + script_ + "\n")}), "trained\n");
    EXPECT_EQ(iterations(), (std::vector<std::uint64_t>{5, 5, 5}));
}

TEST_P(TorchInjection, WhereItIsImpossibleThatIsSaid) {
    std::vector<std::vector<std::string>> cases = {{python(), "-I", script_}, {python(), "-E", script_}};
    // Without site Debian's Python does not find its packages either.
    cases.push_back({python(), "-S", "-c", "print('trained')"});
    for (const auto& command : cases) {
        const std::string output = run(command);
        EXPECT_EQ(lines_of(output), 1u) << output;
        EXPECT_NE(output.find("keeps the adaptor out; the job runs without sharing"), std::string::npos) << output;
        EXPECT_NE(output.find("trained"), std::string::npos) << output;
    }
    EXPECT_TRUE(iterations().empty());
}

TEST_P(TorchInjection, TheSitecustomizeThatItShadowsRunsAsWell) {
    write("mine/sitecustomize.py", "import sys\nprint('mine', __name__)\n");
    environment_["PYTHONPATH"] = machine_.path("mine");
    EXPECT_EQ(run({python(), "-c", std::string("import sys\nprint([p for p in sys.path if 'inject' in p])") + kTraining}),
              "mine sitecustomize\n[]\ntrained\n");
    EXPECT_EQ(iterations(), kFive);
}

TEST_P(TorchInjection, AnUnknownTorchTakesTurnsWithoutLanes) {
    write("mine/sitecustomize.py",
          "from _salus.imports import when_imported\n"
          "when_imported('torch.version', lambda module: setattr(module, '__version__', '9.9.0'))\n");
    environment_["PYTHONPATH"] = machine_.path("mine");
    const std::string output = run({python(), script_});
    EXPECT_EQ(lines_of(output), 1u) << output;
    EXPECT_NE(output.find("torch 9.9.0 is not known"), std::string::npos) << output;
    EXPECT_EQ(iterations(), kFive);
}

TEST_P(TorchInjection, SeveralProcessesOfTorchDistributedAreLeftAlone) {
    environment_["WORLD_SIZE"] = "2";
    std::string output = run({python(), script_});
    EXPECT_EQ(lines_of(output), 1u) << output;
    EXPECT_TRUE(iterations().empty());
    environment_.erase("WORLD_SIZE");
    output = run({python(), write("pair.py", R"(
import os, sys, torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

def work(rank):
    distributed.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=rank, world_size=2)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        loss = model(torch.ones(2, 8)).sum()
        distributed.all_reduce(loss.detach())  # each waits for the other
        loss.backward()
        optimizer.step()
    distributed.barrier()
    os._exit(0)  # gloo sometimes aborts at exit, natively as well

if __name__ == '__main__':
    multiprocessing.spawn(work, nprocs=2)
    print('trained')
)"),
                  machine_.path("meeting")});
    EXPECT_EQ(lines_of(output), 1u) << output;
    EXPECT_NE(output.find("trained"), std::string::npos) << output;
    for (const std::uint64_t count : iterations()) EXPECT_EQ(count, 0u);
}

TEST_P(TorchInjection, WithoutAServiceOrWhenDisabledNothingChanges) {
    environment_["SALUS_DISABLE"] = "1";
    EXPECT_EQ(run({python(), script_}), "trained\n");
    EXPECT_TRUE(iterations().empty());
}

// A kernel is a Python that a server starts; between two cells nobody is held up.
TEST_P(TorchInjection, JupytersKernel) {
    Process there({python(), "-c", "import jupyter_client, ipykernel"}, {}, machine_.path("there.out"));
    if (there.wait() != 0) GTEST_SKIP() << "no ipykernel with this Python";
    const std::string output = run({python(), write("notebook.py", std::string("CELL = '''") + kTraining + R"('''
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name='python3')
def run(cell):
    client.execute_interactive(cell, timeout=60, output_hook=lambda m: print(m['content'].get('text', ''), end=''))
run(CELL)
run('loss = model(torch.ones(2, 8)).sum()')  # a forward without a step: the cell ends inside an iteration
import subprocess, os, json, time
def states():
    answer = subprocess.run([os.environ['SALUS_BINARY'], 'ps', '--json'], stdout=subprocess.PIPE)
    return [job['state'] for job in json.loads(answer.stdout)['jobs']]
until = time.monotonic() + 30
while states() != ['idle'] and time.monotonic() < until: time.sleep(0.1)
print(states())
manager.shutdown_kernel()
)")});
    EXPECT_NE(output.find("trained\n['idle']"), std::string::npos) << output;
    EXPECT_EQ(iterations(), kFive);
}

}  // namespace
}  // namespace salus::test
