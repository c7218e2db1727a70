// What `salus run` asks of the service, and what it tells its user.
#include <poll.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "os/descriptor.h"
#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

const std::vector<std::string> kEndless = {SALUS_JOB_BINARY, "--persistent", "1MiB",       "--ephemeral", "1MiB",
                                           "--work",         "10",           "--think-ms", "1",           "--quiet",
                                           "--iterations",   "1000000"};

/// Listens where a service would, and sees all that is asked of it.
class FakeService {
public:
    explicit FakeService(const std::string& path) {
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path.data(), path.size());
        listener_ = os::Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_.get(), 16), 0);
    }
    /// The next connection; none if nobody has connected.
    os::Descriptor accept() { return os::Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

private:
    os::Descriptor listener_;
};

class Runner : public ::testing::Test {
protected:
    Runner() : machine_({"--capacity", "1GiB", "--device", "host", "--lanes", "1"}, /*start=*/false) {}
    /// `salus run` starts a new service when the last one is gone: that one is not the machine's.
    ~Runner() override { machine_.salus({"stop", "--force"}).wait(); }

    Process run(const std::string& name, const std::vector<std::string>& command) {
        std::vector<std::string> words = {"run", "--name", name, "--"};
        words.insert(words.end(), command.begin(), command.end());
        return machine_.salus(words);
    }
    static bool says(const Process& process, const std::string& text) {
        return eventually([&] { return process.output().find(text) != std::string::npos; });
    }

    Machine machine_;
};

// With 60 jobs that each asked for the status of all, twice a second, an idle service used 7 % of a core.
TEST_F(Runner, AsksTheServiceNothingWhileItsJobRuns) {
    FakeService service(machine_.socket());
    Process job = run("mine", {"sleep", "100"});
    os::Descriptor runner;
    ASSERT_TRUE(eventually([&] { return static_cast<bool>(runner = service.accept()); })) << job.output();
    wire::Received received = wire::receive(runner.get());
    ASSERT_TRUE(std::holds_alternative<wire::Run>(received.message)) << received.why;
    ASSERT_TRUE(wire::send(runner.get(), wire::Running{7, wire::Text<16>("host"), {}, {}}));
    const wire::Waits waits{wire::Text<16>("waiting"), wire::Text<32>("turn"), wire::Text<64>("other"), 3, 0, 0};
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(wire::send(runner.get(), waits));
    EXPECT_TRUE(says(job, "salus: mine waits for its turn, after other (job 3)\n")) << job.output();
    sleep_s(1.2);  // what asks twice a second has asked by then
    EXPECT_FALSE(service.accept()) << "it has connected once more";
    job.signal(SIGTERM);
    received = wire::receive(runner.get());
    EXPECT_TRUE(std::holds_alternative<wire::Ended>(received.message));
    runner.reset();
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_EQ(job.output(), "salus: mine waits for its turn, after other (job 3)\n") << "once";
}

// A service that is being restarted hangs up on whoever comes meanwhile. That says nothing about sharing.
TEST_F(Runner, SaysNothingWhileTheServiceIsRestarted) {
    FakeService service(machine_.socket());
    const wire::Running running{7, wire::Text<16>("host"), {}, {}};
    os::Descriptor runner;
    const auto comes = [&] { return eventually([&] { return static_cast<bool>(runner = service.accept()); }); };
    Process job = run("mine", {"sleep", "100"});
    ASSERT_TRUE(comes());
    ASSERT_TRUE(comes()) << "the first one was hung up on";
    EXPECT_TRUE(std::holds_alternative<wire::Run>(wire::receive(runner.get()).message));
    ASSERT_TRUE(wire::send(runner.get(), running));
    const auto job_runs = [&] {  // its command is no longer salus itself
        const std::string children =
            "/proc/" + std::to_string(job.pid()) + "/task/" + std::to_string(job.pid()) + "/children";
        const std::string child = text_of(children);
        return !child.empty() && text_of("/proc/" + child.substr(0, child.find(' ')) + "/comm") == "sleep\n";
    };
    ASSERT_TRUE(eventually(job_runs)) << job.output();
    ASSERT_TRUE((runner.reset(), comes())) << "it looks for the next service";
    ASSERT_TRUE((runner.reset(), comes())) << "and again";
    const wire::Received received = wire::receive(runner.get());
    const auto* announced = std::get_if<wire::Run>(&received.message);
    ASSERT_TRUE(announced);
    EXPECT_EQ(announced->job, 7u);
    EXPECT_EQ(announced->runs, 1u);
    ASSERT_TRUE(wire::send(runner.get(), running));
    job.signal(SIGTERM);
    EXPECT_TRUE(std::holds_alternative<wire::Ended>(wire::receive(runner.get()).message));
    runner.reset();
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_EQ(job.output(), "");
}

TEST_F(Runner, StartsItsCommandWhenItIsToldTo) {
    FakeService service(machine_.socket());
    wire::Running waits{7, wire::Text<16>("cuda"), {}, {}};
    waits.waits = 1;
    os::Descriptor runner;
    const auto announced = [&]() -> std::optional<wire::Run> {
        if (!eventually([&] { return static_cast<bool>(runner = service.accept()); })) return std::nullopt;
        const wire::Received received = wire::receive(runner.get());
        const auto* run = std::get_if<wire::Run>(&received.message);
        return run && wire::send(runner.get(), waits) ? std::optional(*run) : std::nullopt;
    };
    Process job = run("mine", {"touch", machine_.path("started")});
    const auto first = announced();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->waited, 0u);
    const wire::Waits why{wire::Text<16>("waiting"), wire::Text<32>("memory"), wire::Text<64>("other"), 3, 0, 0};
    ASSERT_TRUE(wire::send(runner.get(), why));
    const std::string said = "salus: mine waits for memory on the GPU, to start; other (job 3) holds most\n";
    EXPECT_TRUE(says(job, said)) << job.output();
    runner.reset();  // this service goes away
    const auto second = announced();
    ASSERT_TRUE(second) << "it looks for the next service";
    EXPECT_EQ(second->job, 7u);
    EXPECT_EQ(second->runs, 0u);
    EXPECT_EQ(second->waited, 1u);
    ASSERT_TRUE(wire::send(runner.get(), why));
    sleep_s(0.3);  // longer than it takes to try again
    EXPECT_FALSE(service.accept()) << "it asks again and again";
    EXPECT_FALSE(std::filesystem::exists(machine_.path("started")));
    ASSERT_TRUE(wire::send(runner.get(), wire::Start{}));
    EXPECT_TRUE(std::holds_alternative<wire::Ended>(wire::receive(runner.get()).message));
    runner.reset();
    EXPECT_EQ(job.wait(), 0);
    EXPECT_TRUE(std::filesystem::exists(machine_.path("started")));
    EXPECT_EQ(job.output(), said) << "once";
}

TEST_F(Runner, AJobThatSharesAgainIsNotSaidToRunWithoutSharing) {
    machine_.start_service();
    std::ofstream(machine_.path("no-directory")) << "";
    machine_.also["SALUS_STATE"] = machine_.path("no-directory");  // so that it cannot start a service by itself
    Process job = run("mine", kEndless);
    ASSERT_TRUE(machine_.goes_on("mine"));
    machine_.service().end();
    sleep_s(0.3);  // it has tried by then
    machine_.start_service();
    EXPECT_TRUE(machine_.goes_on("mine"));
    EXPECT_EQ(machine_.salus({"kill", "mine"}).wait(), 0);
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_EQ(job.output().find("this job continues without sharing"), std::string::npos) << job.output();
}

TEST_F(Runner, TakesRelativePathsAgainstItsWorkingDirectory) {
    machine_.also["SALUS_SOCKET"] = "relative-run/socket";
    machine_.also["SALUS_STATE"] = "relative-state";
    std::filesystem::create_directory(machine_.path("elsewhere"));
    const std::string job = "cd elsewhere && exec " SALUS_JOB_BINARY " --quiet --iterations 3";
    const auto in_directory = [&](const std::string& command) {
        return Process({"sh", "-c", "cd " + machine_.path("") + " && exec " SALUS_BINARY " " + command},
                       machine_.environment(), machine_.path("said"));
    };
    EXPECT_EQ(in_directory("start").wait(), 0) << "a job starts no service at a socket that SALUS_SOCKET names";
    Process run = in_directory("run --name mine -- sh -c '" + job + "'");
    EXPECT_EQ(run.wait(), 0);
    EXPECT_EQ(run.output(), "");
    EXPECT_TRUE(std::filesystem::exists(machine_.path("relative-state/trace")));
    EXPECT_NE(text_of(machine_.path("relative-state/salusd.log")).find("after 3 iterations"), std::string::npos);
    EXPECT_EQ(in_directory("stop").wait(), 0);
    EXPECT_FALSE(std::filesystem::exists("/relative-state"));
}

// As a person at a terminal sees it, where a progress bar leaves the cursor at its end.
TEST_F(Runner, ItsLineDoesNotStandBehindAProgressBar) {
    FakeService service(machine_.socket());
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 40;
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (const auto& [name, value] : machine_.environment()) ::setenv(name.c_str(), value.c_str(), 1);
        ::execl(SALUS_BINARY, SALUS_BINARY, "run", "--name", "mine", "--", "sh", "-c",
                "printf '50%%|###   |' >&2; sleep 100", nullptr);
        ::_exit(127);
    }
    const os::Descriptor end(terminal);
    std::string seen;
    const auto shows = [&](const std::string& text) {
        return eventually([&] {
            pollfd readable{terminal, POLLIN, 0};
            char part[512];
            while (::poll(&readable, 1, 0) == 1) {
                const ssize_t got = ::read(terminal, part, sizeof part);
                if (got <= 0) break;
                seen.append(part, static_cast<std::size_t>(got));
            }
            return seen.find(text) != std::string::npos;
        });
    };
    os::Descriptor runner;
    ASSERT_TRUE(eventually([&] { return static_cast<bool>(runner = service.accept()); })) << seen;
    EXPECT_TRUE(std::holds_alternative<wire::Run>(wire::receive(runner.get()).message));
    ASSERT_TRUE(wire::send(runner.get(), wire::Running{7, wire::Text<16>("host"), {}, {}}));
    ASSERT_TRUE(shows("50%|###   |")) << seen;
    ASSERT_TRUE(wire::send(runner.get(), wire::Waits{wire::Text<16>("waiting"), wire::Text<32>("turn"), {}, 0, 0, 0}));
    EXPECT_TRUE(shows("50%|###   |" + std::string(39, ' ') + "\rsalus: mine waits for its turn\r\n")) << seen;
    ::kill(child, SIGTERM);
    EXPECT_TRUE(eventually([&] { return ::waitpid(child, nullptr, WNOHANG) == child; }));
}

// Between the word of the service that the job may start and its first iterations, the service may be restarted.
TEST_F(Runner, AProcessThatBeginsWhileTheServiceIsAwayWaitsForIt) {
    machine_.start_service();
    machine_.also["SALUS_STATE"] = machine_.path("no-directory");  // so that the job cannot start a service by itself
    std::ofstream(machine_.path("no-directory")) << "";
    const std::string gate = machine_.path("gate");
    std::string command = "touch " + machine_.path("runs") + "; until [ -e " + gate + " ]; do sleep 0.01; done; exec";
    for (const std::string& word : kEndless) command += " " + word;
    Process job = run("mine", {"sh", "-c", command});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(machine_.path("runs")); })) << job.output();
    machine_.service().end();
    std::ofstream(gate) << "";
    sleep_s(0.3);  // it has tried by then
    machine_.start_service();
    EXPECT_TRUE(machine_.goes_on("mine")) << job.output();
    EXPECT_EQ(machine_.salus({"kill", "mine"}).wait(), 0);
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_EQ(job.output().find("running without sharing"), std::string::npos) << job.output();
}

class Required : public Runner {
protected:
    /// It says this one line, and its command does not run.
    void expect_refusal(const std::vector<std::string>& options, const std::vector<std::string>& command,
                        const std::string& why) {
        std::vector<std::string> words = {"run"};
        words.insert(words.end(), options.begin(), options.end());
        words.push_back("--");
        words.insert(words.end(), command.begin(), command.end());
        Process job = machine_.salus(words);
        EXPECT_EQ(job.wait(), 125);
        EXPECT_EQ(job.output(), "salus: " + why + "; the job cannot share and is not started\n");
        EXPECT_FALSE(std::filesystem::exists(machine_.path("started")));
    }
    std::vector<std::string> touch() const { return {"touch", machine_.path("started")}; }
};

TEST_F(Required, WithoutAServiceTheJobDoesNotStart) {
    machine_.also["SALUS_SOCKET"] = machine_.path("named/socket");
    machine_.also["SALUS_ORPHAN_WAIT"] = "0";
    const std::string why = "no service runs at " + machine_.path("named/socket");
    expect_refusal({"--require"}, touch(), why);
    expect_refusal({"--require", "-d"}, touch(), why);
    EXPECT_FALSE(std::filesystem::exists(machine_.path("state/logs"))) << "nothing was started in the background";
    EXPECT_TRUE(machine_.services().empty());
    EXPECT_EQ(machine_.salus(Words{"run", "--"} + touch()).wait(), 0) << "it is not required";
    EXPECT_TRUE(std::filesystem::exists(machine_.path("started")));
}

TEST_F(Required, AJobThatSharesStarts) {
    machine_.start_service();
    EXPECT_EQ(machine_.salus(Words{"run", "--require", "--"} + touch()).wait(), 0);
    EXPECT_TRUE(std::filesystem::exists(machine_.path("started")));
}

TEST_F(Required, APythonThatTheAdaptorCannotEnterDoesNotStart) {
    machine_.start_service();
    const std::string python = machine_.path("python3");
    std::ofstream(python) << "#!/bin/sh\ntouch " + machine_.path("started") + "\n";
    ::chmod(python.c_str(), 0755);
    expect_refusal({"--require"}, {python, "-I", "train.py"}, "python -I keeps the adaptor out");
    machine_.also["SALUS_DISABLE"] = "1";
    expect_refusal({"--require"}, {python, "train.py"}, "SALUS_DISABLE is set");
    machine_.also["SALUS_DISABLE"] = "0";
    EXPECT_EQ(machine_.salus({"run", "--require", "--", python, "train.py"}).wait(), 0);
    EXPECT_TRUE(std::filesystem::exists(machine_.path("started")));
}

TEST_F(Required, TheUsersConfigurationMaySaySo) {
    machine_.also["XDG_CONFIG_HOME"] = machine_.path("config");
    machine_.also["SALUS_SOCKET"] = machine_.path("named/socket");
    machine_.also["SALUS_ORPHAN_WAIT"] = "0";
    std::filesystem::create_directories(machine_.path("config/salus"));
    const std::string file = machine_.path("config/salus/salus.toml");
    std::ofstream(file) << "require = true\n";
    expect_refusal({}, touch(), "no service runs at " + machine_.path("named/socket"));
    std::ofstream(file) << "require = 1\n";
    Process wrong = machine_.salus(Words{"run", "--"} + touch());
    EXPECT_EQ(wrong.wait(), 2);
    EXPECT_EQ(wrong.output(), "salus: " + file + ": require must be true or false; got '1'\n");
}

TEST_F(Runner, IsToldByTheServiceForWhatItsJobWaits) {
    machine_.start_service();
    // One whose first iteration does not end, though it computes.
    Process holder =
        run("holder", {SALUS_JOB_BINARY, "--persistent", "1MiB", "--ephemeral", "1MiB", "--work", "1000000000"});
    ASSERT_TRUE(eventually([&] { return machine_.state_of("holder") == "running"; })) << machine_.status();
    Process waiter = run("waiter", kEndless);
    EXPECT_TRUE(says(waiter, "salus: waiter waits for the first iterations of holder (job 1)\n")) << waiter.output();
    EXPECT_EQ(holder.output(), "");
    for (const char* name : {"waiter", "holder"}) EXPECT_EQ(machine_.salus({"kill", name, "--now"}).wait(), 0);
    EXPECT_EQ(waiter.wait(), 128 + SIGKILL);
    EXPECT_EQ(holder.wait(), 128 + SIGKILL);
}

}  // namespace
}  // namespace salus::test
