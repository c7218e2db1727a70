// The examples share one lane, with everything that can happen to them there, and their weights are those of running alone.
#include <functional>
#include <optional>

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
     {"07_speech_ctc.py", {"--iterations", "40", "--batch", "8", "--hidden", "384", "--utterances", "64"}},
     {"08_inference.py", {"--iterations", "40", "--rate", "100", "--batch", "4"}}},
    "48MiB"};

class TorchSharing : public TorchTest {
protected:
    explicit TorchSharing(std::size_t usual) : TorchTest(usual) {}

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
        std::printf("%s, torch %s: %lu hand-overs, %lu evacuations, %lu page-outs\n", policy.c_str(), version().c_str(),
                    switches, total.evacuations, total.page_outs);
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

class TorchSharingFirstFour : public TorchSharing {
protected:
    TorchSharingFirstFour() : TorchSharing(/*usual=*/0) {}
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchSharingFirstFour, ::testing::Values(0, 1), name_of);

class TorchSharingSecondFour : public TorchSharing {
protected:
    TorchSharingSecondFour() : TorchSharing(/*usual=*/1) {}
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchSharingSecondFour, ::testing::Values(0, 1), name_of);

/// One for each version, so that together they cover the ways of choosing; all of them in `make check`.
Words policies(const char* with_torch_1, const char* with_torch_2, bool is_torch_1) {
    if (!everything()) return {is_torch_1 ? with_torch_1 : with_torch_2};
    Words all;
    for (const Policy* policy : all_policies()) all.emplace_back(policy->info.name);
    return all;
}

TEST_P(TorchSharingFirstFour, WeightsAreThoseOfRunningAlone) {
    run_alone(kFirst);
    for (const std::string& policy : policies("rr", "fair", is_torch_1())) run_together(kFirst, policy);
}

TEST_P(TorchSharingSecondFour, WeightsAreThoseOfRunningAlone) {
    run_alone(kSecond);
    for (const std::string& policy : policies("srtf", "las", is_torch_1())) run_together(kSecond, policy);
}

// ------------------------------------------------------------------------------------------------------------- memory

/// The most memory that a process ever had, MiB: from the kernel, which misses no moment; 0 if it is gone.
double peak_mib(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string word; status >> word;) {
        double kib = 0;
        if (word == "VmHWM:" && status >> kib) return kib / 1024;
    }
    return 0;
}

/// In `make check` only: it takes 100 s of both processors, and EightJobsInOneLaneNeedTheSumOfPAndOneT looks at the same.
class TorchMemory : public TorchTest {
protected:
    TorchMemory() : TorchTest(/*usual=*/0) {}
    void SetUp() override {
        if (!everything()) GTEST_SKIP() << "in `make check` only";
        TorchTest::SetUp();
    }

    /// Here the weights do not matter, and it takes half the time.
    static std::map<std::string, std::string> both_processors() { return {{"OMP_NUM_THREADS", "2"}}; }

    /// `measure`, summed over so many Pythons that have imported torch, and nothing else.
    double baseline_mib(std::size_t count, double (*measure)(pid_t)) {
        std::vector<Process> idle;
        for (std::size_t i = 0; i < count; ++i) {
            idle.emplace_back(Words{python(), "-c", "import torch, time; print('here', flush=True); time.sleep(60)"},
                              torch_environment(), place_.path("idle-" + std::to_string(i)));
        }
        double sum = 0;
        for (Process& process : idle) EXPECT_TRUE(eventually([&] { return process.output() == "here\n"; }));
        for (Process& process : idle) sum += measure(process.pid());
        return sum;
    }

    double peak_alone_mib(const Example& example, double baseline) {
        // A malloc that gives back at once what is freed: its peaks are lower.
        auto environment = both_processors();
        environment["MALLOC_MMAP_THRESHOLD_"] = "1048576";
        Process process(command_of(example), environment, place_.path(example.script + ".alone"));
        double peak = 0;
        for (; process.runs(); sleep_s(0.02)) peak = std::max(peak, peak_mib(process.pid()));
        EXPECT_EQ(process.wait(), 0) << process.output();
        return peak - baseline;
    }

    struct Together {
        double peak_mib = 0;
        std::map<std::string, double> persistent_mib, ephemeral_mib;  ///< by script, as the service knows them
    };
    Together together(const std::vector<Example>& examples) {
        const double baseline = baseline_mib(examples.size(), pss_mib);
        auto environment = place_.environment();
        environment.merge(both_processors());
        std::vector<Process> jobs;
        for (const Example& example : examples) {
            Words command = {SALUS_BINARY, "run", "--"};
            for (const std::string& word : command_of(example)) command.push_back(word);
            jobs.emplace_back(command, environment, place_.path(example.script + ".together"));
        }
        Together found;
        while (std::any_of(jobs.begin(), jobs.end(), [](const Process& job) { return job.runs(); })) {
            double sum = 0;
            const nlohmann::json status = place_.status();
            for (const nlohmann::json& job : status["jobs"]) {
                sum += pss_mib(job.value("pid", 0));
                const std::string name = job.value("name", "");
                const auto keep_largest = [&](std::map<std::string, double>& most, const char* key) {
                    most[name] = std::max(most[name], static_cast<double>(job.value(key, std::int64_t{0})) / (1 << 20));
                };
                keep_largest(found.persistent_mib, "persistent_bytes");
                keep_largest(found.ephemeral_mib, "ephemeral_bytes");
            }
            found.peak_mib = std::max(found.peak_mib, sum - baseline);
            sleep_s(0.05);  // the kernel takes some milliseconds to tell
        }
        for (Process& job : jobs) EXPECT_EQ(job.wait(), 0) << job.output();
        return found;
    }

private:
    Words command_of(const Example& example) const {
        Words command = {python(), SALUS_SOURCE_DIR "/examples/" + example.script};
        command.insert(command.end(), example.setting.begin(), example.setting.end());
        return command;
    }

protected:
    Machine place_{{"--capacity", "4GiB", "--lanes", "1", "--policy", "rr"}};
};
INSTANTIATE_TEST_SUITE_P(Torch, TorchMemory, ::testing::Values(0), name_of);

TEST_P(TorchMemory, FourTrainingsUseTheSameEphemeralMemory) {
    std::vector<Example> examples = {
        {"01_vae.py", {"--batch", "80", "--image", "128"}},
        {"03_resnet.py", {"--batch", "288", "--layers", "3"}},
        {"05_gpt.py", {"--batch", "16", "--length", "512", "--layers", "4"}},
        {"07_speech_ctc.py", {"--batch", "64", "--length", "480", "--width", "32", "--hidden", "16"}},
    };
    double peaks = 0;
    const double baseline = baseline_mib(1, peak_mib);
    for (Example& example : examples) {
        Example alone = example;
        alone.setting.insert(alone.setting.end(), {"--iterations", "3"});      // the second has the peak
        example.setting.insert(example.setting.end(), {"--iterations", "5"});  // the third is the first in the lane
        const double peak = peak_alone_mib(alone, baseline);
        std::printf("%-18s alone: peak %.0f MiB\n", example.script.c_str(), peak);
        peaks += peak;
    }
    Together shared = together(examples);
    double persistent = 0, largest = 0;
    for (const Example& example : examples) {
        const double ephemeral = shared.ephemeral_mib[example.script];
        EXPECT_GE(ephemeral, 400) << example.script;
        persistent += shared.persistent_mib[example.script];
        largest = std::max(largest, ephemeral);
    }
    std::printf("four together: %.0f MiB; sum of their peaks %.0f MiB (ratio %.2f); sum(P) + max(T) %.0f MiB\n",
                shared.peak_mib, peaks, shared.peak_mib / peaks, persistent + largest);
    EXPECT_LE(shared.peak_mib, 0.6 * peaks);
    for (const Example& example : examples) {
        const std::vector<Account> accounts = accounts_in(place_.log(), example.script);
        ASSERT_EQ(accounts.size(), 1u);
        std::printf("%-18s %.0f %% of its ephemeral bytes in the lane\n", example.script.c_str(), 100 * accounts[0].in_lane);
    }
}

}  // namespace
}  // namespace salus::test
