// The examples share one lane, with everything that can happen to them there, and their weights are those of running alone.
#include "policies/table.h"
#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

using Words = std::vector<std::string>;

/// A setting of some seconds with one thread, whose gradients are large enough to be evacuated.
struct Example {
    std::string script;
    Words setting;
};
struct Group {
    std::vector<Example> examples;
    const char* capacity;  ///< less than all of them keep, and a lane; more than each needs alone
};

const Group kFirst = {
    {{"01_vae.py", {"--iterations", "30", "--batch", "64", "--image", "64", "--width", "8"}},
     {"03_resnet.py", {"--iterations", "24", "--batch", "8", "--width", "64", "--images", "64"}},
     {"04_lstm_lm.py", {"--iterations", "40", "--batch", "16", "--length", "16", "--words", "4000", "--width", "256"}},
     {"06_gan.py", {"--iterations", "30", "--batch", "512", "--width", "512"}}},
    "110MiB"};
const Group kSecond = {
    {{"02_superres.py", {"--iterations", "30", "--batch", "8", "--width", "32", "--images", "64"}},
     {"05_gpt.py", {"--iterations", "30", "--batch", "8", "--width", "256"}},
     {"07_speech_ctc.py", {"--iterations", "40", "--batch", "8", "--hidden", "256", "--utterances", "64"}},
     {"08_inference.py", {"--iterations", "40", "--rate", "100", "--batch", "4"}}},
    "48MiB"};

bool everything() { return std::getenv("SALUS_TEST_ALL") != nullptr; }

class TorchSharing : public TorchTest {
protected:
    void run_alone(const Group& group) {
        for (const Example& example : group.examples) {
            Process alone(command_of(example, alone_.path(example.script + ".pt")), torch_environment(),
                          alone_.path(example.script + ".out"));
            ASSERT_EQ(alone.wait(300), 0) << alone.output();
        }
    }

    /// All at once, in one lane, with too little memory; every seventh iteration nothing is predicted right; and the service
    /// is killed on the way.
    void run_together(const Group& group, const std::string& policy) {
        SCOPED_TRACE(policy);
        Machine machine({}, /*start=*/false);
        std::filesystem::create_directories(machine.path("config/salus"));
        std::ofstream(machine.path("config/salus/salusd.toml"))
            << "policy = \"" << policy << "\"\nlanes = 1\ncapacity = \"" << group.capacity << "\"\n";
        auto environment = machine.environment();
        environment.merge(torch_environment());
        environment["XDG_CONFIG_HOME"] = machine.path("config");
        environment["SALUS_MISPREDICT_EVERY"] = "7";
        std::vector<Process> jobs;
        for (const Example& example : group.examples) {
            Words command = {SALUS_BINARY, "run", "--"};
            for (const std::string& word : command_of(example, machine.path(example.script + ".pt")))
                command.push_back(word);
            jobs.emplace_back(command, environment, machine.path(example.script + ".out"));
        }
        const Killed before = kill_service_in_mid_load(machine);
        for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(jobs[i].wait(400), 0) << jobs[i].output();
        const nlohmann::json after = machine.status();
        ASSERT_TRUE(after.is_object());
        EXPECT_NE(after["service"]["pid"].get<int>(), before.pid) << "it was killed";
        Process stop = machine.salus({"stop"});
        stop.wait();

        Account total;
        const std::string log = text_of(machine.state() + "/salusd.log");
        for (const Example& example : group.examples) {
            SCOPED_TRACE(example.script);
            Process compare({python(), SALUS_SOURCE_DIR "/tests/same_weights.py", alone_.path(example.script + ".pt"),
                             machine.path(example.script + ".pt")},
                            torch_environment(), machine.path("compare.out"));
            EXPECT_EQ(compare.wait(), 0) << compare.output();
            const std::vector<Account> accounts = accounts_in(log, example.script);
            ASSERT_EQ(accounts.size(), 1u) << log;
            EXPECT_GE(accounts[0].in_lane, 0.8);
            total.evacuations += accounts[0].evacuations;
            total.page_outs += accounts[0].page_outs;
        }
        const std::uint64_t switches = before.switches + after["service"]["statistics"]["switches"].get<std::uint64_t>();
        std::printf("%s, torch %s: %lu hand-overs, %lu evacuations, %lu page-outs\n", policy.c_str(),
                    GetParam().version.c_str(), switches, total.evacuations, total.page_outs);
        EXPECT_GE(switches, group.examples.size());
        EXPECT_GT(total.evacuations, 0u);
        EXPECT_GT(total.page_outs, 0u);
    }

private:
    struct Killed {
        int pid = 0;
        std::uint64_t switches = 0;
    };

    Words command_of(const Example& example, const std::string& save) const {
        Words command = {python(), SALUS_SOURCE_DIR "/examples/" + example.script, "--save", save};
        command.insert(command.end(), example.setting.begin(), example.setting.end());
        return command;
    }

    /// When all have attached and done something, and some have begun to use the lane.
    static Killed kill_service_in_mid_load(const Machine& machine) {
        nlohmann::json status;
        const bool loaded = eventually(
            [&] {
                status = machine.status();
                if (!status.is_object() || status["jobs"].size() < 4) return false;
                std::uint64_t iterations = 0;
                for (const nlohmann::json& job : status["jobs"]) iterations += job.value("iterations", std::uint64_t{0});
                return iterations >= 30;
            },
            120);
        EXPECT_TRUE(loaded) << machine.log();
        if (!loaded) return {};
        const int pid = status["service"]["pid"];
        ::kill(pid, SIGKILL);
        return {pid, status["service"]["statistics"]["switches"]};
    }

    Machine alone_{{}, /*start=*/false};
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchSharing, ::testing::ValuesIn(pythons_or_none()), name_of);

/// One for each version, so that together they cover the ways of choosing; all of them in `make check`.
Words policies(const char* with_torch_1, const char* with_torch_2, bool is_torch_1) {
    if (!everything()) return {is_torch_1 ? with_torch_1 : with_torch_2};
    Words all;
    for (const Policy* policy : all_policies()) all.emplace_back(policy->info.name);
    return all;
}

TEST_P(TorchSharing, WeightsAreThoseOfRunningAloneFirstFour) {
    run_alone(kFirst);
    for (const std::string& policy : policies("rr", "fair", is_torch_1())) run_together(kFirst, policy);
}

TEST_P(TorchSharing, WeightsAreThoseOfRunningAloneSecondFour) {
    run_alone(kSecond);
    for (const std::string& policy : policies("srtf", "las", is_torch_1())) run_together(kSecond, policy);
}

}  // namespace
}  // namespace salus::test
