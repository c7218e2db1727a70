// The shim in real processes on the stand-in GPU: programs that know nothing of Salus (tests/shim/program.cpp) find the
// driver in every way that programs do, take turns, and compute what they compute without it.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <regex>
#include <set>

#include "tests/shim_machine.h"

namespace salus::test {
namespace {

constexpr const char* kShim = "libsalus-cuda.so";

std::string output_of(const std::string& command) {
    std::string output;
    FILE* const pipe = ::popen(command.c_str(), "r");
    if (!pipe) return output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    ::pclose(pipe);
    return output;
}

// ----------------------------------------------------------------------------------------------------------- the file

TEST(ShimFile, NeedsNoLibcLaterThan228) {
    const std::string symbols = output_of(std::string("objdump -T ") + SALUS_SHIM_FILE);
    ASSERT_NE(symbols.find("GLIBC_2."), std::string::npos) << symbols;
    static const std::regex version(R"(GLIBC_2\.(\d+))");
    for (std::sregex_iterator at(symbols.begin(), symbols.end(), version), end; at != end; ++at)
        EXPECT_LE(std::stoi((*at)[1]), 28) << (*at)[0];
    const std::string needed = output_of(std::string("objdump -p ") + SALUS_SHIM_FILE + " | grep NEEDED");
    EXPECT_EQ(std::count(needed.begin(), needed.end(), '\n'), 2) << needed << "libc and libdl alone";
}

TEST(ShimFile, ShowsTheDriversNamesAndLittleElse) {
    std::set<std::string> others;
    std::istringstream lines(output_of(std::string("nm -D --defined-only ") + SALUS_SHIM_FILE));
    for (std::string address, kind, name; lines >> address >> kind >> name;) {
        if (!name.starts_with("cu")) others.insert(name);
    }
    EXPECT_EQ(others, (std::set<std::string>{"dlsym", "salus_shim_pass_by", "salus_shim_real"}));
}

/// dlsym has found the function: dlerror has nothing to say, although the shim knows functions that this driver lacks.
TEST(ShimFile, LeavesNoErrorOfTheLoaderBehind) {
    const std::string says =
        output_of(std::string("LD_PRELOAD=") + SALUS_SHIM_FILE + " LD_LIBRARY_PATH=" + SALUS_STANDIN_DIR +
                  "/old " SALUS_SOURCE_DIR "/tests/shim/dlerror.py");
    EXPECT_EQ(says, "cuInit found, None\n");
}

std::size_t lines_of(const Process& process) {
    const std::string output = process.output();
    return static_cast<std::size_t>(std::count(output.begin(), output.end(), '\n'));
}

// ------------------------------------------------------------------------------------------------------ one program

class ShimWay : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ShimWay,
                         ::testing::Values("symbol", "dlsym", "resolver", "resolver-v1", "per-thread", "default", "main",
                                           "path", "deepbind"),
                         [](const auto& way) {
                             std::string name = way.param;
                             std::erase(name, '-');
                             return name;
                         });

constexpr const char* kOneRuntime = "a sanitizer's runtime refuses a second one, and RTLD_DEEPBIND";

TEST_P(ShimWay, LeadsThroughTheShim) {
    if (kSanitized && GetParam() == std::string("deepbind")) GTEST_SKIP() << kOneRuntime;
    ShimMachine machine;
    Process process = machine.run({"--name", "way"}, {GetParam(), "--launches", "50"});
    const nlohmann::json result = machine.result(process);
    EXPECT_EQ(result.value("sum", 0), 50) << process.output();
    EXPECT_EQ(result.value("provider", ""), kShim);
    EXPECT_NE(machine.report().find("kernels 50 graphs 0"), std::string::npos) << machine.report();
    EXPECT_NE(machine.log().find("(way, pid"), std::string::npos) << "it is a client";
    EXPECT_NE(machine.log().find("attached"), std::string::npos);
}

TEST(Shim, HasTheSanitizerThatTheProgramHas) {
    ShimMachine machine;
    Process process = machine.run({"--name", "mapped"}, {"dlsym", "--us", "1000", "--seconds", "600"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("mapped") == "running"; })) << process.output();
    const std::string maps = text_of("/proc/" + std::to_string(machine.row("mapped").value("pid", 0)) + "/maps");
    const auto has = [&](const std::string& file) { return maps.find(file) != std::string::npos; };
    EXPECT_EQ(has(std::string("/lib/sanitized/") + kShim), kSanitized) << maps;
    EXPECT_EQ(has(std::string("/lib/") + kShim), !kSanitized) << maps;
}

TEST(Shim, WhatPassesByIsUnharmed) {
    if (kSanitized) GTEST_SKIP() << kOneRuntime;
    ShimMachine machine;
    Process process = machine.run({}, {"dlmopen", "--launches", "50"});
    const nlohmann::json result = machine.result(process);
    EXPECT_EQ(result.value("sum", 0), 50);
    EXPECT_EQ(result.value("provider", ""), "libcuda.so.1");
}

TEST(Shim, WhatPassesByIsShownAsUnseen) {
    if (kSanitized) GTEST_SKIP() << kOneRuntime;
    ShimMachine machine;
    Process process = machine.run({"--name", "stranger"}, {"dlmopen", "--us", "1000", "--launches", "2000"});
    EXPECT_TRUE(eventually([&] { return machine.state_of("stranger") == "unseen"; })) << machine.status().dump();
    Process ps = machine.salus({"ps"});
    EXPECT_EQ(ps.wait(), 0);
    EXPECT_NE(ps.output().find("uses the GPU without Salus: its calls pass by the shim"), std::string::npos) << ps.output();
    process.end();
}

TEST(Shim, AGraphIsOneLaunchAndWhatIsCapturedRunsLater) {
    ShimMachine machine;
    Process process = machine.run({}, {"resolver", "--graph", "--launches", "20"});
    EXPECT_EQ(machine.result(process).value("sum", 0), 200);
    EXPECT_NE(machine.report().find("kernels 10 graphs 20"), std::string::npos) << machine.report();
}

TEST(Shim, AForkedChildGetsTheDriversErrors) {
    ShimMachine machine;
    for (const char* way : {"symbol", "resolver"}) {
        Process process = machine.run({}, {way, "--fork", "--launches", "20"});
        EXPECT_EQ(machine.result(process).value("sum", 0), 20) << process.output();
    }
}

TEST(Shim, IsLeftOutOnRequest) {
    ShimMachine machine;
    Process process = machine.run({"--shim", "off"}, {"dlsym"});
    EXPECT_EQ(machine.result(process).value("provider", ""), "libcuda.so.1");
    Process wrong = machine.run({"--shim", "perhaps"}, {"dlsym"});
    EXPECT_EQ(wrong.wait(), 2);
    EXPECT_EQ(wrong.output(), "salus: --shim must be on or off; got 'perhaps'\n");
}

TEST(Shim, TheEnvironmentKeepsWhatTheUserHasSet) {
    ShimMachine machine;
    const auto environment_of = [&](const Words& options) {
        Process process = machine.salus(Words{"run"} + options + Words{"--", "env"});
        EXPECT_EQ(process.wait(), 0);
        return "\n" + process.output();
    };
    std::string environment = environment_of({});
    EXPECT_NE(environment.find(std::string("\nLD_PRELOAD=") + SALUS_SHIM_FILE + "\n"), std::string::npos) << environment;
    EXPECT_NE(environment.find("\nASAN_OPTIONS=verify_asan_link_order=0\n"), std::string::npos) << environment;
    EXPECT_NE(environment.find("\nXLA_PYTHON_CLIENT_PREALLOCATE=false\n"), std::string::npos) << environment;
    machine.also["LD_PRELOAD"] = SALUS_SHIM_PRELOAD;
    machine.also["ASAN_OPTIONS"] = "detect_leaks=0";
    machine.also["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true";
    environment = environment_of({});
    EXPECT_NE(environment.find(std::string("\nLD_PRELOAD=") + SALUS_SHIM_PRELOAD + ":" + SALUS_SHIM_FILE + "\n"),
              std::string::npos)
        << environment;
    EXPECT_NE(environment.find("\nASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0\n"), std::string::npos);
    EXPECT_NE(environment.find("\nXLA_PYTHON_CLIENT_PREALLOCATE=true\n"), std::string::npos);
    environment = environment_of({"--shim", "off"});
    EXPECT_NE(environment.find(std::string("\nLD_PRELOAD=") + SALUS_SHIM_PRELOAD + "\n"), std::string::npos);
}

TEST(Shim, IsNotBlamedForALibraryOfTheUsersThatIsMissing) {
    ShimMachine machine;
    machine.also["LD_PRELOAD"] = machine.path("missing.so");
    Process process = machine.run({}, {"dlsym"});
    EXPECT_EQ(process.wait(), 0) << process.output();
    EXPECT_EQ(machine.line_of(process).value("provider", ""), kShim) << process.output();
}

TEST(Shim, AProgramThatMustShareDoesNotStartWithoutIt) {
    ShimMachine machine;
    Process without = machine.salus({"run", "--require", "--shim", "off", "--", SALUS_SHIM_PROGRAM, "dlsym"});
    EXPECT_EQ(without.wait(), 125);
    EXPECT_EQ(without.output(), "salus: --shim off leaves the shim out; the job cannot share and is not started\n");
    // A Python that the adaptor cannot enter shares through the shim.
    const std::string python = machine.path("python3");
    std::ofstream(python) << "#!/bin/sh\ntouch " + machine.path("started") + "\nexec " + SALUS_SHIM_PROGRAM + " dlsym\n";
    ::chmod(python.c_str(), 0755);
    Process off = machine.salus({"run", "--require", "--shim", "off", "--", python, "-I", "train.py"});
    EXPECT_EQ(off.wait(), 125);
    EXPECT_EQ(off.output(), "salus: python -I keeps the adaptor out; the job cannot share and is not started\n");
    EXPECT_FALSE(std::filesystem::exists(machine.path("started")));
    Process shared = machine.salus({"run", "--name", "shared", "--require", "--", python, "-I", "train.py"});
    EXPECT_EQ(machine.result(shared).value("provider", ""), kShim) << shared.output();
    EXPECT_EQ(
        shared.output().find("salus: python -I keeps the adaptor out; the job takes turns by launches, without lanes\n"), 0u)
        << shared.output();
    Process ended = machine.salus({"ps", "-a", "--json"});
    EXPECT_EQ(ended.wait(), 0);
    for (const auto& job : nlohmann::json::parse(ended.output())["ended"])
        EXPECT_EQ(job.value("why_unshared", ""), "") << job;
}

TEST(Shim, WithoutAServiceTheProgramRunsAsEver) {
    ShimMachine machine;
    auto environment = machine.environment();
    environment["LD_PRELOAD"] = SALUS_SHIM_FILE;
    environment["SALUS_SOCKET"] = machine.path("nowhere");
    environment["SALUS_LIBRARY"] = SALUS_LIBRARY_FILE;
    Process process({SALUS_SHIM_PROGRAM, "resolver"}, environment, machine.path("out"));
    EXPECT_EQ(machine.result(process).value("sum", 0), 100);
    EXPECT_EQ(lines_of(process), 2u) << process.output();
    environment["SALUS_LIBRARY"] = machine.path("no library");
    Process other({SALUS_SHIM_PROGRAM, "resolver"}, environment, machine.path("out2"));
    EXPECT_EQ(machine.result(other).value("sum", 0), 100);
    EXPECT_NE(other.output().find("salus: the client library cannot be loaded; the job runs without the shim\n"),
              std::string::npos)
        << other.output();
    environment["SALUS_DISABLE"] = "1";
    Process quiet({SALUS_SHIM_PROGRAM, "resolver"}, environment, machine.path("out3"));
    EXPECT_EQ(machine.result(quiet).value("sum", 0), 100);
    EXPECT_EQ(lines_of(quiet), 1u) << quiet.output();
}

/// A library of the user's, before ours, that stands before the driver itself.
TEST(Shim, ALibraryOfTheUsersFindsTheNextOne) {
    ShimMachine machine;
    machine.also["LD_PRELOAD"] = SALUS_SHIM_PRELOAD;
    for (const char* way : {"symbol", "default"}) {
        Process process = machine.run({}, {way, "--launches", "30"});
        const nlohmann::json result = machine.result(process);
        EXPECT_EQ(result.value("sum", 0), 30);
        EXPECT_NE(process.output().find("the user's library saw 30 launches"), std::string::npos) << process.output();
        EXPECT_NE(machine.report().find("kernels 30 graphs 0"), std::string::npos) << machine.report();
    }
}

/// By a handle of the driver a program gets the driver's function, past that of its user's library.
TEST(Shim, ALibraryOfTheUsersSeesNoMoreThanWithoutUs) {
    ShimMachine machine;
    machine.also["LD_PRELOAD"] = SALUS_SHIM_PRELOAD;
    for (const char* way : {"dlsym", "resolver", "deepbind"}) {
        if (kSanitized && way == std::string("deepbind")) continue;  // kOneRuntime
        Process process = machine.run({}, {way, "--launches", "30"});
        EXPECT_EQ(machine.result(process).value("provider", ""), kShim);
        EXPECT_EQ(process.output().find("the user's library saw"), std::string::npos) << process.output();
    }
}

// -------------------------------------------------------------------------------------------------------------- memory

TEST(Shim, MemoryIsCountedAndLimited) {
    ShimMachine machine;
    Process process = machine.run({"--name", "large", "--memory", "32MiB"}, {"resolver", "--mib", "48"});
    EXPECT_EQ(process.wait(), 4);
    EXPECT_EQ(machine.line_of(process).value("allocation", 0), 2) << process.output();
    EXPECT_NE(
        process.output().find("48.0 MiB more do not fit: this process holds 0.0 MiB of the 32.0 MiB that --memory allows"),
        std::string::npos)
        << process.output();
    Process other = machine.run({"--memory", "64MiB"}, {"resolver", "--mib", "48"});
    const nlohmann::json result = machine.result(other);
    EXPECT_EQ(result.value("total_mib", 0), 64);
    EXPECT_EQ(result.value("free_mib", 0), 16);
    Process wrong = machine.run({"--memory", "much"}, {"resolver"});
    EXPECT_EQ(wrong.wait(), 2);
    EXPECT_EQ(wrong.output(), "salus: --memory must be at least 1MiB, such as 8GiB; got 'much'\n");
}

/// A program that has its memory from Salus, 16 MiB of weights and 32 MiB in the lane; one of them becomes 64 MiB.
TEST(Shim, MemoryThatSalusServesIsLimitedToo) {
    ShimMachine machine;
    const auto job = [&](const char* limit, const Words& growth) {
        return machine.salus(Words{"run", "--memory", limit, "--", SALUS_JOB_BINARY, "--persistent", "16MiB", "--ephemeral",
                                   "32MiB", "--block", "8MiB", "--work", "200", "--touch", "pages", "--iterations", "40",
                                   "--grow-at", "20"} +
                             growth);
    };
    for (const char* growth : {"--grow-persistent", "--grow-ephemeral"}) {
        Process refused = job("72MiB", {growth, "64MiB"});
        EXPECT_EQ(refused.wait(), 1) << growth << refused.output();
        EXPECT_NE(refused.output().find("out of memory"), std::string::npos) << growth << refused.output();
        Process served = job("192MiB", {growth, "64MiB"});
        EXPECT_EQ(served.wait(), 0) << growth << served.output();
    }
}

TEST(Shim, TheDeviceIsAsLargeAsTheServiceSays) {
    ShimMachine machine;
    Process first = machine.run({"--name", "first"}, {"dlsym", "--mib", "64", "--seconds", "3", "--us", "1000"});
    ASSERT_TRUE(eventually([&] { return machine.row("first").value("persistent_bytes", std::int64_t{0}) >= 64 * kMiB; }))
        << machine.row("first").dump();
    Process second = machine.run({"--name", "second"}, {"resolver", "--mib", "32", "--launches", "5"});
    const nlohmann::json result = machine.result(second);
    EXPECT_EQ(result.value("total_mib", 0), ShimMachine::kCapacityMib);
    EXPECT_LE(result.value("free_mib", 10000), ShimMachine::kCapacityMib - 64 - 32) << "others hold memory, too";
    EXPECT_GT(result.value("free_mib", 0), 0);
    machine.result(first);
}

/// What each process may have is 32 MiB.
TEST(Shim, OddWaysToAllocateAreCounted) {
    ShimMachine machine;
    struct Row {
        const char* mode;
        int says;
        const char* why;
    };
    for (const Row& row :
         {Row{"pitched", 32, "rows are longer than was asked for"}, Row{"not-freed", 32, "a free that fails frees nothing"},
          Row{"contexts", 5, "a context that is destroyed takes its memory along"},
          Row{"mapped", 32, "a handle that is released stays as long as it is mapped"},
          Row{"asks-first", 32, "before anything is allocated"}}) {
        Process process = machine.salus({"run", "--memory", "32MiB", "--", SALUS_SHIM_ODD, row.mode});
        EXPECT_EQ(process.wait(), 0) << row.mode << process.output();
        // It may say once why an allocation fails.
        EXPECT_TRUE(("\n" + process.output()).ends_with("\n" + std::to_string(row.says) + "\n"))
            << row.mode << ": " << row.why << ": " << process.output();
    }
}

// --------------------------------------------------------------------------------------------------------------- turns

/// Launches of 1 ms each for 3 s of device time in all; two such programs cannot take less than 6 s together.
TEST(Shim, ProgramsTakeTurnsByTimeHeld) {
    ShimMachine machine({"--lanes", "1"});
    const Words program = {"--us", "1000", "--seconds", "4", "--streams", "2"};
    Process a = machine.run({"--name", "a"}, Words{"resolver"} + program);
    Process b = machine.run({"--name", "b"}, Words{"dlsym"} + program);
    const nlohmann::json first = machine.result(a), second = machine.result(b);
    for (const nlohmann::json& result : {first, second}) {
        EXPECT_EQ(result.value("sum", -1), result.value("launches", 0));
        EXPECT_GT(result.value("launches", 0), 200);
    }
    const double ratio = first.value("launches", 0.0) / second.value("launches", 1.0);
    EXPECT_GT(ratio, 0.5);
    EXPECT_LT(ratio, 2.0);
}

TEST(Shim, ThreadsOfOneProgramShareItsTurns) {
    ShimMachine machine({"--lanes", "1", "--min-turn-ms", "3"});
    const Words program = {"--us", "100", "--seconds", "3", "--threads", "4"};
    Process a = machine.run({"--name", "a"}, Words{"resolver"} + program);
    Process b = machine.run({"--name", "b"}, Words{"per-thread"} + program);
    for (Process* process : {&a, &b}) {
        const nlohmann::json result = machine.result(*process);
        EXPECT_EQ(result.value("sum", -1), result.value("launches", 0));
        EXPECT_GT(result.value("by_others", 0), 0);
    }
    EXPECT_GT(machine.status()["service"]["statistics"].value("turns", 0), 10);
}

/// What counts is that a job that waits for its turn can be ended; fifo lets the second wait for the end of the first.
TEST(Shim, AJobThatWaitsForItsTurnCanBeInterrupted) {
    ShimMachine machine({"--policy", "fifo"});
    Process first = machine.run({"--name", "first"}, {"resolver", "--us", "1000", "--seconds", "25"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("first") == "running"; }));
    for (const char* whom : {"runner", "program"}) {
        Process second = machine.run({"--name", "second"}, {"resolver", "--launches", "1000000"});
        ASSERT_TRUE(eventually([&] { return machine.state_of("second") == "waiting"; })) << machine.status().dump();
        const double from = seconds_now();
        if (std::string(whom) == "runner") second.signal(SIGINT);
        else ::kill(machine.row("second").value("pid", 0), SIGINT);
        EXPECT_EQ(second.wait(), 130) << whom << second.output();
        EXPECT_LT(seconds_now() - from, 5) << whom;
    }
    EXPECT_TRUE(first.runs()) << "the first was not held up";
}

/// What it leaves behind cannot be asked how far it has come.
TEST(Shim, AProgramThatLeavesSomethingOddBehindHoldsNobodyUp) {
    for (const char* mode : {"destroyed", "fault", "capture"}) {
        ShimMachine machine({"--lanes", "1"});
        Process odd = machine.salus({"run", "--name", "odd", "--", SALUS_SHIM_ODD, mode});
        ASSERT_TRUE(eventually([&] { return odd.output().find("sleeps") != std::string::npos; })) << mode << odd.output();
        Process busy = machine.run({"--name", "busy"}, {"dlsym", "--us", "1000", "--launches", "300"});
        EXPECT_LT(machine.result(busy).value("took_s", 100.0), 10.0) << mode;
        EXPECT_TRUE(odd.runs()) << mode << odd.output();
    }
}

/// A host function on the device waits for what the program does after its next launches.
TEST(Shim, WorkThatWaitsForLaterLaunchesDoesNotDeadlock) {
    ShimMachine machine({"--lanes", "1", "--min-turn-ms", "3"});
    Process busy = machine.run({"--name", "busy"}, {"dlsym", "--us", "1000", "--seconds", "60"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("busy") == "running"; }));
    Process odd = machine.salus({"run", "--name", "odd", "--", SALUS_SHIM_ODD, "host-waits"});
    EXPECT_EQ(odd.wait(), 0) << odd.output();
    EXPECT_EQ(odd.output(), "0\n");
    EXPECT_TRUE(busy.runs());
}

// --------------------------------------------------------------------------------------------------------------- crews

/// A job of two processes, both of which run this program.
Process run_two(ShimMachine& machine, const std::string& before, const std::string& program) {
    const std::string one = std::string(SALUS_SHIM_PROGRAM) + " " + program;
    return machine.salus({"run", "--name", "crew", "--", "sh", "-c", before + one + " & " + one + " & wait"});
}

/// Those of its clients that are in this state.
std::vector<int> pids_of(ShimMachine& machine, const std::string& name, const std::string& state) {
    std::vector<int> pids;
    const nlohmann::json status = machine.status();
    for (const nlohmann::json& job : status["jobs"]) {
        if (job.value("name", "") == name && job.value("state", "") == state) pids.push_back(job.value("pid", 0));
    }
    return pids;
}

struct CrewWay {
    const char* before;
    const char* option;
    bool together;
};

TEST(ShimCrew, RunsAtOnceWhileAnotherJobWaits) {
    for (const CrewWay& way : {CrewWay{"export WORLD_SIZE=2; ", "", true}, CrewWay{"", " --exchange", true},
                               CrewWay{"", "", false}, CrewWay{"export WORLD_SIZE=2 LOCAL_WORLD_SIZE=1; ", "", false},
                               CrewWay{"export WORLD_SIZE=2 SALUS_NO_CREW=1; ", "", false}}) {
        SCOPED_TRACE(std::string(way.before) + way.option);
        ShimMachine machine({"--lanes", "1"});
        Process other = machine.run({"--name", "other"}, {"dlsym", "--us", "1000", "--seconds", "3"});
        Process crew = run_two(machine, way.before, "resolver --us 1000 --seconds 3" + std::string(way.option));
        const bool together = eventually(
            [&] {
                return pids_of(machine, "crew", "running").size() == 2 && pids_of(machine, "other", "waiting").size() == 1;
            },
            way.together ? kPatienceS : 2);
        EXPECT_EQ(together, way.together) << machine.status().dump();
        machine.result(other);
        EXPECT_EQ(crew.wait(), 0) << crew.output();
    }
}

/// Each process of the crew has its half of the time, as the other job has: a crew's time counts once.
TEST(ShimCrew, SharesAreByTheJobsTime) {
    ShimMachine machine({"--lanes", "1"});
    Process other = machine.run({"--name", "other"}, {"dlsym", "--us", "1000", "--seconds", "5"});
    Process crew = run_two(machine, "export WORLD_SIZE=2; ", "resolver --us 1000 --seconds 5");
    const double launches = machine.result(other).value("launches", 0.0);
    EXPECT_EQ(crew.wait(), 0) << crew.output();
    std::istringstream lines(crew.output());
    std::vector<double> of_crew;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json result = nlohmann::json::parse(line, nullptr, false);
        ASSERT_TRUE(result.is_object()) << line;
        EXPECT_EQ(result.value("sum", -1), result.value("launches", 0));
        of_crew.push_back(result.value("launches", 0.0));
    }
    ASSERT_EQ(of_crew.size(), 2u) << crew.output();
    for (const double one : of_crew) {
        EXPECT_GT(one / launches, 0.6) << crew.output();
        EXPECT_LT(one / launches, 1.7) << crew.output();
    }
}

TEST(ShimCrew, ProcessesThatWaitForEachOtherDoNotDeadlock) {
    ShimMachine machine({"--lanes", "1", "--min-turn-ms", "3"});
    Process busy = machine.run({"--name", "busy"}, {"dlsym", "--us", "1000", "--seconds", "60"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("busy") == "running"; }));
    machine.also["WORLD_SIZE"] = "2";
    Process partners = machine.salus({"run", "--name", "partners", "--", SALUS_SHIM_ODD, "partners"});
    EXPECT_EQ(partners.wait(), 0) << partners.output();
    EXPECT_EQ(partners.output(), "0\n");
    EXPECT_TRUE(busy.runs());
}

/// Nobody of its crew can help it, because there is nobody else.
TEST(ShimCrew, AMemberThatIsStuckInALaunchHoldsNobodyUpForLong) {
    ShimMachine machine({"--lanes", "1"});
    machine.also["WORLD_SIZE"] = "2";
    Process stuck = machine.salus({"run", "--name", "stuck", "--", SALUS_SHIM_ODD, "stuck"});
    machine.also.erase("WORLD_SIZE");
    ASSERT_TRUE(eventually([&] { return stuck.output().find("sleeps") != std::string::npos; })) << stuck.output();
    Process busy = machine.run({"--name", "busy"}, {"dlsym", "--us", "1000", "--launches", "300"});
    EXPECT_LT(machine.result(busy).value("took_s", 100.0), 12.0);
    EXPECT_TRUE(stuck.runs()) << stuck.output();
}

TEST(ShimCrew, IsACrewForTheNextServiceToo) {
    ShimMachine machine({"--lanes", "1"});
    Process other = machine.run({"--name", "other"}, {"dlsym", "--us", "1000", "--seconds", "8"});
    Process crew = run_two(machine, "", "resolver --exchange --us 1000 --seconds 8");
    const auto together = [&] {
        return pids_of(machine, "crew", "running").size() == 2 && pids_of(machine, "other", "waiting").size() == 1;
    };
    ASSERT_TRUE(eventually(together)) << machine.status().dump();
    machine.service().signal(SIGKILL);
    machine.service().wait();
    machine.start_service();
    EXPECT_TRUE(eventually(together)) << machine.status().dump();
    machine.result(other);
    EXPECT_EQ(crew.wait(), 0) << crew.output();
}

TEST(ShimCrew, GoesOnWhenAMemberIsKilled) {
    ShimMachine machine({"--lanes", "1"});
    Process other = machine.run({"--name", "other"}, {"dlsym", "--us", "1000", "--seconds", "6"});
    Process crew = run_two(machine, "export WORLD_SIZE=2; ", "resolver --us 1000 --seconds 6");
    ASSERT_TRUE(eventually([&] { return pids_of(machine, "crew", "running").size() == 2; })) << machine.status().dump();
    ::kill(pids_of(machine, "crew", "running").front(), SIGKILL);
    EXPECT_EQ(crew.wait(), 0) << crew.output();
    const nlohmann::json left = ShimMachine::line_of(crew);
    EXPECT_EQ(left.value("sum", -1), left.value("launches", 0)) << crew.output();
    EXPECT_GT(left.value("launches", 0), 300) << crew.output();
    EXPECT_GT(machine.result(other).value("launches", 0), 300);
}

TEST(Shim, AProgramThatComputesNothingHoldsNobodyUp) {
    ShimMachine machine;
    Process idle = machine.run({"--name", "idle"}, {"resolver", "--launches", "8", "--pause-us", "500000"});
    ASSERT_TRUE(eventually([&] { return !machine.row("idle").empty(); }));
    Process busy = machine.run({"--name", "busy"}, {"dlsym", "--us", "1000", "--launches", "1000"});
    EXPECT_LT(machine.result(busy).value("took_s", 100.0), 3.0);
    machine.result(idle);
}

}  // namespace
}  // namespace salus::test
