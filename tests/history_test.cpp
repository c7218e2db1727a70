// What earlier runs of a command tell of the next, with real processes.
#include "base/command.h"
#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

using nlohmann::json;

/// A command is the same whatever its script does: so a second run can be held up where one wants to look at it.
class History : public ::testing::Test {
protected:
    explicit History(std::vector<std::string> options = {"--capacity", "1GiB", "--lanes", "1", "--policy", "srtf"})
        : machine_(std::move(options)) {}
    /// `salus run` starts a new service when the last one is gone: that one is not the machine's.
    ~History() override { machine_.salus({"stop", "--force"}).wait(); }

    /// From now on the command `name` is a job with these options.
    std::string command(const std::string& name, const std::string& options) {
        const std::string path = machine_.path(name);
        std::ofstream(path + ".new") << "#!/bin/sh\nexec " << SALUS_JOB_BINARY
                                     << " --persistent 4MiB --ephemeral 8MiB --block 4MiB --touch pages --quiet " << options
                                     << "\n";
        ::chmod((path + ".new").c_str(), 0755);
        std::filesystem::rename(path + ".new", path);
        return path;
    }
    Process run(const std::string& name, std::vector<std::string> options = {}, const std::string& argument = "") {
        std::vector<std::string> words = {"run", "--name", name};
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {"--", machine_.path(name)});
        if (!argument.empty()) words.push_back(argument);
        return machine_.salus(words);
    }
    void run_to_end(const std::string& name, const std::string& options) {
        command(name, options);
        Process job = run(name);
        EXPECT_EQ(job.wait(), 0) << job.output();
    }
    json listed() {
        Process list = machine_.salus({"history", "--json"});
        EXPECT_EQ(list.wait(), 0) << list.output();
        return json::parse(list.output(), nullptr, false);
    }
    /// It has done so much, and stays there.
    bool stands_at(const std::string& name, std::uint64_t iterations) {
        return eventually([&] { return machine_.iterations(name) == iterations; });
    }
    void kill(const std::string& name, Process& runner) {
        EXPECT_EQ(machine_.salus({"kill", name}).wait(), 0);
        EXPECT_EQ(runner.wait(), 128 + SIGTERM);
    }

    Machine machine_;
};

TEST_F(History, TheSecondRunShowsHowMuchIsLeft) {
    run_to_end("train", "--work 500 --iterations 60");
    json known = listed();
    ASSERT_EQ(known.size(), 1u) << known;
    EXPECT_EQ(known[0]["command"], machine_.path("train"));
    EXPECT_EQ(known[0]["runs"], 1);
    EXPECT_EQ(known[0]["iterations"], 60);
    EXPECT_EQ(known[0]["status"], 0);
    EXPECT_GT(known[0]["iteration_s"], 0.0001);
    EXPECT_GT(known[0]["took_s"], 60 * known[0]["iteration_s"].get<double>());
    EXPECT_GE(known[0]["persistent"], 4 << 20);
    EXPECT_GE(known[0]["ephemeral"], 7 << 20);

    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("train");
    ASSERT_TRUE(stands_at("train", 20)) << machine_.status();
    Process ps = machine_.salus({"ps", "--json"});
    ASSERT_EQ(ps.wait(), 0);
    const json row = json::parse(ps.output())["jobs"][0];
    EXPECT_EQ(row["iterations_total"], 60);
    EXPECT_EQ(row["estimate"], "history");
    EXPECT_GT(row["left_s"], 0.0);
    Process table = machine_.salus({"ps"});
    ASSERT_EQ(table.wait(), 0);
    EXPECT_NE(table.output().find(" 20/~60 "), std::string::npos) << table.output();
    kill("train", second);

    known = listed();
    EXPECT_EQ(known[0]["runs"], 2);
    EXPECT_EQ(known[0]["iterations"], 60) << "a run that failed sets no length";
    EXPECT_EQ(known[0]["status"], 128 + SIGTERM);
}

TEST_F(History, WhatIsStatedCounts) {
    run_to_end("train", "--work 500 --iterations 60");
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("train", {"--iterations", "1000"});
    ASSERT_TRUE(stands_at("train", 20));
    EXPECT_EQ(machine_.row("train")["iterations_total"], 1000);
    EXPECT_EQ(machine_.row("train")["estimate"], "stated");
    kill("train", second);
}

TEST_F(History, OtherArgumentsTellNoLength) {
    run_to_end("train", "--work 500 --iterations 60");
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle #");
    Process second = run("train", {}, "--lr=0.1");
    ASSERT_TRUE(stands_at("train", 20));
    EXPECT_FALSE(machine_.row("train").contains("iterations_total")) << machine_.row("train");
    kill("train", second);
    EXPECT_EQ(listed().size(), 2u);
}

TEST_F(History, AnInteractiveJobHasNoLength) {
    run_to_end("serve", "--work 500 --iterations 60");
    command("serve", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("serve");
    ASSERT_TRUE(stands_at("serve", 20));
    EXPECT_EQ(machine_.row("serve")["iterations_total"], 60);
    EXPECT_EQ(machine_.salus({"set", "serve", "class=interactive"}).wait(), 0);
    EXPECT_FALSE(machine_.row("serve").contains("iterations_total")) << machine_.row("serve");
    kill("serve", second);
    Process third = run("serve", {"--class", "interactive"});
    ASSERT_TRUE(stands_at("serve", 20));
    EXPECT_FALSE(machine_.row("serve").contains("iterations_total")) << machine_.row("serve");
    kill("serve", third);
}

TEST_F(History, AnEstimateThatIsOutrunIsForgotten) {
    run_to_end("train", "--work 500 --iterations 12");
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("train");
    ASSERT_TRUE(stands_at("train", 20));
    const json row = machine_.row("train");
    EXPECT_FALSE(row.contains("iterations_total") || row.contains("left_s")) << row;
    Process ps = machine_.salus({"ps"});
    EXPECT_EQ(ps.wait(), 0);
    EXPECT_EQ(ps.output().find("20/"), std::string::npos) << ps.output();
    kill("train", second);
}

TEST_F(History, AFailedRunIsCountedAndSetsNoLength) {
    command("train", "--work 500 --iterations 60 --crash-at 10");
    EXPECT_EQ(run("train").wait(), 128 + SIGKILL);
    const json known = listed();
    ASSERT_EQ(known.size(), 1u) << known;
    EXPECT_EQ(known[0]["runs"], 1);
    EXPECT_EQ(known[0]["iterations"], 0);
    EXPECT_EQ(known[0]["status"], 128 + SIGKILL);
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("train");
    ASSERT_TRUE(stands_at("train", 20));
    EXPECT_FALSE(machine_.row("train").contains("estimate"));
    kill("train", second);
}

TEST_F(History, ARunWhoseRunnerIsKilledIsNotRemembered) {
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process runner = run("train");
    ASSERT_TRUE(stands_at("train", 20));
    const pid_t job = machine_.row("train").value("pid", 0);
    ASSERT_GT(job, 0);
    runner.signal(SIGKILL);
    EXPECT_EQ(runner.wait(), 128 + SIGKILL);
    ::kill(job, SIGKILL);
    EXPECT_TRUE(eventually([&] { return machine_.row("train").empty(); }));
    EXPECT_TRUE(listed().empty());
}

TEST_F(History, IsThereAfterTheServiceWasKilled) {
    run_to_end("train", "--work 500 --iterations 60");
    machine_.service().signal(SIGKILL);
    machine_.service().wait();
    EXPECT_EQ(listed().size(), 1u) << "without a service, too";
    machine_.start_service();
    command("train", "--work 500 --iterations 60 --hang-at 19 --hang idle");
    Process second = run("train");
    ASSERT_TRUE(stands_at("train", 20));
    EXPECT_EQ(machine_.row("train")["iterations_total"], 60);
    kill("train", second);
}

TEST_F(History, TheEstimateOutlivesTheService) {
    run_to_end("train", "--work 100 --iterations 600");
    command("train", "--work 100 --iterations 600 --think-ms 5");
    Process second = run("train");
    ASSERT_TRUE(eventually([&] { return machine_.iterations("train") >= 20; }));
    machine_.service().signal(SIGKILL);
    machine_.service().wait();
    // salus run starts the next one
    json row;
    ASSERT_TRUE(eventually([&] {
        row = machine_.row("train");
        return row.value("iterations_before", 0) >= 20 && row.contains("left_s");
    })) << machine_.status();
    EXPECT_EQ(row["iterations_total"], 600);
    EXPECT_EQ(row["estimate"], "history");
    EXPECT_EQ(second.wait(), 0) << second.output();
    const json known = listed();
    EXPECT_EQ(known[0]["runs"], 2);
    EXPECT_EQ(known[0]["iterations"], 600) << "those under the first service count";
    EXPECT_GT(known[0]["took_s"], 600 * 0.005);
}

/// Of the process that has left, only the last service knew.
TEST_F(History, ARunOfSeveralProcessesMaySpanARestart) {
    const std::string job = std::string(SALUS_JOB_BINARY) + " --ephemeral 1MiB --work 100 --quiet ";
    const std::string path = machine_.path("both");
    const std::string left = machine_.path("left");
    const std::string go = machine_.path("go");
    std::ofstream(path) << "#!/bin/sh\n"
                        << job << "--persistent 40MiB --iterations 60 && touch " << left << "\n"
                        << "until [ -e " << go << " ]; do sleep 0.01; done\n"
                        << "exec " << job << "--persistent 1MiB --iterations 20\n";
    ::chmod(path.c_str(), 0755);
    std::uint64_t runs = 0;
    for (const int signal : {SIGTERM, SIGKILL}) {
        Process both = run("both");
        ASSERT_TRUE(eventually([&] { return std::filesystem::exists(left); })) << both.output();
        ASSERT_TRUE(
            eventually([&] { return text_of(machine_.state() + "/settings").find("gone=60/") != std::string::npos; }));
        const int before = machine_.status()["service"]["pid"];
        ::kill(before, signal);
        ASSERT_TRUE(eventually([&] {
            const json status = machine_.status();
            return status.is_object() && status["service"]["pid"] != before && !machine_.row("both").empty();
        }));
        std::ofstream(go) << "";
        EXPECT_EQ(both.wait(), 0) << both.output();
        const json known = listed();
        ASSERT_EQ(known.size(), 1u);
        EXPECT_EQ(known[0]["runs"], ++runs);
        EXPECT_EQ(known[0]["iterations"], 60);
        EXPECT_GE(known[0]["persistent"], std::int64_t{40} << 20);
        std::filesystem::remove(left);
        std::filesystem::remove(go);
    }
}

TEST_F(History, UsageIsWhatTheJobsThatEndedHaveUsed) {
    run_to_end("train", "--work 500 --iterations 60");
    run_to_end("train", "--work 500 --iterations 40");
    run_to_end("test", "--work 500 --iterations 20");
    Process table = machine_.salus({"usage", "--since", "1h"});
    EXPECT_EQ(table.wait(), 0);
    EXPECT_NE(table.output().find("(all)"), std::string::npos) << table.output();
    Process as_json = machine_.salus({"usage", "--json", "--user", std::to_string(::getuid())});
    ASSERT_EQ(as_json.wait(), 0) << as_json.output();
    const json usage = json::parse(as_json.output(), nullptr, false);
    ASSERT_EQ(usage["users"].size(), 1u) << usage;
    const json& me = usage["users"][0];
    EXPECT_EQ(me["uid"], ::getuid());
    EXPECT_EQ(me["jobs"], 3);
    EXPECT_EQ(me["iterations"], 120);
    ASSERT_EQ(me["commands"].size(), 2u);
    const json& train = me["commands"][0];
    EXPECT_EQ(train["command"], machine_.path("train"));
    EXPECT_EQ(train["jobs"], 2);
    EXPECT_EQ(train["iterations"], 100);
    EXPECT_GT(train["device_s"], 0.02) << "100 iterations of at least half a millisecond";
    EXPECT_LT(train["device_s"], train["elapsed_s"].get<double>());
    EXPECT_GT(train["memory_time_gib_s"], 0.0);

    Process later = machine_.salus({"usage", "--since", "0s"});
    EXPECT_EQ(later.wait(), 0);
    EXPECT_EQ(later.output(), "no jobs have ended\n");
    for (const Words& wrong : {Words{"usage", "--since", "yesterday"}, Words{"usage", "--user", "nobody-of-that-name"}}) {
        Process refused = machine_.salus(wrong);
        EXPECT_EQ(refused.wait(), 2) << refused.output();
    }
}

TEST_F(History, IsClearedByCommandOrAsAWhole) {
    for (const char* name : {"train", "train2", "test"}) run_to_end(name, "--work 100 --iterations 5");
    const auto says = [&](std::vector<std::string> arguments, int status) {
        arguments.insert(arguments.begin(), {"history"});
        Process command = machine_.salus(arguments);
        EXPECT_EQ(command.wait(), status) << command.output();
        return command.output();
    };
    const std::string usage = "salus: history clear: give either a part of a command or --all\n";
    EXPECT_EQ(says({"clear"}, 2), usage);
    EXPECT_EQ(says({"clear", "train", "--all"}, 2), usage);
    EXPECT_EQ(says({"clear", "no such"}, 0), "0 commands forgotten\n");
    EXPECT_EQ(says({"clear", "/train"}, 0), "2 commands forgotten\n");
    EXPECT_EQ(listed().size(), 1u);
    machine_.service().end();
    EXPECT_NE(says({}, 0).find("/test "), std::string::npos);
    EXPECT_EQ(says({"clear", "--all"}, 0), "1 command forgotten\n");
    EXPECT_EQ(says({}, 0), "no history\n");
}

TEST_F(History, OrdersJobsThatSayNothingOfTheirLength) {
    run_to_end("short", "--work 500 --iterations 1000");
    run_to_end("long", "--work 10 --iterations 8000");
    // Slower now, so that there is time to look. Of two whose lengths are not known, the first would run on.
    command("short", "--work 2000 --iterations 1000");
    command("long", "--work 2000 --iterations 8000");
    Process first = run("long");
    ASSERT_TRUE(machine_.goes_on("long", 20));
    Process second = run("short");
    ASSERT_TRUE(eventually([&] { return machine_.iterations("short") >= 3; })) << machine_.status();
    std::map<std::string, std::uint64_t> from;
    std::map<std::string, std::uint64_t> to;
    const auto look = [&](std::map<std::string, std::uint64_t>& done) {
        const json status = machine_.status();
        for (const json& row : status["jobs"]) done[row["name"]] = row.value("iterations", std::uint64_t{0});
    };
    look(from);
    ASSERT_TRUE(eventually([&] {
        look(to);
        return to["short"] >= from["short"] + 200;
    })) << machine_.status();
    // When the one pauses for want of a processor, the other may have a turn.
    EXPECT_LT(to["long"] - from["long"], (to["short"] - from["short"]) / 2);
    EXPECT_EQ(second.wait(), 0) << second.output();
    kill("long", first);
}

TEST(HistoryFile, ThatIsBrokenIsSetAsideAndTheServiceRuns) {
    Machine machine({"--capacity", "1GiB"}, /*start=*/false);
    std::filesystem::create_directories(machine.state());
    std::ofstream(machine.state() + "/history.db") << "this is not a database, though it lies where one should be";
    machine.start_service();
    EXPECT_NE(machine.log().find("history.db.broken"), std::string::npos) << machine.log();
    EXPECT_TRUE(std::filesystem::exists(machine.state() + "/history.db.broken"));
    Process job = machine.salus({"run", "--", SALUS_JOB_BINARY, "--work", "100", "--quiet", "--iterations", "3"});
    EXPECT_EQ(job.wait(), 0) << job.output();
    Process list = machine.salus({"history"});
    EXPECT_EQ(list.wait(), 0);
    EXPECT_NE(list.output().find("--iterations 3"), std::string::npos) << list.output();
}

// A service at a named place is nobody's to start but an administrator's.
TEST_F(History, TheEndOfAJobWhileNoServiceRunsIsRecordedByTheNext) {
    const std::string socket = machine_.path("named/socket"), state = machine_.path("named-state"), go = machine_.path("go");
    machine_.also = {{"SALUS_SOCKET", socket}, {"SALUS_STATE", state}};
    const auto start_named = [&](int number) {
        Process service({SALUSD_BINARY, "--config", "/dev/null", "--capacity", "1GiB", "--device", "host", "--socket",
                         socket, "--state", state},
                        {}, machine_.path("named-" + std::to_string(number) + ".log"));
        EXPECT_TRUE(eventually([&] { return os::connect_to(socket).ok(); })) << service.output();
        return service;
    };
    std::ofstream(go) << "";
    const std::string waits = "while ! [ -e " + go + " ]; do sleep 0.02; done; exit ";
    const Words command = {"run", "--", "sh", "-c", waits + "$(cat " + machine_.path("status") + ")"};
    std::ofstream(machine_.path("status")) << "0";
    Process service = start_named(0);
    Process first = machine_.salus(command);
    EXPECT_EQ(first.wait(), 0) << first.output();
    ASSERT_EQ(listed().size(), 1u);

    std::filesystem::remove(go);
    std::ofstream(machine_.path("status")) << "3";
    Process second = machine_.salus(command);
    ASSERT_TRUE(eventually([&] {
        const auto status = cli::ask_status(socket);
        return status && status.value().jobs.size() == 1;
    }));
    service.signal(SIGKILL);
    service.wait();
    std::ofstream(go) << "";
    EXPECT_EQ(second.wait(), 3) << second.output();
    const auto left = [&] {
        std::error_code error;
        return std::distance(std::filesystem::directory_iterator(state + "/ended", error), {});
    };
    EXPECT_EQ(left(), 1);
    for (int i = 1; i <= 2; ++i) {
        service = start_named(i);
        const json known = listed();
        ASSERT_EQ(known.size(), 1u) << known;
        EXPECT_EQ(known[0]["runs"], 2) << "once, whatever ends afterwards";
        EXPECT_EQ(known[0]["status"], 3);
        EXPECT_EQ(left(), 0);
        service.signal(SIGTERM);
        service.wait();
    }

    // The service was back before the job ended there: the next job tells it.
    service = start_named(3);
    std::filesystem::create_directories(state + "/ended");
    std::ofstream(state + "/ended/late") << "service " << socket
                                         << "\nstatus 4\ntook_ns 5000000000\nended_unix_s 1700000000\ncommand_key 77\n"
                                            "program_key 78\ncommand late.py\n";
    ::chmod((state + "/ended/late").c_str(), 0600);
    EXPECT_EQ(machine_.salus({"run", "--", "true"}).wait(), 0);
    EXPECT_EQ(left(), 0);
    const json known = listed();
    ASSERT_EQ(known.size(), 3u) << known;
    EXPECT_EQ(known[2]["command"], "late.py");
    EXPECT_EQ(known[2]["took_s"], 5.0);
}

// What is known of a command stays: an end that nobody saw tells no length.
TEST_F(History, AnEndWithoutAServiceKeepsTheLengthThatIsKnown) {
    run_to_end("train", "--work 500 --iterations 60");
    const json before = listed();
    machine_.service().signal(SIGTERM);
    machine_.service().wait();
    std::filesystem::create_directories(machine_.state() + "/ended");
    const std::string file = machine_.state() + "/ended/one";
    const auto keys = keys_of({machine_.path("train")}, std::filesystem::current_path().string());
    std::ofstream(file) << "service own\nstatus 0\ntook_ns 9000000000\nended_unix_s 1700000000\ncommand_key " << keys.command
                        << "\nprogram_key " << keys.program << "\ncommand train\n";
    ::chmod(file.c_str(), 0600);
    machine_.start_service();
    EXPECT_FALSE(std::filesystem::exists(file));
    const json known = listed();
    ASSERT_EQ(known.size(), 1u);
    EXPECT_EQ(known[0]["runs"], 2);
    for (const char* key : {"iterations", "iteration_s", "persistent", "ephemeral", "took_s"})
        EXPECT_EQ(known[0][key], before[0][key]) << key;
}

/// Where overlap is measured.
class PairHistory : public History {
protected:
    PairHistory() : History({"--capacity", "1GiB", "--policy", "fair", "--overlap", "measure"}) {}

    json beside(const std::string& name) {
        for (const json& row : listed()) {
            if (row["command"] == machine_.path(name)) return row.value("beside", json::array());
        }
        return json::array();
    }
};

/// Three, because one of two that take turns is mostly not ready when the other one's turn begins.
TEST_F(PairHistory, WhatCommandsAreAtOnceIsKeptAndRecalled) {
    const std::vector<std::string> names{"one", "two", "three"};
    const auto run_all = [&] {
        std::vector<Process> jobs;
        for (const std::string& name : names) jobs.push_back(run(name));
        return jobs;
    };
    for (const std::string& name : names) command(name, "--work 3000 --iterations 1000000");
    std::vector<Process> jobs = run_all();
    // Whatever comes out of the trials, and on a busy machine that may take long.
    eventually([&] { return machine_.row("one").contains("company"); }, 20);
    for (std::size_t i = 0; i < names.size(); ++i) kill(names[i], jobs[i]);
    std::size_t pairs = 0;
    for (const std::string& name : names) {
        for (const json& other : beside(name)) {
            ++pairs;
            EXPECT_NE(other["command"], machine_.path(name));
            EXPECT_GT(other["rate"], 0);
        }
    }
    ASSERT_GE(pairs, 2u) << "both of a pair tell of it: " << listed();
    Process table = machine_.salus({"history"});
    EXPECT_EQ(table.wait(), 0);
    EXPECT_NE(table.output().find("TIMES AS FAST AS IN TURNS"), std::string::npos) << table.output();

    jobs = run_all();
    for (const std::string& name : names) EXPECT_TRUE(eventually([&] { return machine_.iterations(name) > 0; })) << name;
    Process flush = machine_.salus({"trace", machine_.path("flushed.json")});
    EXPECT_EQ(flush.wait(), 0) << flush.output();
    EXPECT_NE(text_of(machine_.state() + "/trace").find(" recall client="), std::string::npos);
    for (std::size_t i = 0; i < names.size(); ++i) kill(names[i], jobs[i]);
}

}  // namespace
}  // namespace salus::test
