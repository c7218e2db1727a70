// Several users on one machine's service: what each may see, do and have.
#include "tests/processes_fixture.h"

#include <sys/stat.h>

#include "os/user.h"

#include <cmath>
#include <set>
#include <tuple>

namespace salus::test {
namespace {

constexpr unsigned kOther = 54321;
constexpr unsigned kThird = 54322;

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

/// A service for all users, and what they run.
class UsersTogether : public Users {
protected:
    struct Home {
        std::string salus, job;
        std::map<std::string, std::string> environment;
    };
    static Home home_for_others(const Machine& machine) {
        Home home{copy_for_others(machine, SALUS_BINARY), copy_for_others(machine, SALUS_JOB_BINARY),
                  environment_for_others(machine)};
        home.environment.erase("SALUS_STATE");
        home.environment["HOME"] = "/nonexistent";
        return home;
    }
    static Process run_as(const Machine& machine, const Home& home, unsigned uid, const Words& words) {
        static int count = 0;
        return Process(Words{home.salus} + words, home.environment,
                       machine.path("as-" + std::to_string(uid) + "-" + std::to_string(++count) + ".out"), uid);
    }
    struct Said {
        int status;
        std::string output;
    };
    static Said say_as(const Machine& machine, const Home& home, unsigned uid, const Words& words) {
        Process process = run_as(machine, home, uid, words);
        const int status = process.wait();
        return {status, process.output()};
    }
    static nlohmann::json json_as(const Machine& machine, const Home& home, unsigned uid, const Words& words) {
        return nlohmann::json::parse(say_as(machine, home, uid, words).output, nullptr, false);
    }
};

struct Held {
    double uptime_s = 0;
    std::map<unsigned, double> by_user_s;
};
Held held_now(const Machine& machine) {
    const nlohmann::json status = machine.status();
    Held held;
    held.uptime_s = status["service"].value("uptime_s", 0.0);
    for (const nlohmann::json& job : status["jobs"]) held.by_user_s[job.value("uid", 0u)] += job.value("attained_s", 0.0);
    return held;
}

/// What two users got of the device in a while, as a share of the time.
std::pair<double, double> shares_in(const Machine& machine, unsigned one, unsigned other, double time_s) {
    const Held before = held_now(machine);
    Held after = before;
    eventually([&] { return (after = held_now(machine)).uptime_s >= before.uptime_s + time_s; });
    const double passed_s = after.uptime_s - before.uptime_s;
    const auto share = [&](unsigned uid) { return (after.by_user_s[uid] - before.by_user_s.at(uid)) / passed_s; };
    return {share(one), share(other)};
}

TEST_F(UsersTogether, OneJobOfAUserGetsAsMuchAsNineOfAnother) {
    struct Row {
        Words options;
        double share_of_one;  ///< of what both get
    };
    for (const Row& row : {Row{{}, 0.5}, Row{{"--lanes", "1"}, 0.5}, Row{{"--lanes", "1", "--share-by", "job"}, 0.1}}) {
        Machine machine(Words{"--capacity", "1GiB", "--users", "all", "--policy", "fair", "--min-turn-ms", "20"} +
                        row.options);
        const Home home = home_for_others(machine);
        std::vector<Process> jobs;
        for (int i = 0; i < 10; ++i) {
            const std::string name = "job-" + std::to_string(i);
            jobs.emplace_back(Words{home.job, "--name", name} + kJob, home.environment, machine.path(name + ".out"),
                              i < 9 ? kOther : kThird);
        }
        for (int i = 0; i < 10; ++i) ASSERT_TRUE(machine.goes_on("job-" + std::to_string(i)));
        double one = 0, nine = 0;
        const auto is_shared = [&] {
            std::tie(one, nine) = shares_in(machine, kThird, kOther, 3);
            // A busy machine delays whoever just gave its turn back. Nobody gets a turn at the same time as another user.
            return std::abs(one / (one + nine) - row.share_of_one) < 0.04 && one + nine <= 1.1;
        };
        EXPECT_TRUE(eventually(is_shared)) << testing::PrintToString(row.options) << ": " << one << " and " << nine;
        const Said replay = [&] {
            Process process = machine.salus({"trace", "--replay"});
            const int status = process.wait();
            return Said{status, process.output()};
        }();
        EXPECT_EQ(replay.status, 0) << replay.output;
    }
}

TEST_F(UsersTogether, WeightsAndPrioritiesHaveLimits) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--user-weight-max", "4", "--user-priority-max", "2"});
    const Home home = home_for_others(machine);
    const auto expect = [&](const Words& words, int status, const std::string& says) {
        const Said said = say_as(machine, home, kOther, words);
        EXPECT_EQ(said.status, status) << testing::PrintToString(words) << said.output;
        EXPECT_EQ(said.output, says) << testing::PrintToString(words);
    };
    const std::string heavy = "salus: this service allows a weight of at most 4 (user-weight-max); got 100\n";
    const std::string urgent = "salus: this service allows a priority of at most 2 (user-priority-max); got 99\n";
    expect({"run", "--weight", "100", "--", "echo", "ran"}, 2, heavy);
    expect({"run", "--priority", "99", "--", "echo", "ran"}, 2, urgent);
    expect({"run", "-d", "--priority", "99", "--", "echo", "ran"}, 2, urgent);
    expect({"run", "--weight", "4", "--priority", "2", "--", "echo", "ran"}, 0, "ran\n");
    EXPECT_EQ(machine.salus({"run", "--weight", "100", "--", "true"}).wait(), 0) << "root may";

    // One that did not ask `salus run` gets what is allowed.
    Process job(Words{home.job, "--name", "theirs", "--weight", "50", "--priority", "7"} + kJob, home.environment,
                machine.path("theirs.out"), kOther);
    ASSERT_TRUE(machine.goes_on("theirs"));
    EXPECT_EQ(machine.row("theirs").value("weight", 0.0), 4);
    EXPECT_EQ(machine.row("theirs").value("priority", 0), 2);
    expect({"set", "theirs", "weight=100"}, 1, heavy);
    expect({"set", "theirs", "weight=1", "priority=99"}, 1, urgent);
    EXPECT_EQ(machine.row("theirs").value("weight", 0.0), 4) << "all of it or nothing";
    expect({"set", "theirs", "weight=2"}, 0,
           "theirs (job " + std::to_string(machine.row("theirs").value("job", 0)) + ") has weight=2 now\n");
    EXPECT_EQ(machine.salus({"set", "theirs", "weight=100"}).wait(), 0);
    EXPECT_EQ(machine.row("theirs").value("weight", 0.0), 100);
    expect({"set", "theirs", "class=batch"}, 0,
           "theirs (job " + std::to_string(machine.row("theirs").value("job", 0)) + ") has class=batch now\n");
    EXPECT_EQ(machine.row("theirs").value("weight", 0.0), 100) << "root's word stays";
}

TEST_F(UsersTogether, WhereJobsCompeteNobodySetsHisOwnAboveTheOthers) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--share-by", "job"});
    const Home home = home_for_others(machine);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--weight", "2", "--", "true"}).status, 2);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--priority", "1", "--", "true"}).status, 2);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--weight", "0.5", "--priority", "-1", "--", "true"}).status, 0);
    Machine shared({"--capacity", "1GiB", "--users", "all"});
    const Home other_home = home_for_others(shared);
    EXPECT_EQ(say_as(shared, other_home, kOther, {"run", "--weight", "9", "--priority", "9", "--", "true"}).status, 0)
        << "they count among the user's own";
}

TEST_F(UsersTogether, JobsBeyondTheLimitWaitAndThenRun) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--user-jobs-max", "1"});
    const Home home = home_for_others(machine);
    Process first = run_as(machine, home, kOther, {"run", "--name", "first", "--", "sleep", "1000"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("first") == "starting"; })) << first.output();
    Process second = run_as(machine, home, kOther, {"run", "--name", "second", "--", "echo", "ran"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("second") == "waiting"; })) << second.output();
    EXPECT_EQ(machine.row("second").value("start_waits_for", ""), "user-jobs");
    const std::string why = "waits: as many jobs of its user run as that user may have (1)";
    EXPECT_NE(say_as(machine, home, kOther, {"ps"}).output.find(why), std::string::npos);
    EXPECT_EQ(say_as(machine, home, kThird, {"run", "--", "true"}).status, 0) << "another user does not wait";
    EXPECT_EQ(machine.salus({"run", "--", "true"}).wait(), 0) << "nor does root";
    ASSERT_TRUE(eventually([&] { return second.output() == "salus: second " + why + "\n"; })) << second.output();

    // A process that attaches by itself cannot wait.
    Process job({home.job, "--name", "third", "--iterations", "3"}, home.environment, machine.path("third.out"), kOther);
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find("--user-jobs-max allows no more"), std::string::npos) << job.output();

    EXPECT_EQ(say_as(machine, home, kOther, {"kill", "first"}).status, 0);
    EXPECT_EQ(second.wait(), 0) << second.output();
    EXPECT_EQ(second.output(), "salus: second " + why + "\nran\n");
}

TEST_F(UsersTogether, NoProcessEscapesTheLimitByTheNumberOfAJob) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--user-jobs-max", "2"});
    const Home home = home_for_others(machine);
    const auto with_number = [&](const std::string& name, int number) {
        auto environment = home.environment;
        environment["SALUS_JOB"] = std::to_string(number);
        return Process(Words{home.job, "--name", name} + kJob, environment, machine.path(name + ".out"), kOther);
    };
    const auto number_of = [&](const std::string& name) { return machine.row(name).value("job", 0); };
    const auto expect_unshared = [&](const std::string& name, int number) {
        const Process job = with_number(name, number);
        EXPECT_TRUE(eventually([&] { return job.output().find("--user-jobs-max allows no more") != std::string::npos; }))
            << name << job.output();
        EXPECT_TRUE(machine.row(name).empty()) << name;
    };
    machine.job("roots", kJob);
    Process mine = run_as(machine, home, kOther, Words{"run", "--name", "mine", "--", home.job, "--name", "mine-1"} + kJob);
    ASSERT_TRUE(machine.goes_on("roots") && machine.goes_on("mine-1")) << mine.output();
    Process invents = with_number("invents", 777);
    ASSERT_TRUE(machine.goes_on("invents")) << "it is the second job" << invents.output();

    expect_unshared("invents-too", 888);
    expect_unshared("joins-what-nobody-announced", 777);
    expect_unshared("names-roots", number_of("roots"));
    Process late = run_as(machine, home, kOther, {"run", "--name", "late", "--", "sleep", "1000"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("late") == "waiting"; })) << late.output();
    expect_unshared("names-one-that-waits", number_of("late"));
    EXPECT_EQ(machine.state_of("late"), "waiting") << "it was not started by that";
    invents.end();
    EXPECT_TRUE(eventually([&] { return machine.state_of("late") == "starting"; })) << late.output();
    Process joins = with_number("joins", number_of("mine-1"));
    EXPECT_TRUE(machine.goes_on("joins")) << "a job may have many processes" << joins.output();
    EXPECT_EQ(number_of("joins"), number_of("mine-1"));
}

TEST_F(UsersTogether, AfterARestartJobsAtTheLimitComeBack) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--user-jobs-max", "1"});
    const Home home = home_for_others(machine);
    const std::string go = machine.path("go");
    Process job =
        run_as(machine, home, kOther,
               {"run", "--name", "mine", "--", "sh", "-c",
                home.job + " --name first --work 500 --iterations 1000000 --quiet & " + "while ! [ -e " + go +
                    " ]; do sleep 0.02; done; exec " + home.job + " --name second --work 500 --iterations 1000000"});
    ASSERT_TRUE(machine.goes_on("first")) << job.output();
    machine.service().signal(SIGKILL);
    machine.service().wait();
    std::ofstream(go) << "";  // a process that the last service has not seen begins before the runner is back
    machine.start_service();
    EXPECT_TRUE(machine.goes_on("first")) << job.output();
    EXPECT_TRUE(machine.goes_on("second")) << job.output();
    EXPECT_EQ(machine.row("first")["job"], machine.row("second")["job"]);
    EXPECT_EQ(machine.iterations("first") > 0 ? job.output().find("without sharing") : 0, std::string::npos) << job.output();
}

TEST_F(UsersTogether, SingleUsersAndGroupsHaveLimitsOfTheirOwn) {
    Machine machine({}, /*start=*/false);
    const std::string file = machine.path("salusd.toml");
    const auto configure = [&](const std::string& tables) {
        std::ofstream(file) << "capacity = \"1GiB\"\ndevice = \"host\"\nusers = \"all\"\nuser-jobs-max = 1\n" << tables;
    };
    const std::string other = std::to_string(kOther);
    configure("[user." + other + "]\njobs-max = 2\nweight-max = 3\n");
    const Process service({SALUSD_BINARY, "--config", file, "--socket", machine.socket(), "--state", machine.state()}, {},
                          machine.path("salusd.log"));
    ASSERT_TRUE(eventually([&] { return os::connect_to(machine.socket()).ok(); })) << service.output();
    const Home home = home_for_others(machine);
    const auto run_named = [&](const std::string& name, unsigned uid) {
        return run_as(machine, home, uid, {"run", "--name", name, "--", "sleep", "1000"});
    };
    const auto is = [&](const std::string& name, const std::string& state) {
        return eventually([&] { return machine.state_of(name) == state; });
    };
    Process one = run_named("one", kOther), two = run_named("two", kOther);
    ASSERT_TRUE(is("one", "starting") && is("two", "starting"));
    Process three = run_named("three", kOther);
    ASSERT_TRUE(is("three", "waiting"));
    EXPECT_EQ(machine.row("three").value("user_jobs_max", 0), 2);
    EXPECT_TRUE(eventually([&] {
        return three.output() == "salus: three waits: as many jobs of its user run as that user may have (2)\n";
    })) << three.output();
    Process theirs = run_named("theirs", kThird);
    ASSERT_TRUE(is("theirs", "starting"));
    Process late = run_named("late", kThird);
    ASSERT_TRUE(is("late", "waiting"));
    EXPECT_EQ(machine.row("late").value("user_jobs_max", 0), 1);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--weight", "4", "--", "true"}).output,
              "salus: this service allows a weight of at most 3 (user-weight-max); got 4\n");

    const auto reload = [&](int status) {
        Process reloads = machine.salus({"reload"});
        EXPECT_EQ(reloads.wait(), status) << reloads.output();
        return reloads.output();
    };
    configure("[user.nobody-of-us]\njobs-max = 9\n");
    EXPECT_EQ(reload(1), "salus: " + file + ": [user.nobody-of-us]: there is no user 'nobody-of-us'; nothing is changed\n");
    Process checks({SALUSD_BINARY, "--config", file, "--check"}, {}, machine.path("check.out"));
    EXPECT_EQ(checks.wait(), 2);
    EXPECT_EQ(checks.output(), "salusd: " + file + ": [user.nobody-of-us]: there is no user 'nobody-of-us'\n");
    EXPECT_EQ(machine.state_of("three"), "waiting");
    configure("[user." + other + "]\njobs-max = 3\n[user." + std::to_string(kThird) + "]\njobs-max = 0\n");
    EXPECT_EQ(reload(0), "changed: limits of single users\n");
    EXPECT_TRUE(is("three", "starting") && is("late", "starting")) << "at once";
    Process replay = machine.salus({"trace", "--replay"});
    EXPECT_EQ(replay.wait(), 0) << replay.output();
}

// The groups of a user are those of the machine's database, which a test cannot change: it takes a user who has some.
TEST_F(UsersTogether, AGroupHasALimitOfItsOwn) {
    const auto daemon = os::user_called("daemon");
    if (!daemon || !os::groups_of_user(*daemon)) GTEST_SKIP() << "there is no user 'daemon'";
    Machine machine({}, /*start=*/false);
    const std::string file = machine.path("salusd.toml");
    std::ofstream(file) << "capacity = \"1GiB\"\ndevice = \"host\"\nusers = \"all\"\nuser-weight-max = 1\n[group.\""
                        << os::groups_of_user(*daemon)->front() << "\"]\nweight-max = 7\n";
    const Process service({SALUSD_BINARY, "--config", file, "--socket", machine.socket(), "--state", machine.state()}, {},
                          machine.path("salusd.log"));
    ASSERT_TRUE(eventually([&] { return os::connect_to(machine.socket()).ok(); })) << service.output();
    const Home home = home_for_others(machine);
    EXPECT_EQ(say_as(machine, home, *daemon, {"run", "--weight", "7", "--", "true"}).status, 0);
    EXPECT_EQ(say_as(machine, home, *daemon, {"run", "--weight", "8", "--", "true"}).status, 2);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--weight", "7", "--", "true"}).status, 2);
}

TEST_F(UsersTogether, AJobThatItsUserHasNoMemoryForWaits) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--user-memory-max", "64MiB"});
    const Home home = home_for_others(machine);
    const Words large = {"--persistent", "40MiB",   "--ephemeral", "8MiB",         "--work",
                         "500",          "--touch", "pages",       "--iterations", "1000000"};
    const auto start = [&](const std::string& name, unsigned uid) {
        return Process(Words{home.job, "--name", name} + large, home.environment, machine.path(name + ".out"), uid);
    };
    Process first = start("first", kOther);
    ASSERT_TRUE(machine.goes_on("first", 20));
    Process second = start("second", kOther);
    ASSERT_TRUE(eventually([&] { return machine.row("second").value("waits_for", "") == "user-memory"; }))
        << machine.row("second");
    Process third = start("third", kThird);
    ASSERT_TRUE(machine.goes_on("third"));
    machine.job("roots-1", large);
    machine.job("roots-2", large);
    ASSERT_TRUE(machine.goes_on("roots-1") && machine.goes_on("roots-2"));
    EXPECT_TRUE(machine.goes_on("first"));
    EXPECT_EQ(machine.row("second").value("waits_for", ""), "user-memory");
    EXPECT_NE(say_as(machine, home, kOther, {"ps"}).output.find("have as much memory as that user may have (64.0 MiB)"),
              std::string::npos);
    first.end();
    EXPECT_TRUE(machine.goes_on("second"));
}

TEST_F(UsersTogether, WithNumbersOnlyAUserLearnsNothingOfOthersJobs) {
    Machine machine({"--capacity", "1GiB", "--users", "all", "--show-others", "numbers"});
    const Home home = home_for_others(machine);
    machine.job("amber", kJob);
    ASSERT_TRUE(machine.goes_on("amber"));
    Process theirs(Words{home.job, "--name", "beryl"} + kJob, home.environment, machine.path("beryl.out"), kOther);
    ASSERT_TRUE(machine.goes_on("beryl"));
    const int number = machine.row("amber").value("job", 0);
    for (const Words& words : {Words{"ps"}, {"ps", "-a", "--json"}, {"status"}, {"status", "--json"}}) {
        const Said said = say_as(machine, home, kOther, words);
        EXPECT_EQ(said.status, 0) << said.output;
        EXPECT_EQ(said.output.find("amber"), std::string::npos) << said.output;
        EXPECT_EQ(said.output.find("root"), std::string::npos) << said.output;
    }
    const nlohmann::json seen = json_as(machine, home, kOther, {"ps", "--json"});
    ASSERT_EQ(seen["jobs"].size(), 2u);
    for (const nlohmann::json& job : seen["jobs"]) {
        EXPECT_GT(job.value("persistent_bytes", 0), 0);
        EXPECT_GT(job.value("elapsed_s", 0.0), 0);
        const bool own = job.value("name", "") == "beryl";
        EXPECT_EQ(job.contains("uid"), own);
        EXPECT_EQ(job.value("pid", 0) != 0, own);
        if (!own) {
            EXPECT_EQ(job.value("job", 0), number);
        }
    }
    const std::string stranger = "salus: job " + std::to_string(number) + " is another user's\n";
    for (const Words& words : {Words{"kill"}, {"pause"}, {"wait"}}) {
        EXPECT_EQ(say_as(machine, home, kOther, words + Words{std::to_string(number)}).output, stranger);
        EXPECT_EQ(say_as(machine, home, kOther, words + Words{"amber"}).output, "salus: there is no job 'amber'\n");
    }
    EXPECT_EQ(say_as(machine, home, kOther, {"set", std::to_string(number), "priority=1"}).output, stranger);
    EXPECT_EQ(machine.row("amber").value("name", ""), "amber") << "root sees all";
    EXPECT_TRUE(machine.goes_on("amber"));
}

TEST_F(UsersTogether, EachUserHasHisOwnHistory) {
    Machine machine({"--capacity", "1GiB", "--users", "all"});
    const Home home = home_for_others(machine);
    EXPECT_EQ(machine.salus({"run", "--", "sh", "-c", ": amber"}).wait(), 0);
    EXPECT_EQ(say_as(machine, home, kOther, {"run", "--", "sh", "-c", ": beryl"}).status, 0);
    EXPECT_EQ(say_as(machine, home, kThird, {"run", "--", "sh", "-c", ": citrine"}).status, 0);
    const auto commands = [](const nlohmann::json& records) {
        std::set<std::string> found;
        for (const nlohmann::json& record : records) found.insert(record.value("command", ""));
        return found;
    };
    using Commands = std::set<std::string>;
    const auto seen_by = [&](unsigned uid) { return commands(json_as(machine, home, uid, {"history", "--json"})); };
    EXPECT_EQ(seen_by(kOther), Commands{"sh -c : beryl"});
    EXPECT_EQ(seen_by(kThird), Commands{"sh -c : citrine"});
    EXPECT_EQ(commands(nlohmann::json::parse([&] {
                  Process all = machine.salus({"history", "--json"});
                  all.wait();
                  return all.output();
              }())),
              (Commands{"sh -c : amber", "sh -c : beryl", "sh -c : citrine"}));
    EXPECT_NE(say_as(machine, home, kOther, {"history"}).output.find("sh -c : beryl"), std::string::npos);
    const nlohmann::json used = json_as(machine, home, kOther, {"usage", "--json"});
    ASSERT_EQ(used["users"].size(), 1u) << used;
    EXPECT_EQ(used["users"][0]["uid"], kOther);
    EXPECT_EQ(used["users"][0]["jobs"], 1);
    EXPECT_EQ(used["users"][0]["commands"][0]["command"], "sh -c : beryl");
    EXPECT_EQ(say_as(machine, home, kOther, {"history", "clear", "--all"}).output, "1 command forgotten\n");
    EXPECT_EQ(seen_by(kOther), Commands{});
    EXPECT_EQ(seen_by(kThird), Commands{"sh -c : citrine"});
    // An administrator lets others look into the directory, whose files are still the service's.
    ASSERT_EQ(::chmod(machine.path("state").c_str(), 0755), 0);
    EXPECT_EQ(seen_by(kThird), Commands{"sh -c : citrine"});
}

TEST_F(UsersTogether, TheEndOfAJobWithoutAServiceIsItsUsersAndRecordedOnce) {
    Machine machine({"--capacity", "1GiB", "--users", "all"});
    Home home = home_for_others(machine);
    const auto as = [&](unsigned uid) {
        Home theirs = home;
        theirs.environment["SALUS_STATE"] = machine.path("state-of-" + std::to_string(uid));
        std::filesystem::create_directory(theirs.environment["SALUS_STATE"]);
        EXPECT_EQ(::chown(theirs.environment["SALUS_STATE"].c_str(), uid, uid), 0);
        ::chmod(theirs.environment["SALUS_STATE"].c_str(), 0700);
        return theirs;
    };
    const Home others = as(kOther), thirds = as(kThird);
    const std::string go = machine.path("go");
    Process job =
        run_as(machine, others, kOther,
               {"run", "--name", "job", "--", "sh", "-c", "while ! [ -e " + go + " ]; do sleep 0.02; done; exit 5"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("job") == "starting"; })) << job.output();
    machine.service().signal(SIGKILL);
    machine.service().wait();
    std::ofstream(go) << "";
    EXPECT_EQ(job.wait(), 5) << job.output();
    machine.start_service();
    EXPECT_EQ(say_as(machine, thirds, kThird, {"run", "--", "true"}).status, 0);
    for (int i = 0; i < 2; ++i) {
        const nlohmann::json known = json_as(machine, others, kOther, {"history", "--json"});
        ASSERT_EQ(known.size(), 1u) << known;
        EXPECT_EQ(known[0]["runs"], 1);
        EXPECT_EQ(known[0]["status"], 5);
    }
    EXPECT_EQ(json_as(machine, thirds, kThird, {"history", "--json"}).size(), 1u) << "its own";
}

TEST_F(UsersTogether, EachUserSeesTheTraceAsTheJobs) {
    for (const bool only_numbers : {false, true}) {
        Machine machine({"--capacity", "1GiB", "--users", "all", "--show-others", only_numbers ? "numbers" : "all"});
        const Home home = home_for_others(machine);
        machine.job("amber", kJob);
        Process theirs(Words{home.job, "--name", "beryl"} + kJob, home.environment, machine.path("beryl.out"), kOther);
        ASSERT_TRUE(machine.goes_on("amber") && machine.goes_on("beryl"));
        const Said replayed = say_as(machine, home, kOther, {"trace", "--replay"});
        EXPECT_EQ(replayed.status, 0) << replayed.output;
        EXPECT_TRUE(replayed.output.ends_with("actions: identical\n")) << replayed.output;
        const std::string folder = machine.path("theirs");
        std::filesystem::create_directory(folder);
        ASSERT_EQ(::chown(folder.c_str(), kOther, kOther), 0);
        EXPECT_EQ(say_as(machine, home, kOther, {"trace", folder + "/trace.json"}).status, 0);
        const std::string timeline = text_of(folder + "/trace.json");
        EXPECT_NE(timeline.find("beryl"), std::string::npos) << timeline.substr(0, 1000);
        EXPECT_EQ(timeline.find("amber") == std::string::npos, only_numbers);
    }
}

TEST_F(UsersTogether, TheServicesFilesAreItsOwn) {
    Machine machine({"--capacity", "1GiB", "--users", "all"});
    const Home home = home_for_others(machine);
    machine.job("amber", kJob);
    ASSERT_TRUE(machine.goes_on("amber"));
    Process detached = machine.salus({"run", "-d", "--name", "logged", "--", "echo", "secret"});
    EXPECT_EQ(detached.wait(), 0) << detached.output();
    struct stat status {};
    ASSERT_EQ(::stat(machine.state().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
    for (const char* file : {"trace", "history.db", "roster", "next-job", "logs", ""}) {
        Process reader({"ls", machine.state() + "/" + file}, {}, machine.path("reader.out"), kOther);
        EXPECT_NE(reader.wait(), 0) << file;
        EXPECT_NE(reader.output().find("Permission denied"), std::string::npos) << file << reader.output();
    }
    EXPECT_EQ(say_as(machine, home, kOther, {"logs", "logged"}).status, 1);
    EXPECT_NE(say_as(machine, home, kOther, {"policy", "fifo"}).output.find("only the service's owner"), std::string::npos);
    EXPECT_NE(say_as(machine, home, kOther, {"stop", "--force"}).output.find("only the service's owner"), std::string::npos);
    EXPECT_EQ(machine.status()["service"].value("policy", ""), "fair");
}

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
