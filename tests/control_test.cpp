// `salus run` and the commands that control its jobs, with real processes.
#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

class Control : public ::testing::Test {
protected:
    Control() : machine_({"--capacity", "1GiB", "--device", "host"}) {}
    /// `salus run` starts a new service when the last one is gone: that one is not the machine's.
    ~Control() override { machine_.salus({"stop", "--force"}).wait(); }

    Process run(const std::string& name, const std::vector<std::string>& command) {
        std::vector<std::string> words = {"run", "--name", name, "--"};
        words.insert(words.end(), command.begin(), command.end());
        return machine_.salus(words);
    }
    bool is(const std::string& name, const std::string& state) {
        return eventually([&] { return machine_.state_of(name) == state; });
    }
    /// It ends so, and says one line that has this in it.
    void expect(const std::vector<std::string>& arguments, int status, const std::string& says) {
        Process command = machine_.salus(arguments);
        EXPECT_EQ(command.wait(), status) << arguments[0];
        const std::string output = command.output();
        EXPECT_NE(output.find(says), std::string::npos) << arguments[0] << " said: " << output;
        EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), says.empty() ? 0 : 1) << output;
    }
    static std::vector<std::string> endless() {
        return {SALUS_JOB_BINARY, "--persistent", "1MiB",   "--ephemeral", "1MiB", "--work", "10", "--think-ms", "1",
                "--quiet",        "--iterations", "1000000"};
    }
    static std::string endless_line() {
        std::string line;
        for (const std::string& word : endless()) line += word + " ";
        return line;
    }

    Machine machine_;
};

TEST_F(Control, AnArgumentWithABlankIsNoOtherJob) {
    Process job = run("my", endless());
    ASSERT_TRUE(machine_.goes_on("my"));
    for (const char* verb : {"kill", "pause", "resume"}) expect({verb, "my job"}, 1, "there is no job 'my job'");
    expect({"kill", "my now"}, 1, "there is no job 'my now'");
    expect({"set", "my priority=3", "weight=2"}, 1, "there is no job 'my priority=3'");
    expect({"kill", ""}, 1, "there is no job ''");
    EXPECT_TRUE(machine_.goes_on("my"));
    EXPECT_EQ(machine_.row("my")["priority"], 0);
    expect({"kill", "my"}, 0, "is told to end");
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST_F(Control, ANameFromTheCommandIsOneWordAndNoNumber) {
    for (const char* script : {"my script", "42"}) {
        std::ofstream(machine_.path(script)) << "#!/bin/sh\nexec sleep 100\n";
        ::chmod(machine_.path(script).c_str(), 0755);
    }
    Process script = machine_.salus({"run", "--", machine_.path("my script")});
    Process number = machine_.salus({"run", "--", machine_.path("42")});
    EXPECT_TRUE(is("my_script", "starting")) << machine_.status();
    EXPECT_TRUE(is("job-42", "starting")) << machine_.status();
    expect({"kill", "my_script"}, 0, "is told to end");
    expect({"kill", "job-42"}, 0, "is told to end");
    EXPECT_EQ(script.wait(), 128 + SIGTERM);
    EXPECT_EQ(number.wait(), 128 + SIGTERM);
}

TEST_F(Control, WhatCannotBeDoneBeforeAJobAttachesIsSaid) {
    Process job = run("slow", {"sleep", "100"});
    ASSERT_TRUE(is("slow", "starting"));
    for (const char* verb : {"pause", "resume"}) expect({verb, "slow"}, 1, "(slow) has not attached yet");
    expect({"set", "slow", "weight=2"}, 1, "(slow) has not attached yet");
    expect({"set", "slow", "colour=red"}, 2, "cannot set 'colour'");
    expect({"set", "slow", "weight=0"}, 2, "weight must be from 0.000001 to 1000000");
    EXPECT_TRUE(job.runs());
    expect({"kill", "slow"}, 0, "is told to end");
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST_F(Control, KillNowEndsAJobThatHasNotAttached) {
    const std::string ready = machine_.path("ready");
    Process job = run("stubborn", {"sh", "-c", "trap '' TERM; touch " + ready + "; exec sleep 100"});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(ready); }));
    expect({"kill", "stubborn"}, 0, "is told to end");
    sleep_s(0.1);
    EXPECT_TRUE(job.runs());
    expect({"kill", "stubborn", "--now"}, 0, "is killed");
    EXPECT_EQ(job.wait(), 128 + SIGKILL);
}

TEST_F(Control, AScriptThatIsKilledDoesNotGoOn) {
    for (const bool now : {false, true}) {
        const std::string name = now ? "script-now" : "script";
        const std::string script = endless_line() + "--name " + name + "; touch " + machine_.path("went-on") + "; sleep 100";
        Process job = run(name, {"sh", "-c", script});
        ASSERT_TRUE(machine_.goes_on(name));
        const int attached = machine_.row(name)["pid"];
        if (now) expect({"kill", name, "--now"}, 0, name + " (job 2) is killed");
        else expect({"kill", name}, 0, name + " (job 1) is told to end");
        EXPECT_EQ(job.wait(), 128 + (now ? SIGKILL : SIGTERM));
        EXPECT_TRUE(eventually([&] { return ::kill(attached, 0) != 0; })) << "what the script had started runs on";
        EXPECT_FALSE(std::filesystem::exists(machine_.path("went-on")));
    }
}

TEST_F(Control, AJobIsToldOnceToEnd) {
    if (kSanitized) GTEST_SKIP() << "a Python without a sanitizer cannot load a library that has one";
    const std::string told = machine_.path("told");
    const std::string ready = machine_.path("ready");
    std::ofstream(machine_.path("saver.py")) << "import ctypes, os, signal, sys, time\n"
                                                "def note(*_): open(sys.argv[1], 'a').write('x')\n"
                                                "signal.signal(signal.SIGTERM, note)\n"
                                                "library = ctypes.CDLL(os.environ['SALUS_LIBRARY'])\n"
                                                "client = ctypes.c_void_p()\n"
                                                "assert library.salus_attach(None, ctypes.byref(client)) == 0\n"
                                                "open(sys.argv[2], 'w')\n"
                                                "while True: time.sleep(0.01)\n";
    Process job = run("saver", {"python3", machine_.path("saver.py"), told, ready});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(ready); })) << job.output();
    expect({"kill", "saver"}, 0, "is told to end");
    ASSERT_TRUE(eventually([&] { return !text_of(told).empty(); }));
    sleep_s(0.2);
    EXPECT_EQ(text_of(told), "x");
    expect({"kill", "saver", "--now"}, 0, "is killed");
    EXPECT_EQ(job.wait(), 128 + SIGKILL);
}

TEST_F(Control, WhatIsTypedWrongIsStatusTwo) {
    expect({"policy", "nope"}, 2, "unknown policy 'nope'");
    expect({"policy", "rrr"}, 2, "did you mean 'rr'?");
    Process job = run("resnet", {"sleep", "100"});
    ASSERT_TRUE(is("resnet", "starting"));
    for (const char* verb : {"pause", "kill"})
        expect({verb, "resnte"}, 1, "there is no job 'resnte'; did you mean 'resnet'?");
    expect({"wait", "resnte"}, 2, "there is no job 'resnte'; did you mean 'resnet'?");
    expect({"set", "1", "colour=red"}, 2, "cannot set 'colour'");
    for (const char* name : {"my job", "my\tjob", "7"}) expect({"run", "--name", name, "--", "true"}, 2, "--name must ");
    for (const char* count : {"-5", "0", "x"})
        expect({"run", std::string("--iterations=") + count, "--", "true"}, 2, "--iterations");
    EXPECT_EQ(machine_.status()["service"]["policy"], "fair");
}

TEST_F(Control, NamesThatOthersChoseDoNotReachTheTerminalAsTheyAre) {
    const std::string name = "a\xe2\x80\xaegnp\xc2\x9b";  // right to left from here on; an escape sequence begins
    Process job = run(name, endless());
    ASSERT_TRUE(machine_.goes_on(name));
    const auto is_ascii = [](const std::string& text) {
        return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x7f || (c < 0x20 && c != '\n'); });
    };
    Process json = machine_.salus({"ps", "--json"});
    EXPECT_EQ(json.wait(), 0);
    EXPECT_NE(json.output().find("\"a\\u202egnp\\u009b\""), std::string::npos) << json.output();
    EXPECT_TRUE(is_ascii(json.output())) << json.output();
    EXPECT_EQ(nlohmann::json::parse(json.output())["jobs"][0]["name"], name);
    Process text = machine_.salus({"ps"});
    EXPECT_EQ(text.wait(), 0);
    EXPECT_NE(text.output().find("a?gnp?"), std::string::npos) << text.output();
    EXPECT_TRUE(is_ascii(text.output())) << text.output();
    expect({"set", name + "x", "weight=2"}, 1, "there is no job 'a?gnp?x'");
    EXPECT_TRUE(is_ascii(machine_.log())) << machine_.log();
    expect({"kill", name}, 0, "is told to end");
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST_F(Control, AServiceThatRefusesItsOptionsIsStatusTwo) {
    Machine other({}, false);
    Process start = other.salus({"start", "--", "--policy", "nope"});
    EXPECT_EQ(start.wait(), 2);
    EXPECT_NE(start.output().find("there is no policy 'nope'"), std::string::npos) << start.output();
}

TEST_F(Control, MoreMemoryThanTheMachineHasIsRefused) {
    Machine other({}, false);
    for (const auto& [size, says] : {std::pair{"900TiB", "--capacity: the machine has "}, {"12", "'12' has no unit"}}) {
        Process start = other.salus({"start", "--", "--device", "host", "--capacity", size});
        EXPECT_EQ(start.wait(), 2) << size;
        const std::string output = start.output();
        EXPECT_NE(output.find(says), std::string::npos) << output;
        EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
    }
}

TEST_F(Control, PsSaysWhoANewcomerWaitsFor) {
    ASSERT_EQ(machine_.salus({"policy", "fifo"}).wait(), 0);
    Process holder = run("holder", endless());
    ASSERT_TRUE(machine_.goes_on("holder", 10));
    Process newcomer = run("newcomer", endless());
    const std::string number = std::to_string(machine_.row("holder").value("job", 0));
    std::string table;
    EXPECT_TRUE(eventually([&] {
        Process ps = machine_.salus({"ps"});
        ps.wait();
        table = ps.output();
        return table.find("waits: the policy lets holder (job " + number + ") go first") != std::string::npos;
    })) << table;
    for (const char* name : {"newcomer", "holder"}) EXPECT_EQ(machine_.salus({"kill", name}).wait(), 0);
    EXPECT_EQ(newcomer.wait(), 128 + SIGTERM);
    EXPECT_EQ(holder.wait(), 128 + SIGTERM);
}

TEST_F(Control, PsSaysWhyAJobRunsWithoutSharing) {
    Process isolated = run("isolated", {"python3", "-I", "-c", "import time; time.sleep(100)"});
    EXPECT_TRUE(is("isolated", "unshared")) << machine_.status();
    EXPECT_EQ(machine_.row("isolated")["why_unshared"], "python -I keeps the adaptor out");
    // A process of the job says it itself; nobody else may.
    Process asleep = run("asleep", {"sleep", "100"});
    ASSERT_TRUE(is("asleep", "starting"));
    const auto number = machine_.row("asleep").value("job", 0u);
    const auto tell = [&](std::uint32_t job) {
        const auto service = os::connect_to(machine_.socket());
        ASSERT_TRUE(service.ok());
        ASSERT_TRUE(wire::send(service.value().get(), wire::Unshared{job, wire::Text<160>("it is not in the mood")}));
    };
    tell(number + 1000);
    tell(number);
    EXPECT_TRUE(is("asleep", "unshared")) << machine_.status();
    EXPECT_EQ(machine_.row("asleep")["why_unshared"], "it is not in the mood");
    Process ps = machine_.salus({"ps"});
    EXPECT_EQ(ps.wait(), 0);
    EXPECT_NE(ps.output().find("runs without sharing: it is not in the mood"), std::string::npos) << ps.output();
    for (const char* name : {"isolated", "asleep"}) EXPECT_EQ(machine_.salus({"kill", name}).wait(), 0);
}

TEST_F(Control, ACommandThatCannotRunIsToldAtOnce) {
    std::ofstream(machine_.path("train.py")) << "print('hello')\n";
    const std::string script = machine_.path("train.py");
    for (const std::vector<std::string>& how : {std::vector<std::string>{"run"}, {"run", "--detach"}}) {
        expect(how + Words{"--", "no-such-command"}, 127, "salus: no command 'no-such-command' in PATH\n");
        expect(how + Words{"--", machine_.path("nope")}, 127, "salus: no file '" + machine_.path("nope") + "'\n");
        expect(how + Words{script}, 126, "salus: " + script + " is not executable; did you mean 'python");
    }
    EXPECT_FALSE(std::filesystem::exists(machine_.state() + "/logs"));
    EXPECT_TRUE(machine_.status()["ended"].empty());
}

// -------------------------------------------------------------------------------------------------------- wait, kill

TEST_F(Control, WaitEndsWithTheStatusOfTheLastJob) {
    const std::string go = machine_.path("go");
    Process slow = run("slow", {"sh", "-c", "until [ -e " + go + " ]; do sleep 0.01; done; exit 3"});
    ASSERT_TRUE(is("slow", "starting"));
    Process quick = run("quick", {"sh", "-c", "exit 4"});
    EXPECT_EQ(quick.wait(), 4);
    expect({"wait", "quick"}, 4, "");  // it has ended already
    Process both = machine_.salus({"wait", "slow", "quick"});
    Process one = machine_.salus({"wait", "quick", "1"});
    sleep_s(0.1);
    EXPECT_TRUE(both.runs() && one.runs());
    std::ofstream(go) << "";
    EXPECT_EQ(both.wait(), 4);
    EXPECT_EQ(one.wait(), 3);
    EXPECT_EQ(both.output() + one.output(), "");
}

TEST_F(Control, WaitForAJobThatIsNotThereIsStatusTwoAtOnce) {
    Process job = run("job", {"sleep", "100"});
    ASSERT_TRUE(is("job", "starting"));
    expect({"wait", "job", "nobody"}, 2, "there is no job 'nobody'");
    expect({"wait", "9"}, 2, "there is no job '9'");
    Process waits = machine_.salus({"wait", "job"});
    sleep_s(0.1);
    waits.signal(SIGINT);
    EXPECT_EQ(waits.wait(), 128 + SIGINT);
    EXPECT_TRUE(job.runs());
}

TEST_F(Control, WaitOutlastsAService) {
    Process job = run("job", {"sleep", "100"});
    ASSERT_TRUE(is("job", "starting"));
    Process waits = machine_.salus({"wait", "job"});
    sleep_s(0.1);
    machine_.service().signal(SIGKILL);
    machine_.service().wait();
    ASSERT_TRUE(is("job", "starting")) << "its runner has started another service";
    job.signal(SIGTERM);
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_EQ(waits.wait(), 128 + SIGTERM) << waits.output();
}

TEST_F(Control, WaitSaysIfNobodySawTheExitStatus) {
    Process job = run("job", {"sleep", "100"});
    ASSERT_TRUE(is("job", "starting"));
    Process waits = machine_.salus({"wait", "job"});
    sleep_s(0.1);
    job.end();  // the runner, too
    EXPECT_EQ(waits.wait(), 1);
    EXPECT_EQ(waits.output(), "salus: job (job 1) has ended, but nobody saw its exit status\n");
}

TEST_F(Control, KillTakesSeveralJobsOrAll) {
    std::vector<Process> jobs;
    for (const char* name : {"a", "b", "c", "d"}) {
        jobs.push_back(run(name, {"sleep", "100"}));
        ASSERT_TRUE(is(name, "starting"));
    }
    Process several = machine_.salus({"kill", "a", "nobody", "2"});
    EXPECT_EQ(several.wait(), 1);
    EXPECT_NE(several.output().find("salus: there is no job 'nobody'\n"), std::string::npos) << several.output();
    for (const char* line : {"a (job 1) is told to end\n", "b (job 2) is told to end\n"})
        EXPECT_NE(several.output().find(line), std::string::npos) << several.output();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(jobs[i].wait(), 128 + SIGTERM);
    EXPECT_TRUE(jobs[2].runs() && jobs[3].runs());
    expect({"kill"}, 2, "kill needs either jobs or --all");
    expect({"kill", "c", "--all"}, 2, "kill needs either jobs or --all");
    Process all = machine_.salus({"kill", "--all", "--now"});
    EXPECT_EQ(all.wait(), 0);
    EXPECT_EQ(all.output(), "c (job 3) is killed\nd (job 4) is killed\n");
    for (std::size_t i = 2; i < 4; ++i) EXPECT_EQ(jobs[i].wait(), 128 + SIGKILL);
    ASSERT_TRUE(eventually([&] { return machine_.status()["jobs"].empty(); }));
    expect({"kill", "--all"}, 0, "you have no jobs");
}

TEST_F(Control, WhatACommandDidIsOneLine) {
    Process job = run("my", endless());
    ASSERT_TRUE(machine_.goes_on("my"));
    expect({"pause", "1"}, 0, "my (job 1) pauses after its current iteration\n");
    expect({"resume", "my"}, 0, "my (job 1) is resumed\n");
    expect({"set", "1", "priority=3", "class=batch"}, 0, "my (job 1) has priority=3, class=batch now\n");
    expect({"policy", "srtf"}, 0, "the policy is srtf now\n");
    expect({"policy"}, 0, "srtf\n");
    expect({"kill", "my"}, 0, "my (job 1) is told to end\n");
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    expect({"stop"}, 0, "the service has stopped\n");
}

TEST_F(Control, PsShowsJobsThatHaveEnded) {
    Process job = run("brief", {"sh", "-c", "exit 7"});
    EXPECT_EQ(job.wait(), 7);
    ASSERT_TRUE(eventually([&] { return machine_.status()["jobs"].empty(); }));
    expect({"ps"}, 0, "no jobs\n");
    Process table = machine_.salus({"ps", "-a"});
    EXPECT_EQ(table.wait(), 0);
    EXPECT_NE(table.output().find("brief  -      ended "), std::string::npos) << table.output();
    EXPECT_NE(table.output().find("  status 7, "), std::string::npos) << table.output();
    Process document = machine_.salus({"ps", "-a", "--json"});
    EXPECT_EQ(document.wait(), 0);
    const nlohmann::json all = nlohmann::json::parse(document.output());
    EXPECT_EQ(all["schema_version"], 1);
    const nlohmann::json ended = all["ended"][0];
    EXPECT_EQ(ended["exit_status"], 7);
    EXPECT_EQ(ended["command"], "sh -c exit 7");
    EXPECT_FALSE(ended["user"].get<std::string>().empty());
    EXPECT_LT(std::abs(ended["ended_unix_s"].get<double>() - static_cast<double>(::time(nullptr))), 100);
    EXPECT_LT(ended["elapsed_s"], 100.0);
}

// -------------------------------------------------------------------------------------------------------------- logs

TEST_F(Control, LogsAreCopiedByteForByteAndNoneIsLost) {
    const auto detach = [&](const std::string& text) {
        Process job = machine_.salus({"run", "-d", "--name", "bar", "--", "printf", text});
        EXPECT_EQ(job.wait(), 0) << job.output();
        EXPECT_TRUE(eventually([&] { return machine_.row("bar").empty(); }));
    };
    detach("1\\r2\\r3");
    machine_.service().signal(SIGTERM);
    EXPECT_EQ(machine_.service().wait(), 0);
    machine_.start_service();  // which counts from 1 again
    detach("of the second");
    EXPECT_EQ(text_of(machine_.state() + "/logs/1-bar.log"), "1\r2\r3");
    EXPECT_EQ(text_of(machine_.state() + "/logs/1-bar.log.2"), "of the second");
    for (const std::vector<std::string>& words : {std::vector<std::string>{"logs", "bar"}, {"logs", "-f", "1"}}) {
        Process logs = machine_.salus(words);
        EXPECT_EQ(logs.wait(), 0);
        EXPECT_EQ(logs.output(), "of the second") << "as it is, without an end of the line";
    }
    expect({"logs", "ar"}, 1, "no log for job 'ar'");
    detach("1\\n2\\n3\\n");
    Process last = machine_.salus({"logs", "-n", "2", "bar"});
    EXPECT_EQ(last.wait(), 0);
    EXPECT_EQ(last.output(), "2\n3\n");
    expect({"logs", "-n", "-1", "bar"}, 2, "-n must be 0 or more");
}

// ------------------------------------------------------------------------------------------------------------ bench

class Bench : public Control {
protected:
    std::string jobs_file(const std::string& command) {
        std::ofstream(machine_.path("jobs.csv"))
            << "name,arrival_s,iterations,iteration_ms,persistent_mib,ephemeral_mib,command\na,0,3,1,1,1," << command
            << "\n";
        return machine_.path("jobs.csv");
    }
};

TEST_F(Bench, WithoutATemporaryDirectoryIsOneLine) {
    machine_.also["TMPDIR"] = "/nonexistent";
    expect({"bench", jobs_file(""), "--policy", "fair"}, 1, "no directory for the run");
}

TEST_F(Bench, AFileThatCannotBeWrittenIsToldBeforeAnythingRuns) {
    const std::string ran = machine_.path("ran");
    expect({"bench", jobs_file("touch " + ran), "--policy", "fair", "--timeline", "/nonexistent/x.svg"}, 2,
           "cannot write '/nonexistent/x.svg'");
    EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(Bench, ASignalEndsAllThatItStarted) {
    const std::string temporary = machine_.path("tmp");
    std::filesystem::create_directory(temporary);
    machine_.also["TMPDIR"] = temporary;
    const std::string pid_file = machine_.path("pid");
    Process bench = machine_.salus({"bench", jobs_file("sleep 100 & echo $! > " + pid_file + "; wait"), "--policy", "fair"});
    ASSERT_TRUE(eventually([&] { return text_of(pid_file).ends_with("\n"); })) << bench.output();
    ASSERT_FALSE(std::filesystem::is_empty(temporary));
    bench.signal(SIGTERM);
    EXPECT_EQ(bench.wait(), 128 + SIGTERM);
    EXPECT_TRUE(std::filesystem::is_empty(temporary));
    const int job = std::stoi(text_of(pid_file));
    EXPECT_TRUE(eventually([&] { return ::kill(job, 0) != 0; })) << "the job runs on";
}

// ------------------------------------------------------------------------------------------------------------ doctor

TEST_F(Control, TheDoctorLooksWhereJobsLook) {
    const auto row = [&](Process& doctor, const std::string& what) {
        for (const nlohmann::json& finding : nlohmann::json::parse(doctor.output(), nullptr, false)) {
            if (finding.value("what", "") == what) return finding;
        }
        return nlohmann::json::object();
    };
    Process here = machine_.salus({"doctor", "--json"});
    here.wait();
    EXPECT_EQ(row(here, "Python adaptor")["ok"], true) << here.output();
    EXPECT_NE(row(here, "paging")["detail"].dump().find(machine_.environment()["SALUS_PAGE_DIR"]), std::string::npos)
        << here.output();

    machine_.also["SALUS_PAGE_DIR"] = "/nonexistent";
    std::filesystem::create_directory(machine_.path("bin"));
    std::filesystem::copy(SALUS_BINARY, machine_.path("bin/salus"));
    Process astray({machine_.path("bin/salus"), "doctor", "--json"}, machine_.environment(), machine_.path("astray.out"));
    EXPECT_EQ(astray.wait(), 1);
    EXPECT_EQ(row(astray, "Python adaptor")["ok"], false) << astray.output();
    EXPECT_EQ(row(astray, "paging")["ok"], false) << astray.output();
}

TEST_F(Control, TheDoctorTakesTheSocketOfAServiceForAllUsers) {
    Machine machine({"--capacity", "1GiB", "--device", "host", "--users", "all"});
    Process doctor = machine.salus({"doctor", "--json"});
    doctor.wait();
    bool found = false;
    for (const nlohmann::json& finding : nlohmann::json::parse(doctor.output(), nullptr, false)) {
        if (finding.value("what", "") != "socket") continue;
        found = true;
        EXPECT_EQ(finding["ok"], true) << finding;
    }
    EXPECT_TRUE(found) << doctor.output();
}

TEST_F(Control, TheDoctorChecksTheConfigurationAsTheServiceDoes) {
    machine_.also["XDG_CONFIG_HOME"] = machine_.path("config");
    std::filesystem::create_directories(machine_.path("config/salus"));
    const std::string file = machine_.path("config/salus/salusd.toml");
    for (const auto& [text, says] : {std::pair{"policy = \"rr\"\n", file},
                                     {"polcy = \"rr\"\n", file + ": there is no option 'polcy'; did you mean 'policy'?"}}) {
        std::ofstream(file) << text;
        Process doctor = machine_.salus({"doctor", "--json"});
        doctor.wait();
        for (const nlohmann::json& finding : nlohmann::json::parse(doctor.output(), nullptr, false)) {
            if (finding.value("what", "") != "configuration") continue;
            EXPECT_EQ(finding["ok"], says == file) << finding;
            EXPECT_TRUE(finding.value("detail", "").ends_with(says)) << finding;
        }
        EXPECT_NE(doctor.output().find("\"configuration\""), std::string::npos);
    }
}

}  // namespace
}  // namespace salus::test
