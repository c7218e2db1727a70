// Where the service is, for each tool and each job: Note [Where the service is] in os/places.cpp.
#include "tests/places_fixture.h"

#include <sys/file.h>

#include "os/machine.h"

namespace salus::test {
namespace {

class Found : public Places {
protected:
    static Words session() { return {"XDG_RUNTIME_DIR=" + runtime_directory()}; }
    std::string in_session() const { return runtime_directory() + "/salus/socket"; }
    std::string in_tmp() const { return tmp_directory() + "/socket"; }
    /// Those that were started at the same time find out that they are not needed.
    bool one_service_is_left() {
        return eventually([&] { return services().size() == 1; });
    }
    bool eventually_at(const std::string& socket) {
        return eventually([&] { return socket_of(status()) == socket; });
    }
};

// cron, su, sbatch and ssh set no XDG_RUNTIME_DIR.
TEST_F(Found, JobsOfASessionAndOfCronShareOneService) {
    log_in();
    Process first = run("first", session());
    ASSERT_TRUE(goes_on("first", session())) << first.output();
    Process second = run("second");
    EXPECT_TRUE(goes_on("second", session())) << second.output();
    EXPECT_TRUE(goes_on("first"));
    EXPECT_EQ(socket_of(status()), in_session());
    // The variable of another user, as su leaves it.
    EXPECT_EQ(socket_of(status({"XDG_RUNTIME_DIR=" + path("/root")})), in_session());
    EXPECT_TRUE(one_service_is_left());
}

TEST_F(Found, WithoutAnySessionItIsInTmp) {
    Process job = run("job");
    ASSERT_TRUE(goes_on("job")) << job.output();
    EXPECT_EQ(socket_of(status()), in_tmp());
    log_in();  // the first session begins later
    EXPECT_TRUE(eventually_at(in_session()));
    EXPECT_EQ(socket_of(status(session())), in_session());
    EXPECT_FALSE(std::filesystem::exists(in_tmp()));
    EXPECT_TRUE(goes_on("job"));
    EXPECT_TRUE(one_service_is_left());
}

TEST_F(Found, ALogoutLosesNeitherServiceNorJobs) {
    log_in();
    Process first = run("first", session());
    ASSERT_TRUE(goes_on("first", session())) << first.output();
    log_out();
    // At once: it looks where the service is, or waits until it is there.
    Process second = run("second", session());
    EXPECT_TRUE(goes_on("second")) << second.output();
    EXPECT_EQ(socket_of(status()), in_tmp());
    EXPECT_EQ(socket_of(status(session())), in_tmp());
    EXPECT_TRUE(one_service_is_left());
    // Both jobs find the next service, which is where none of them began.
    ::kill(services().at(0), SIGKILL);
    EXPECT_TRUE(
        eventually([&] { return row(status(), "first").contains("client") && row(status(), "second").contains("client"); }));
    EXPECT_TRUE(goes_on("first"));
    EXPECT_TRUE(goes_on("second"));
    log_in();
    EXPECT_TRUE(eventually_at(in_session()));
    EXPECT_TRUE(goes_on("first", session()));
    EXPECT_TRUE(goes_on("second", session()));
    for (const Process* job : {&first, &second}) EXPECT_TRUE(has_always_shared(*job)) << job->output();
    EXPECT_TRUE(one_service_is_left());
}

// For up to a second the service listens nowhere. Its lock shows that it runs.
TEST_F(Found, CommandsFollowTheServiceAtALogout) {
    Process job = run("job");
    ASSERT_TRUE(goes_on("job")) << job.output();
    for (int i = 0; i < 3; ++i) {
        log_in();
        ASSERT_TRUE(eventually_at(in_session()));
        log_out();
        Process asks = salus({"ps"}, session());
        EXPECT_EQ(asks.wait(), 0) << asks.output();
        EXPECT_NE(asks.output().find("job"), std::string::npos) << asks.output();
        EXPECT_EQ(socket_of(status()), in_tmp());
    }
    EXPECT_TRUE(goes_on("job"));
    EXPECT_TRUE(one_service_is_left());
}

TEST_F(Found, EachMachineOfAHomeDirectoryHasAStateOfItsOwn) {
    const std::string state = home() + "/.local/state/salus";
    const auto state_now = [&] { return status().value("/service/state"_json_pointer, ""); };
    const auto end_service = [&] {
        ASSERT_EQ(salus({"stop", "--force"}).wait(), 0);
        ASSERT_TRUE(eventually([&] { return services().empty(); }));
    };
    // As an earlier version has left it: no machine has claimed it.
    ASSERT_EQ(salus({"start"}).wait(), 0);
    EXPECT_EQ(salus({"run", "--", "sh", "-c", ": amber"}).wait(), 0);
    end_service();
    ASSERT_TRUE(std::filesystem::remove(state + "/machine"));
    ASSERT_EQ(salus({"start"}).wait(), 0);
    EXPECT_EQ(state_now(), state);
    Process history = salus({"history"});
    EXPECT_EQ(history.wait(), 0);
    EXPECT_NE(history.output().find(": amber"), std::string::npos) << "nothing is lost: " << history.output();
    end_service();
    EXPECT_TRUE(std::filesystem::exists(state + "/machine"));

    // Now another machine's.
    const auto claim = [&](const std::string& machine) {
        std::ofstream(state + "/machine") << machine;
        ASSERT_EQ(::chown((state + "/machine").c_str(), kUser, kUser), 0);
        ::chmod((state + "/machine").c_str(), 0600);
    };
    claim("host=elsewhere id=0123456789abcdef boot=another\n");
    const int lock = ::open((state + "/lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0) << "its service runs";
    const std::string theirs = text_of(state + "/trace");
    Process job = run("job");
    ASSERT_TRUE(goes_on("job")) << job.output();
    EXPECT_EQ(state_now(), state + "/on-" + os::this_machine().host);
    EXPECT_EQ(text_of(state + "/trace"), theirs);
    EXPECT_EQ(text_of(state + "/machine"), "host=elsewhere id=0123456789abcdef boot=another\n");
    EXPECT_EQ(salus({"kill", "job"}).wait(), 0);
    end_service();
    ::close(lock);

    // This machine again, after it has started again.
    os::Machine before = os::this_machine();
    before.boot = "earlier";
    claim(os::text_of(before));
    ASSERT_EQ(salus({"start"}).wait(), 0);
    EXPECT_EQ(state_now(), state);
    EXPECT_EQ(text_of(state + "/machine"), os::text_of(os::this_machine()));
}

// A variable that names another directory: only the lock of the state directory leads there.
TEST_F(Found, TheLockOfTheStateDirectoryNamesTheSocket) {
    const Words elsewhere = {"SALUS_SOCKET=" + home() + "/elsewhere/socket"};
    ASSERT_EQ(salus({"start"}, elsewhere).wait(), 0);
    Process job = run("job");
    EXPECT_TRUE(goes_on("job")) << job.output();
    EXPECT_EQ(socket_of(status()), home() + "/elsewhere/socket");
    EXPECT_TRUE(one_service_is_left());
    // A lock that another user could have written is not followed.
    ASSERT_EQ(::chown((home() + "/.local/state/salus/lock").c_str(), kUser + 1, kUser + 1), 0);
    ::chmod((home() + "/.local/state/salus/lock").c_str(), 0644);
    Process asks = salus({"ps"});
    EXPECT_EQ(asks.wait(), 1);
    EXPECT_EQ(asks.output(), "salus: no service runs at " + in_tmp() + "\n");
}

TEST_F(Found, TheMachinesServiceComesBeforeAUsersOwn) {
    log_in();
    const Words own = {"SALUS_SOCKET=" + in_session()};
    Process before = run("before", session());
    ASSERT_TRUE(goes_on("before", session())) << before.output();
    Process machines = machines_service();
    Process after = run("after", session());
    EXPECT_TRUE(goes_on("after", session())) << after.output();
    EXPECT_EQ(socket_of(status()), kMachines);
    // Jobs that run stay with theirs, and so do what they start.
    EXPECT_TRUE(goes_on("before", own));
    EXPECT_TRUE(row(status(own), "after").empty());
    EXPECT_TRUE(row(status(), "before").empty());
    ::kill(services_with(in_session()).at(0), SIGKILL);
    EXPECT_TRUE(goes_on("before", own)) << "its salus run starts the next one: " << before.output();
    EXPECT_TRUE(has_always_shared(before)) << before.output();
    EXPECT_TRUE(eventually([&] { return services().size() == 2; }));
}

TEST_F(Found, TheUsersUnitReloadsTheUsersOwnService) {
    log_in();
    Process before = run("before", session());
    ASSERT_TRUE(goes_on("before", session())) << before.output();
    Process machines = machines_service();
    const std::string unit = text_of(SALUS_SOURCE_DIR "/packaging/salusd-user.service.in"), entry = "\nExecReload=";
    const std::size_t begin = unit.find(entry) + entry.size();
    std::string line = unit.substr(begin, unit.find('\n', begin) - begin);
    for (const auto& [name, value] : {std::pair{std::string("%t"), runtime_directory()}, {"@BIN@", path("/bin")}}) {
        if (const std::size_t at = line.find(name); at != std::string::npos) line.replace(at, name.size(), value);
    }
    std::istringstream text(line);
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    Process reload = start(words, kUser, session());
    EXPECT_EQ(reload.wait(), 0);
    EXPECT_EQ(reload.output(), "nothing has changed\n");
}

TEST_F(Found, AMachinesServiceThatAUserMayNotUseIsNone) {
    Process machines = machines_service({"--users", "own"});
    Process job = run("job");
    EXPECT_TRUE(goes_on("job")) << job.output();
    EXPECT_EQ(socket_of(status()), in_tmp());
    EXPECT_EQ(job.output(), "");
}

TEST_F(Found, AMachinesServiceThatWasKilledIsWaitedForOnlyIfItComesBack) {
    Process machines = machines_service();
    machines.signal(SIGKILL);
    machines.wait();
    ASSERT_TRUE(std::filesystem::exists(kMachines)) << "it has left its socket";
    std::filesystem::create_directory("/run/salus/up");  // by systemd, until somebody stops the unit
    Process waits = run("waits");
    EXPECT_TRUE(says(waits,
                     "salus: no service runs at /run/salus/socket; the job waits for it for up to 20 s, then it "
                     "starts without sharing\n"));
    EXPECT_TRUE(services().empty());
    machines = machines_service();
    EXPECT_TRUE(goes_on("waits")) << waits.output();
    EXPECT_TRUE(has_always_shared(waits)) << waits.output();
    EXPECT_TRUE(one_service_is_left());
    waits.end();
    machines.signal(SIGKILL);
    machines.wait();
    std::filesystem::remove("/run/salus/up");
    Process own = run("own");
    EXPECT_TRUE(goes_on("own")) << own.output();
    EXPECT_EQ(socket_of(status()), in_tmp());
}

class Managed : public Found {
protected:
    std::string socket() const { return home() + "/named/socket"; }
    Words named() const { return {"SALUS_SOCKET=" + socket(), "SALUS_ORPHAN_WAIT=6"}; }
};

// Root's job started a second service, with other users and another capacity, which outlived the job.
TEST_F(Managed, NoJobStartsAServiceThatSomebodyNamed) {
    Process job = salus({"run", "--", "echo", "ran"}, named());
    EXPECT_EQ(job.wait(), 0);
    const std::string why = "salus: no service runs at " + socket() + "; the job ";
    EXPECT_EQ(job.output(),
              why + "waits for it for up to 6 s, then it starts without sharing\n" + why + "starts without sharing\nran\n");
    EXPECT_TRUE(services().empty());
    Process start = salus({"start"}, named());
    EXPECT_EQ(start.wait(), 0) << start.output();
    EXPECT_EQ(start.output(), "the service listens at " + socket() + "\n");
    Process shares = run("shares", named());
    EXPECT_TRUE(goes_on("shares", named())) << shares.output();
}

TEST_F(Managed, AJobThatHasLostItSaysHowLongItWaits) {
    ASSERT_EQ(salus({"start"}, named()).wait(), 0);
    Process job = run("job", named());
    ASSERT_TRUE(goes_on("job", named())) << job.output();
    ::kill(services().at(0), SIGKILL);
    EXPECT_TRUE(says(job, "salus: no service runs at " + socket() +
                              "; the job waits for the next service for up to 6 s, then it continues without sharing\n"));
    EXPECT_TRUE(
        says(job, "salus: the service is gone (no service runs at " + socket() + "); this job continues without sharing\n"))
        << job.output();
    EXPECT_TRUE(job.runs());
    EXPECT_TRUE(services().empty()) << "nobody has started another one";
}

TEST_F(Managed, NoJobStartsTheMachinesServiceNotEvenRoots) {
    std::filesystem::create_directories("/run/salus/up");
    for (const unsigned uid : {0u, kUser}) {
        Process job = start({program("salus"), "run", "--", "echo", "ran"}, uid, {"SALUS_ORPHAN_WAIT=1"});
        EXPECT_EQ(job.wait(), 0);
        EXPECT_EQ(job.output(), "salus: no service runs at /run/salus/socket; the job starts without sharing\nran\n");
        Process begin = start({program("salus"), "start"}, uid);
        EXPECT_EQ(begin.wait(), 1);
        EXPECT_EQ(begin.output(),
                  "salus: no service runs at /run/salus/socket; it is the machine's, and systemctl start salusd "
                  "starts it\n");
    }
    EXPECT_TRUE(services().empty());
}

}  // namespace
}  // namespace salus::test
