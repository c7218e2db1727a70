// What is kept over a restart of the service, and how it reads its configuration again, with real processes.
#include <sys/stat.h>

#include <algorithm>

#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

using nlohmann::json;

Words endless() {
    return {"--persistent", "1MiB", "--ephemeral", "1MiB", "--work", "10", "--think-ms", "1", "--iterations", "1000000"};
}
Words command(const std::string& name) { return Words{SALUS_JOB_BINARY, "--quiet", "--name", name} + endless(); }

std::size_t lines_in(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

class Kept : public ::testing::Test {
protected:
    Kept() : machine_({"--capacity", "1GiB", "--device", "host"}, /*start=*/false) {}
    /// Services that `salus` has started are not the machine's.
    ~Kept() override {
        end_jobs();
        machine_.salus({"stop", "--force"}).wait();
    }

    void start(const Words& options) {
        Process start = machine_.salus(Words{"start", "--"} + options);
        ASSERT_EQ(start.wait(), 0) << start.output();
    }
    void run(const std::string& name, const Words& options = {}) {
        jobs_.push_back(machine_.salus(Words{"run", "--name", name} + options + Words{"--"} + command(name)));
        ASSERT_TRUE(machine_.goes_on(name)) << jobs_.back().output();
    }
    /// It succeeds; returns what it said.
    std::string says(const Words& command, int status = 0) {
        Process process = machine_.salus(command);
        EXPECT_EQ(process.wait(), status) << command[0] << ": " << process.output();
        return process.output();
    }
    /// All at once: one that still runs would bring back the service that ends with another.
    void end_jobs() {
        for (const Process& job : jobs_) job.signal(SIGSTOP);
        jobs_.clear();
    }
    json service() const {
        const json status = machine_.status();
        return status.is_object() ? status["service"] : json::object();
    }
    /// Ends the service with this signal, and waits until a job has brought back the next one, to which all of these have
    /// come.
    void bring_back_after(int signal, const Words& names) {
        const int before = service().value("pid", 0);
        ASSERT_GT(before, 0);
        ::kill(before, signal);
        ASSERT_TRUE(eventually([&] {
            const int now = service().value("pid", 0);
            const auto is_back = [&](const std::string& name) { return machine_.row(name).contains("iterations"); };
            return now > 0 && now != before && std::ranges::all_of(names, is_back);
        })) << machine_.status();
    }
    std::string settings() const { return text_of(machine_.state() + "/settings"); }

    Machine machine_;
    std::vector<Process> jobs_;
};

// -------------------------------------------------------------------------------------------------------------- restarts

TEST_F(Kept, WhatAServiceWasToldOutlivesItHoweverItEnds) {
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB", "--paging", "off", "--min-turn-ms", "7"});
    for (const char* name : {"urgent", "paused", "server"}) run(name);
    run("stated", {"--iterations", "900000"});
    says({"policy", "srtf"});
    says({"set", "urgent", "priority=5", "weight=2.5", "iterations=800000"});
    says({"set", "server", "class=interactive"});
    says({"pause", "paused"});
    ASSERT_TRUE(eventually([&] { return machine_.state_of("paused") == "paused"; }));
    for (const int signal : {SIGKILL, SIGTERM, SIGKILL}) {
        bring_back_after(signal, {"urgent", "paused", "server", "stated"});
        const json now = service();
        EXPECT_EQ(now["policy"], "srtf");
        EXPECT_EQ(now["capacity_bytes"], std::int64_t{1} << 30);
        EXPECT_EQ(now["paging"], false);
        EXPECT_NEAR(now.value("min_turn_ms", 0.0), 7.0, 0.01);
        const json urgent = machine_.row("urgent");
        EXPECT_EQ(urgent["priority"], 5);
        EXPECT_EQ(urgent["weight"], 2.5);
        EXPECT_EQ(urgent["iterations_total"], 800000) << urgent;
        EXPECT_EQ(urgent["estimate"], "stated");
        EXPECT_EQ(machine_.row("stated")["iterations_total"], 900000);
        EXPECT_EQ(machine_.row("server")["class"], "interactive");
        EXPECT_EQ(machine_.row("server")["class_reason"], "as its user said");
        EXPECT_EQ(machine_.state_of("paused"), "paused");
        const std::uint64_t paused_at = machine_.iterations("paused");
        EXPECT_TRUE(machine_.goes_on("urgent", 10));
        EXPECT_TRUE(machine_.goes_on("stated", 10));
        EXPECT_EQ(machine_.iterations("paused"), paused_at) << "not even one iteration";
        EXPECT_EQ(machine_.row("stated")["priority"], 0) << "it is another's";
    }
    says({"resume", "paused"});
    EXPECT_TRUE(machine_.goes_on("paused"));
    bring_back_after(SIGKILL, {"paused"});
    EXPECT_TRUE(machine_.goes_on("paused"));
}

TEST_F(Kept, AStatedLengthThatIsOutrunIsNotStatedAgain) {
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB"});
    run("outrun", {"--iterations", "3"});
    ASSERT_TRUE(eventually([&] { return machine_.iterations("outrun") > 3; }));
    bring_back_after(SIGKILL, {"outrun"});
    const json row = machine_.row("outrun");
    EXPECT_FALSE(row.contains("iterations_total") || row.contains("left_s")) << row;
}

TEST_F(Kept, AServiceThatIsStoppedWithoutJobsLeavesNothing) {
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB", "--paging", "off"});
    says({"policy", "srtf"});
    run("job");
    says({"stop"}, 1);  // a job is there
    says({"stop", "--force"});
    ASSERT_TRUE(eventually([&] { return machine_.row("job").contains("iterations"); }));
    EXPECT_EQ(service()["paging"], false) << "its job needed the next one";
    EXPECT_EQ(service()["policy"], "srtf");
    end_jobs();  // and with it the service that it has started
    ASSERT_TRUE(eventually([&] { return !machine_.status().is_object(); }));
    start({});
    EXPECT_EQ(service()["paging"], false) << "that one was not stopped";
    says({"stop"});
    start({});
    EXPECT_EQ(service()["paging"], true);
    EXPECT_EQ(service()["policy"], "fair");
}

TEST_F(Kept, WhoeverGivesOptionsGetsThose) {
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB", "--paging", "off"});
    ::kill(service().value("pid", 0), SIGKILL);
    ASSERT_TRUE(eventually([&] { return !machine_.status().is_object(); }));
    start({"--config", "/dev/null", "--device", "host", "--capacity", "2GiB"});
    EXPECT_EQ(service()["capacity_bytes"], std::int64_t{2} << 30);
    EXPECT_EQ(service()["paging"], true);
}

/// systemctl restart, with jobs that were started without `salus run`.
TEST_F(Kept, AnAdministratorsServiceKeepsWhatWasChangedWhileItRan) {
    machine_.start_service();
    machine_.job("job", endless());
    machine_.job("paused", endless());
    ASSERT_TRUE(machine_.goes_on("job") && machine_.goes_on("paused"));
    says({"policy", "las"});
    says({"set", "job", "weight=3"});
    says({"pause", "paused"});
    const int number = machine_.row("paused")["job"];
    for (const int signal : {SIGTERM, SIGKILL}) {
        machine_.service().signal(signal);
        machine_.service().wait();
        machine_.start_service();
        ASSERT_TRUE(machine_.goes_on("job"));
        ASSERT_TRUE(eventually([&] { return machine_.state_of("paused") == "paused"; })) << machine_.status();
        EXPECT_EQ(machine_.row("paused")["job"], number);
        EXPECT_EQ(machine_.row("job")["weight"], 3.0);
        EXPECT_EQ(service()["policy"], "las");
    }
}

TEST_F(Kept, AnotherJobOfTheSameNumberInheritsNothing) {
    machine_.start_service();
    run("first");
    says({"set", "first", "priority=7", "weight=5"});
    says({"pause", "first"});
    EXPECT_NE(settings().find("job 1 "), std::string::npos) << settings();
    machine_.service().signal(SIGSTOP);  // it cannot see the job end
    end_jobs();
    machine_.service().signal(SIGKILL);
    machine_.service().wait();
    EXPECT_NE(settings().find("job 1 "), std::string::npos) << settings();
    std::filesystem::remove(machine_.state() + "/next-job");
    machine_.start_service();
    run("second");
    const json second = machine_.row("second");
    EXPECT_EQ(second["job"], 1);
    EXPECT_EQ(second["priority"], 0);
    EXPECT_EQ(second["weight"], 1.0);
    EXPECT_TRUE(eventually([&] { return settings().find("job 1 ") == std::string::npos; })) << settings();
}

TEST_F(Kept, ALaterProcessOfAJobHasItsSettings) {
    machine_.start_service();
    const std::string line = [&] {
        std::string all;
        for (const std::string& word : command("first")) all += word + " ";
        return all;
    }();
    std::string second = line;
    second.replace(second.find("first"), 5, "later");
    const std::string go = machine_.path("go");
    jobs_.push_back(machine_.salus(
        {"run", "--name", "both", "--", "sh", "-c", line + "& until [ -e " + go + " ]; do sleep 0.01; done; " + second}));
    ASSERT_TRUE(machine_.goes_on("first")) << jobs_.back().output();
    says({"set", "both", "weight=4"});
    std::ofstream(go) << "";
    ASSERT_TRUE(machine_.goes_on("later"));
    EXPECT_EQ(machine_.row("later")["weight"], 4.0);
}

// ---------------------------------------------------------------------------------------------------------------- reload

class Reloaded : public Kept {
protected:
    /// Without a terminal, as under systemd.
    void start_configured(const std::string& text, const Words& options = {}) {
        configure(text);
        service_ = Process(Words{"setsid", SALUSD_BINARY, "--config", file(), "--socket", machine_.socket(), "--state",
                                 machine_.state(), "--device", "host"} +
                               options,
                           {}, log_path());
        ASSERT_TRUE(eventually([&] { return os::connect_to(machine_.socket()).ok(); })) << service_.output();
    }
    void configure(const std::string& text) const { std::ofstream(file()) << text; }
    std::string file() const { return machine_.path("salusd.toml"); }
    std::string log_path() const { return machine_.path("configured.log"); }

    Process service_;
};

TEST_F(Reloaded, WhatCanChangeDoesAndOneLineSaysWhat) {
    start_configured("capacity = \"1GiB\"\nlanes = 3\n", {"--min-turn-ms", "9"});
    run("job");
    run("other");
    EXPECT_EQ(says({"reload"}), "nothing has changed\n");
    configure(
        "capacity = \"2GiB\"\nlanes = 1\npolicy = \"las\"\npaging = \"off\"\nmin-turn-ms = 3\nmps = \"off\"\n"
        "trace-limit = \"64MiB\"\nlog-level = \"warning\"\n");
    EXPECT_EQ(says({"reload"}),
              "changed: policy las, lanes 1, paging off, capacity 2.0 GiB, log-level warning, trace-limit 64.0 MiB; "
              "needs a restart: mps\n");
    EXPECT_EQ(service()["policy"], "las");
    EXPECT_EQ(service()["paging"], false);
    EXPECT_EQ(service()["capacity_bytes"], std::int64_t{2} << 30);
    EXPECT_NEAR(service().value("min_turn_ms", 0.0), 9.0, 0.01) << "the command line is stronger";
    EXPECT_TRUE(machine_.goes_on("job") && machine_.goes_on("other"));
    const std::string replay = says({"trace", "--replay"});
    EXPECT_NE(replay.find("identical"), std::string::npos) << replay;
}

TEST_F(Reloaded, ABrokenFileChangesNothing) {
    start_configured("capacity = \"1GiB\"\n");
    for (const char* broken : {"policy = \"nope\"\ncapacity = \"2GiB\"\n", "polcy = \"las\"\n", "capacity = \n= [\n"}) {
        configure(broken);
        const std::string said = says({"reload"}, 1);
        EXPECT_EQ(lines_in(said), 1u) << said;
        EXPECT_NE(said.find(file() + ": "), std::string::npos) << said;
        EXPECT_NE(said.find("nothing is changed"), std::string::npos) << said;
    }
    EXPECT_EQ(service()["policy"], "fair");
    EXPECT_EQ(service()["capacity_bytes"], std::int64_t{1} << 30);
}

TEST_F(Reloaded, OnSighupToo) {
    start_configured("capacity = \"1GiB\"\n");
    configure("capacity = \"1GiB\"\npolicy = \"rr\"\n");
    service_.signal(SIGHUP);
    EXPECT_TRUE(eventually([&] { return service().value("policy", "") == "rr"; }));
    EXPECT_TRUE(eventually([&] { return service_.output().find("read again: changed: policy rr") != std::string::npos; }));
    configure("nonsense\n");
    service_.signal(SIGHUP);
    EXPECT_TRUE(eventually([&] { return service_.output().find("nothing is changed: ") != std::string::npos; }));
    EXPECT_TRUE(service_.runs());
}

TEST_F(Reloaded, APolicySetByHandStaysUntilAnotherIsConfigured) {
    start_configured("capacity = \"1GiB\"\n");
    says({"policy", "srtf"});
    configure("capacity = \"2GiB\"\n");
    EXPECT_EQ(says({"reload"}), "changed: capacity 2.0 GiB\n");
    EXPECT_EQ(service()["policy"], "srtf");
    service_.signal(SIGTERM);
    EXPECT_EQ(service_.wait(), 0);
    start_configured("policy = \"las\"\n");
    EXPECT_EQ(service()["policy"], "las") << "it was configured later than the other was set";
    configure("policy = \"rr\"\n");
    EXPECT_EQ(says({"reload"}), "changed: policy rr\n");
    EXPECT_EQ(service()["policy"], "rr");
}

// ----------------------------------------------------------------------------------------------------------------- trace

TEST_F(Kept, TheTraceOfAnEarlierServiceCanBeRead) {
    machine_.start_service();
    Process& job =
        machine_.job("earlier", {"--persistent", "1MiB", "--ephemeral", "1MiB", "--work", "10", "--iterations", "20"});
    EXPECT_EQ(job.wait(), 0) << job.output();
    machine_.service().signal(SIGTERM);
    machine_.service().wait();
    machine_.start_service();
    machine_.service().signal(SIGKILL);
    machine_.service().wait();
    machine_.start_service();
    EXPECT_EQ(text_of(machine_.state() + "/trace").find("name=earlier"), std::string::npos);
    const std::string current = says({"trace", "--replay"});
    EXPECT_EQ(current, "0 events, 0 actions: identical\n");
    for (const std::string& from : {std::string("trace.2"), machine_.state() + "/trace.2"}) {
        const std::string older = says({"trace", "--replay", "--from", from});
        EXPECT_NE(older.find("identical"), std::string::npos) << older;
        EXPECT_NE(older, current);
    }
    says({"trace", machine_.path("older.json"), "--from", "trace.2"});
    EXPECT_NE(text_of(machine_.path("older.json")).find("earlier"), std::string::npos);
    EXPECT_EQ(says({"trace", "--replay", "--from", "trace.9"}, 1),
              fmt::format("salus: cannot open '{}/trace.9': No such file or directory\n", machine_.state()));
}

TEST_F(Kept, ATraceInPiecesIsReadAsOne) {
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB", "--trace-limit", "16KiB"});
    for (int i = 0; !std::filesystem::exists(machine_.state() + "/trace.2") && i < 400; ++i)
        says({"policy", i % 2 == 0 ? "las" : "rr"});
    const std::string whole = says({"trace", "--replay"});
    EXPECT_NE(whole.find("identical"), std::string::npos) << whole;
    ::kill(service().value("pid", 0), SIGKILL);
    ASSERT_TRUE(eventually([&] { return !machine_.status().is_object(); }));
    // Whichever piece of it is named.
    std::string same;
    for (const char* piece : {"trace", "trace.1", "trace.2"}) {
        const std::string said = says({"trace", "--replay", "--from", piece});
        EXPECT_TRUE(same.empty() || said == same) << piece << ": " << said;
        same = said;
    }
}

// ------------------------------------------------------------------------------------------------------------------- log

TEST_F(Kept, LogLinesHaveDatesUnlessTheyGoToTheJournal) {
    const std::string path = machine_.path("salusd-0.log");  // where the service's output will be
    std::ofstream(path) << "";
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    const std::string stream = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    machine_.also = {{"JOURNAL_STREAM", stream}};
    machine_.start_service();
    EXPECT_TRUE(eventually([&] { return text_of(path).find("<6>listening at ") != std::string::npos; })) << text_of(path);
    EXPECT_EQ(text_of(path).find("info"), std::string::npos) << text_of(path);
    machine_.service().signal(SIGTERM);
    machine_.service().wait();
    machine_.start_service();  // inherits the variable, but writes elsewhere
    const std::string other = machine_.path("salusd-1.log");
    EXPECT_TRUE(eventually([&] { return text_of(other).find("listening at ") != std::string::npos; }));
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, fraction = 0, zone = -1;
    char sign = 0;
    EXPECT_EQ(std::sscanf(text_of(other).c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3d%c%2d:", &year, &month, &day, &hour, &minute,
                          &second, &fraction, &sign, &zone),
              9)
        << text_of(other);
}

TEST_F(Kept, AUsersLogIsBounded) {
    std::filesystem::create_directories(machine_.state());
    ::chmod(machine_.state().c_str(), 0700);
    const std::string log = machine_.state() + "/salusd.log";
    std::ofstream(log) << std::string(5 << 20, 'x');
    ::chmod(log.c_str(), 0600);
    start({"--config", "/dev/null", "--device", "host", "--capacity", "1GiB"});
    EXPECT_EQ(std::filesystem::file_size(log + ".1"), 5u << 20);
    EXPECT_LT(std::filesystem::file_size(log), 100'000u);
    EXPECT_NE(text_of(log).find("listening at "), std::string::npos);
}

}  // namespace
}  // namespace salus::test
