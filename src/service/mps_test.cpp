// A script replaces nvidia-cuda-mps-control. The first line of each test says how it behaves.
#include "service/mps.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "os/process.h"
#include "tests/processes_fixture.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;
using test::eventually;
using test::text_of;

TEST(WantsMps, FollowsTheTable) {
    const struct {
        MpsMode mode;
        unsigned lanes_option, lanes_the_policy_wants;
        bool cuda, wants, all_users = false;
    } rows[] = {
        {MpsMode::kAuto, 0, 2, true, false, true}, {MpsMode::kAuto, 4, 1, true, false, true},
        {MpsMode::kOn, 0, 1, true, true, true},    {MpsMode::kOff, 4, 4, true, false, true},
        {MpsMode::kAuto, 0, 1, true, false},       {MpsMode::kAuto, 0, 2, true, true},
        {MpsMode::kAuto, 0, 0, true, false},       {MpsMode::kAuto, 1, 9, true, false},
        {MpsMode::kAuto, 2, 1, true, true},        {MpsMode::kAuto, 2, 9, false, false},
        {MpsMode::kOn, 1, 1, true, true},          {MpsMode::kOn, 0, 0, true, true},
        {MpsMode::kOn, 4, 4, false, false},        {MpsMode::kOff, 4, 4, true, false},
        {MpsMode::kOff, 0, 9, false, false},
    };
    for (const auto& row : rows) {
        EXPECT_EQ(wants_mps(row.mode, row.lanes_option, row.lanes_the_policy_wants, row.cuda, row.all_users), row.wants)
            << static_cast<int>(row.mode) << " " << row.lanes_option << " " << row.lanes_the_policy_wants << " " << row.cuda;
    }
}

TEST(WantsMps, WhereOverlapIsMeasuredAutoGoesByThat) {
    for (const unsigned lanes : {0u, 4u}) {
        EXPECT_TRUE(wants_mps(MpsMode::kAuto, lanes, 1, true, false, true));
        EXPECT_FALSE(wants_mps(MpsMode::kAuto, lanes, 2, true, false, false));
    }
    EXPECT_FALSE(wants_mps(MpsMode::kAuto, 0, 2, true, /*all_users=*/true, true));
    EXPECT_FALSE(wants_mps(MpsMode::kAuto, 0, 2, /*cuda=*/false, false, true));
    EXPECT_TRUE(wants_mps(MpsMode::kOn, 0, 1, true, false, false));
    EXPECT_FALSE(wants_mps(MpsMode::kOff, 4, 2, true, false, true));
}

TEST(WantsMps, AServerHasJobsOfOneUserOnly) {
    EXPECT_TRUE(may_join_mps(0, 0, 0));
    EXPECT_TRUE(may_join_mps(1000, 1000, Mps::kClientsMax - 1));
    EXPECT_FALSE(may_join_mps(1000, 1000, Mps::kClientsMax));
    EXPECT_FALSE(may_join_mps(0, 1000, 0)) << "not even its first";
    EXPECT_FALSE(may_join_mps(1000, 1001, 1));
    EXPECT_FALSE(may_join_mps(1000, 0, 1)) << "root's is another, too";
}

/// Like the real one: with -f a daemon, else it passes on a command. The daemon waits for commands at `control`, and starts
/// no other process; the command that ended it is the last line of control.log.
constexpr const char* kUsual = R"(
if [ "$1" != -f ]; then
    read command
    echo "$command" >"$CUDA_MPS_PIPE_DIRECTORY/control"
    exit
fi
come_up() {
    echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
    echo "devices $CUDA_VISIBLE_DEVICES" >>"$CUDA_MPS_LOG_DIRECTORY/control.log"
    : >"$CUDA_MPS_PIPE_DIRECTORY/control_lock"
    mkfifo "$CUDA_MPS_PIPE_DIRECTORY/control"
}
next_command() {
    read command <"$CUDA_MPS_PIPE_DIRECTORY/control"
    echo "$command" >>"$CUDA_MPS_LOG_DIRECTORY/control.log"
}
)";
constexpr const char* kGood = "come_up; next_command; exit 0";

bool readable(int fd) {
    pollfd watched{fd, POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
}

class MpsTest : public ::testing::Test {
protected:
    MpsTest() {
        std::string pattern = (fs::temp_directory_path() / "salus-mps-test-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
        path_ = std::getenv("PATH");
        fs::create_directory(root_ + "/bin");
        ::setenv("PATH", (root_ + "/bin:" + path_).c_str(), 1);
    }
    ~MpsTest() override {
        ::setenv("PATH", path_.c_str(), 1);
        fs::remove_all(root_);
    }

    /// Replaces the file, so that a running script continues with the old one.
    void program_is(const std::string& text) const {
        const std::string program = root_ + "/bin/nvidia-cuda-mps-control";
        std::ofstream(program + ".new") << text;
        fs::permissions(program + ".new", fs::perms::owner_all);
        fs::rename(program + ".new", program);
    }
    void control_is(const std::string& body) const { program_is("#!/bin/sh\n" + (kUsual + body) + "\n"); }
    std::string directory() const { return root_ + "/state/mps"; }
    std::string log() const { return text_of(directory() + "/control.log"); }
    bool has(const std::string& name) const { return fs::exists(fs::symlink_status(directory() + "/" + name)); }
    Result<std::unique_ptr<Mps>> start(MpsPatience patience = {}) const {
        return Mps::start(directory(), "GPU-1234", patience);
    }
    std::unique_ptr<Mps> started(MpsPatience patience = {}) const {
        Result<std::unique_ptr<Mps>> mps = start(patience);
        EXPECT_TRUE(mps.ok()) << mps.error();
        return mps ? std::move(mps).value() : nullptr;
    }
    int daemon_pid() const {
        int pid = -1;
        std::ifstream(directory() + "/nvidia-cuda-mps-control.pid") >> pid;
        return pid;
    }
    /// Starts the daemon from a process that is then killed, as a service may be. Returns a descriptor of the daemon.
    os::Descriptor left_by_a_killed_service() const {
        const pid_t service = ::fork();
        if (service == 0) {
            sigset_t stops;  // as the service does
            ::sigemptyset(&stops);
            ::sigaddset(&stops, SIGTERM);
            ::sigprocmask(SIG_BLOCK, &stops, nullptr);
            const auto mps = start();
            if (mps) std::ofstream(root_ + "/ready") << "yes";
            for (;;) ::pause();
        }
        EXPECT_TRUE(eventually([&] { return fs::exists(root_ + "/ready"); }));
        os::Descriptor daemon = os::open_pidfd(daemon_pid());
        EXPECT_TRUE(daemon && !readable(daemon.get()));
        ::kill(service, SIGKILL);
        ::waitpid(service, nullptr, 0);
        return daemon;
    }

    std::string root_;

private:
    std::string path_;
};

TEST_F(MpsTest, ComesUpAndQuits) {
    control_is(kGood);
    std::unique_ptr<Mps> mps = started();
    ASSERT_TRUE(mps);
    EXPECT_EQ(mps->directory(), directory());
    EXPECT_TRUE(has("control"));
    EXPECT_EQ(log(), "devices GPU-1234\n");
    EXPECT_FALSE(readable(mps->pidfd()));
    EXPECT_EQ(mps->why_gone(), "");
    const os::Descriptor daemon = os::open_pidfd(daemon_pid());
    EXPECT_EQ(::getsid(daemon_pid()), daemon_pid());
    mps->stop();
    EXPECT_TRUE(readable(daemon.get()));
    EXPECT_EQ(mps->pidfd(), -1);
    EXPECT_EQ(mps->why_gone(), "MPS was stopped");
    EXPECT_EQ(log(), "devices GPU-1234\nquit\n");  // ended by "quit", not by a signal
    for (const char* name : {"control", "control_lock", "nvidia-cuda-mps-control.pid"}) EXPECT_FALSE(has(name)) << name;
    EXPECT_TRUE(started()) << "the directory is free while the old one is not destroyed yet";
}

TEST_F(MpsTest, TheDirectoryIsPrivate) {
    control_is(kGood);
    fs::create_directories(directory());
    fs::permissions(directory(), fs::perms::all);
    const auto mps = started();
    EXPECT_EQ(fs::status(directory()).permissions(), fs::perms::owner_all);
    EXPECT_EQ(fs::status(directory() + "/control.out").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(MpsTest, WhatIsLeftOfAnEarlierOneIsCleared) {
    control_is("[ ! -e $CUDA_MPS_PIPE_DIRECTORY/control_lock ] || exit 3; " + std::string(kGood));
    fs::create_directories(directory());
    for (const char* name : {"control", "control_lock", "control.log", "notes"})
        std::ofstream(directory() + "/" + name) << "old\n";
    std::ofstream(directory() + "/nvidia-cuda-mps-control.pid") << ::getpid();  // another process has this pid now
    ASSERT_EQ(::mkfifo((directory() + "/log").c_str(), 0600), 0);
    ASSERT_TRUE(started());
    EXPECT_FALSE(has("log"));
    EXPECT_TRUE(has("notes"));
    EXPECT_EQ(log(), "old\ndevices GPU-1234\nquit\n");
}

TEST_F(MpsTest, TwoDoNotShareADirectory) {
    control_is(kGood);
    const auto mps = started();
    ASSERT_TRUE(mps);
    const auto second = start();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error(), "another service runs MPS in " + directory());
    EXPECT_EQ(mps->why_gone(), "");
}

TEST_F(MpsTest, OneThatNeverComesUpIsAnError) {
    control_is(
        "mkfifo $CUDA_MPS_PIPE_DIRECTORY/never; echo $$ >$CUDA_MPS_LOG_DIRECTORY/pid; read x "
        "<$CUDA_MPS_PIPE_DIRECTORY/never");
    const auto mps = start({.start = milliseconds(300)});
    ASSERT_FALSE(mps);
    EXPECT_EQ(mps.error(), "MPS did not start: see " + directory() + "/control.log");
    EXPECT_FALSE(has("never"));
    int pid = -1;
    if (std::ifstream(directory() + "/pid") >> pid) {
        EXPECT_NE(::kill(pid, 0), 0);
    }
}

TEST_F(MpsTest, OneThatEndsAtOnceSaysWhy) {
    control_is("echo no such device >&2; echo; exit 7");
    auto mps = start();
    ASSERT_FALSE(mps);
    EXPECT_EQ(mps.error(), "MPS ended with status 7: no such device");
    control_is("kill -9 $$");
    mps = start();
    ASSERT_FALSE(mps);
    EXPECT_EQ(mps.error(), "MPS was ended by signal 9");
}

TEST_F(MpsTest, OneThatCannotBeExecutedIsAnError) {
    program_is("#!/no/such/shell\n");
    const auto mps = start();
    ASSERT_FALSE(mps);
    EXPECT_TRUE(mps.error().starts_with("cannot execute ")) << mps.error();
    EXPECT_TRUE(mps.error().ends_with("/nvidia-cuda-mps-control: No such file or directory")) << mps.error();
}

TEST_F(MpsTest, AMissingProgramIsAnError) {
    for (const char* place : {"/usr/bin/", "/usr/local/nvidia/bin/"}) {
        if (fs::exists(std::string(place) + "nvidia-cuda-mps-control")) GTEST_SKIP() << "this machine has MPS";
    }
    ::setenv("PATH", (root_ + "/none::relative:").c_str(), 1);
    const auto mps = start();
    ASSERT_FALSE(mps);
    EXPECT_EQ(mps.error(), "MPS cannot be started: there is no nvidia-cuda-mps-control");
}

TEST_F(MpsTest, ADirectoryThatCannotBeMadeIsAnError) {
    control_is(kGood);
    std::ofstream(root_ + "/state") << "a file";
    const auto mps = start();
    ASSERT_FALSE(mps);
    EXPECT_EQ(mps.error(), directory() + ": Not a directory");
}

TEST_F(MpsTest, OneThatDiesLaterIsNoticed) {
    control_is("come_up; next_command; echo fault in the server; exit 5");
    const auto mps = started();
    ASSERT_TRUE(mps);
    EXPECT_FALSE(readable(mps->pidfd()));
    std::ofstream(directory() + "/control") << "anything\n";
    ASSERT_TRUE(eventually([&] { return readable(mps->pidfd()); }));
    EXPECT_EQ(mps->why_gone(), "MPS ended with status 5: fault in the server");
    EXPECT_EQ(mps->why_gone(), "MPS ended with status 5: fault in the server");
    mps->stop();
    EXPECT_FALSE(has("control"));
}

/// Longer than anything here takes: a test that waited this long would fail.
constexpr Duration kTooLong = seconds(30);

TEST_F(MpsTest, OneThatDoesNotQuitIsTerminated) {
    control_is("come_up; while :; do next_command; done");
    const double begun = test::seconds_now();
    started({.quit = milliseconds(300), .terminate = kTooLong}).reset();
    EXPECT_LT(test::seconds_now() - begun, kTooLong.seconds());
    EXPECT_FALSE(has("control"));
}

TEST_F(MpsTest, WhenQuitCannotBeSaidItIsTerminatedAtOnce) {
    control_is(kGood);
    const auto mps = started({.quit = kTooLong});
    ASSERT_TRUE(mps);
    program_is("#!/bin/sh\nexit 1\n");
    const double begun = test::seconds_now();
    mps->stop();
    EXPECT_LT(test::seconds_now() - begun, kTooLong.seconds());
    EXPECT_EQ(log(), "devices GPU-1234\n");
}

TEST_F(MpsTest, AMessengerThatHangsIsEnded) {
    control_is(kGood);
    const auto mps = started({.quit = milliseconds(300)});
    ASSERT_TRUE(mps);
    program_is("#!/bin/sh\necho $$ >" + root_ + "/messenger\nmkfifo " + root_ + "/never\nread x <" + root_ + "/never\n");
    mps->stop();
    int pid = -1;
    if (std::ifstream(root_ + "/messenger") >> pid) {
        EXPECT_NE(::kill(pid, 0), 0);
    }
}

TEST_F(MpsTest, OneThatIgnoresEverythingIsKilledWithWhatItStarted) {
    control_is("trap '' TERM; mkfifo " + root_ + "/never; (read x <" + root_ + "/never) & echo $! >" + root_ +
               "/server; come_up; while :; do next_command; done");
    auto mps = started({.quit = milliseconds(300), .terminate = milliseconds(300)});
    ASSERT_TRUE(mps);
    int pid = -1;
    std::ifstream(root_ + "/server") >> pid;
    const os::Descriptor server = os::open_pidfd(pid);
    ASSERT_TRUE(server);
    const os::Descriptor daemon = os::open_pidfd(daemon_pid());
    mps.reset();
    EXPECT_TRUE(readable(daemon.get()));
    EXPECT_TRUE(eventually([&] { return readable(server.get()); }));
    EXPECT_FALSE(has("control"));
}

TEST_F(MpsTest, ItOutlivesAServiceThatIsKilledAndTheNextTakesItOver) {
    control_is(kGood);
    const os::Descriptor daemon = left_by_a_killed_service();
    const int pid = daemon_pid();
    auto mps = started();
    ASSERT_TRUE(mps);
    EXPECT_FALSE(readable(daemon.get()));
    EXPECT_EQ(daemon_pid(), pid);
    EXPECT_EQ(mps->why_gone(), "");
    EXPECT_EQ(mps->directory(), directory());
    mps.reset();
    EXPECT_TRUE(readable(daemon.get()));
    EXPECT_EQ(log(), "devices GPU-1234\nquit\n");
    EXPECT_FALSE(has("control"));
}

TEST_F(MpsTest, OneThatWasTakenOverAndDiesIsNoticed) {
    control_is("come_up; next_command; echo no device >&2; exit 1");
    const os::Descriptor daemon = left_by_a_killed_service();
    const auto mps = started();
    ASSERT_TRUE(mps);
    os::send_signal(daemon.get(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return readable(mps->pidfd()); }));
    EXPECT_EQ(mps->why_gone(), "MPS has ended");
    mps->stop();
    EXPECT_FALSE(has("control"));
}

TEST_F(MpsTest, OneThatWasTakenOverAndIgnoresEverythingIsKilled) {
    control_is("trap '' TERM; come_up; while :; do next_command; done");
    const os::Descriptor daemon = left_by_a_killed_service();
    auto mps = started({.quit = milliseconds(100), .terminate = milliseconds(100)});
    ASSERT_TRUE(mps);
    mps->stop();
    EXPECT_TRUE(eventually([&] { return readable(daemon.get()); }));
}

TEST_F(MpsTest, OneThatIsLeftWithAnotherGpuMakesWayForTheNext) {
    control_is("trap '' TERM; come_up; while :; do next_command; [ $command != quit ] || exit 0; done");
    const os::Descriptor daemon = left_by_a_killed_service();
    EXPECT_FALSE(readable(daemon.get()));
    const auto mps = Mps::start(directory(), "GPU-5678", {.terminate = milliseconds(300)});
    EXPECT_TRUE(readable(daemon.get()));
    ASSERT_TRUE(mps) << mps.error();
    EXPECT_EQ(mps.value()->why_gone(), "");
}

TEST_F(MpsTest, OneThatWasToldToQuitIsNotTakenOver) {
    control_is("trap '' TERM; come_up; while :; do next_command; [ $command != quit ] || exit 0; done");
    const os::Descriptor daemon = left_by_a_killed_service();
    std::ofstream(directory() + "/daemon.pid") << daemon_pid() << " quits\n";
    const auto mps = started({.terminate = milliseconds(300)});
    EXPECT_TRUE(readable(daemon.get()));
    ASSERT_TRUE(mps);
    EXPECT_EQ(mps->why_gone(), "");
}

TEST_F(MpsTest, OneThatIsLeftIsFoundAlsoByAServiceThatWantsNone) {
    control_is(kGood);
    EXPECT_FALSE(Mps::find(directory(), "GPU-1234"));
    const os::Descriptor daemon = left_by_a_killed_service();
    EXPECT_FALSE(Mps::find(directory(), "GPU-5678"));
    EXPECT_FALSE(readable(daemon.get()));
    auto mps = Mps::find(directory(), "GPU-1234");
    ASSERT_TRUE(mps);
    EXPECT_FALSE(readable(daemon.get()));
    mps.reset();
    EXPECT_TRUE(readable(daemon.get()));
    EXPECT_FALSE(has("control") || has("daemon.pid"));
    EXPECT_FALSE(Mps::find(directory(), "GPU-1234"));
}

TEST_F(MpsTest, ADirectoryTooLongForASocketHasItsPipesElsewhere) {
    control_is(kGood);
    const std::string longest(107 - std::string("/control_privileged").size() - root_.size() - 1, 'd');
    for (const bool fits : {true, false}) {
        const std::string directory = root_ + "/" + longest + (fits ? "" : "d");
        auto mps = Mps::start(directory, "GPU-1234");
        ASSERT_TRUE(mps) << mps.error();
        const std::string pipes = mps.value()->directory();
        EXPECT_EQ(pipes == directory, fits);
        EXPECT_TRUE(fs::exists(pipes + "/control"));
        EXPECT_EQ(fs::status(pipes).permissions(), fs::perms::owner_all);
        mps.value().reset();
        EXPECT_EQ(fs::exists(pipes), fits);
        EXPECT_FALSE(fs::exists(fs::symlink_status(directory + "/pipes")));
        EXPECT_EQ(text_of(directory + "/control.log"), "devices GPU-1234\nquit\n");
    }
}

}  // namespace
}  // namespace salus::service
