// Another user cannot attach, read a lane or control jobs.
#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

constexpr unsigned kOther = 54321;

const std::vector<std::string> kJob = {"--persistent", "4MiB",    "--ephemeral", "8MiB",         "--work",
                                       "500",          "--touch", "pages",       "--iterations", "1000000"};

class Users : public ::testing::Test {
protected:
    void SetUp() override {
        if (::getuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    }
    /// The binaries may lie where others cannot go.
    static std::string copy_for_others(const Machine& machine, const std::string& binary) {
        const std::string copy = machine.path(std::filesystem::path(binary).filename().string());
        std::filesystem::copy_file(binary, copy, std::filesystem::copy_options::overwrite_existing);
        ::chmod(copy.c_str(), 0755);
        return copy;
    }
    static std::map<std::string, std::string> environment_for_others(const Machine& machine) {
        auto all = machine.environment();
        const auto library = std::filesystem::path(SALUS_JOB_BINARY).parent_path().parent_path() / "lib/libsalus.so.1";
        std::filesystem::copy_file(library, machine.path("libsalus.so.1"),
                                   std::filesystem::copy_options::overwrite_existing);
        ::chmod(machine.path("libsalus.so.1").c_str(), 0755);
        all["LD_LIBRARY_PATH"] = machine.path("");
        return all;
    }
};

TEST_F(Users, TheSocketIsClosedToOthers) {
    Machine machine({"--capacity", "1GiB"});
    machine.job("mine", kJob);
    ASSERT_TRUE(machine.goes_on("mine"));
    const std::string salus = copy_for_others(machine, SALUS_BINARY);
    for (const std::string command : {"ps", "status", "stop"}) {
        Process other({salus, command}, machine.environment(), machine.path("other.out"), kOther);
        EXPECT_EQ(other.wait(), 1);
        EXPECT_NE(other.output().find("Permission denied"), std::string::npos) << other.output();
    }
    EXPECT_TRUE(machine.goes_on("mine"));
}

TEST_F(Users, CredentialsDecideEvenWhereTheSocketIsOpen) {
    Machine machine({"--capacity", "1GiB"});
    machine.job("mine", kJob);
    ASSERT_TRUE(machine.goes_on("mine"));
    ASSERT_EQ(::chmod(machine.path("run/salus").c_str(), 0755), 0);
    ASSERT_EQ(::chmod(machine.socket().c_str(), 0777), 0);
    const std::string salus = copy_for_others(machine, SALUS_BINARY);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"ps"}, {"pause", "mine"}, {"kill", "mine"}, {"policy", "fifo"}, {"stop", "--force"}}) {
        std::vector<std::string> command = {salus};
        command.insert(command.end(), words.begin(), words.end());
        Process other(command, machine.environment(), machine.path("other.out"), kOther);
        EXPECT_EQ(other.wait(), 1);
        EXPECT_NE(other.output().find("belongs to another user"), std::string::npos) << other.output();
    }
    Process job({copy_for_others(machine, SALUS_JOB_BINARY), "--name", "theirs", "--iterations", "3"},
                environment_for_others(machine), machine.path("theirs.out"), kOther);
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find("another user"), std::string::npos) << job.output();
    EXPECT_TRUE(machine.row("theirs").empty());
    EXPECT_TRUE(machine.goes_on("mine"));
    EXPECT_EQ(machine.status()["service"].value("policy", ""), "fair");
}

TEST_F(Users, AServiceForAllKeepsThemApart) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--policy", "rr"});
    machine.job("mine", kJob);
    ASSERT_TRUE(machine.goes_on("mine"));
    std::vector<std::string> command = {copy_for_others(machine, SALUS_JOB_BINARY), "--name", "theirs"};
    command.insert(command.end(), kJob.begin(), kJob.end());
    Process job(command, environment_for_others(machine), machine.path("theirs.out"), kOther);
    ASSERT_TRUE(machine.goes_on("theirs"));
    const nlohmann::json mine = machine.row("mine");
    const nlohmann::json theirs = machine.row("theirs");
    EXPECT_EQ(theirs["uid"], kOther);
    EXPECT_NE(mine["lane"], theirs["lane"]);
    const std::string salus = copy_for_others(machine, SALUS_BINARY);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"pause", "mine"}, {"kill", "mine"}, {"set", "mine", "priority=9"}}) {
        std::vector<std::string> control = {salus};
        control.insert(control.end(), words.begin(), words.end());
        Process other(control, machine.environment(), machine.path("other.out"), kOther);
        EXPECT_EQ(other.wait(), 1);
        EXPECT_NE(other.output().find("another user's"), std::string::npos) << other.output();
    }
    Process own({salus, "pause", "theirs"}, machine.environment(), machine.path("other.out"), kOther);
    EXPECT_EQ(own.wait(), 0) << own.output();
    EXPECT_TRUE(eventually([&] { return machine.state_of("theirs") == "paused"; }));
    EXPECT_TRUE(machine.goes_on("mine"));
}

TEST_F(Users, OthersSeeAJobButNotItsCommand) {
    Machine machine({"--capacity", "1GiB", "--users", "all"});
    Process job = machine.salus({"run", "--name", "mine", "--", "sleep", "100"});
    ASSERT_TRUE(eventually([&] { return machine.row("mine").value("command", "") == "sleep 100"; })) << machine.status();
    const std::string salus = copy_for_others(machine, SALUS_BINARY);
    const auto row = [&] {
        Process other({salus, "ps", "-a", "--json"}, machine.environment(), machine.path("other.out"), kOther);
        EXPECT_EQ(other.wait(), 0) << other.output();
        const nlohmann::json all = nlohmann::json::parse(other.output(), nullptr, false);
        return all["jobs"].empty() ? all["ended"][0] : all["jobs"][0];
    };
    EXPECT_EQ(row()["user"], "root");
    EXPECT_EQ(row()["command"], "");
    job.signal(SIGTERM);
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    ASSERT_TRUE(eventually([&] { return machine.status()["jobs"].empty(); }));
    EXPECT_EQ(row()["state"], "ended");
    EXPECT_EQ(row()["command"], "");
    EXPECT_EQ(machine.status()["ended"][0]["command"], "sleep 100");
}

// Without HOME, files are in /tmp, where another user can make the folder first.
TEST_F(Users, AFolderThatAnotherMadeInTmpIsRefused) {
    const Machine machine({}, /*start=*/false);
    const unsigned uid = 1'000'000 + static_cast<unsigned>(::getpid());
    const std::string folder = "/tmp/salus-" + std::to_string(uid);
    const std::string configuration = folder + "/salusd.toml";
    std::filesystem::create_directory(folder);
    std::ofstream(configuration) << "policy = \"nonsense\"\n";
    for (const std::string& path : {folder, configuration}) ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
    const std::string salus = copy_for_others(machine, SALUS_BINARY);
    const std::string salusd = copy_for_others(machine, SALUSD_BINARY);
    const auto expect_refusal = [&](const std::vector<std::string>& words, int status, const std::string& says) {
        std::vector<std::string> command = {"env"};
        for (const char* name :
             {"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "SALUS_SOCKET", "SALUS_STATE"})
            command.insert(command.end(), {"-u", name});
        command.insert(command.end(), words.begin(), words.end());
        Process process(command, {}, machine.path("refused.out"), uid);
        EXPECT_EQ(process.wait(), status) << words[1];
        EXPECT_EQ(process.output(), says) << words[1];
    };
    const std::string why = folder + " belongs to another user\n";
    expect_refusal({salusd, "--device", "host"}, 2, "salusd: --config: " + why);
    expect_refusal({salusd, "--config", "/dev/null"}, 1, "salusd: " + why);
    for (const char* command : {"ps", "start", "history"}) expect_refusal({salus, command}, 1, "salus: " + why);
    expect_refusal({salus, "logs", "1"}, 1, "salus: no log for job '1'; only jobs started with --detach have one\n");
    expect_refusal({salus, "run", "--", "echo", "ran"}, 0,
                   "salus: " + folder + " belongs to another user; the job starts without sharing\nran\n");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "nothing was written there";
    std::filesystem::remove_all(folder);
}

TEST_F(Users, LanesCannotBeOpenedThroughProc) {
    Machine machine({"--capacity", "1GiB"});
    Process& job = machine.job("mine", kJob);
    ASSERT_TRUE(machine.goes_on("mine"));
    for (const pid_t pid : {job.pid(), machine.service().pid()}) {
        const std::string command = "cat /proc/" + std::to_string(pid) + "/maps; ls /proc/" + std::to_string(pid) +
                                    "/fd; head -c 1 /proc/" + std::to_string(pid) + "/mem";
        Process other({"/bin/sh", "-c", command}, {}, machine.path("other.out"), kOther);
        EXPECT_NE(other.wait(), 0);
        const std::string output = other.output();
        EXPECT_EQ(output.find("salus-lane"), std::string::npos) << output;
        EXPECT_NE(output.find("Permission denied"), std::string::npos) << output;
    }
}

}  // namespace
}  // namespace salus::test
