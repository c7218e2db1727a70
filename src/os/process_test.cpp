#include "os/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "os/clock.h"
#include "os/poll.h"

namespace salus::os {
namespace {

constexpr int kNobody = 1 << 22;  // the kernel gives no larger numbers than those below

/// A child that does nothing until it is killed.
class Sleeper {
public:
    Sleeper() : pid_(::fork()) {
        if (pid_ == 0) {
            for (;;) ::pause();
        }
    }
    ~Sleeper() { end(); }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    int pid() const { return pid_; }

private:
    pid_t pid_;
};

TEST(Process, IsAUsers) {
    EXPECT_EQ(user_of(::getpid()), ::geteuid());
    EXPECT_EQ(user_of(1), 0u);
    EXPECT_FALSE(user_of(kNobody));
}

TEST(Process, IsKnownByItsNumberAndStart) {
    const Sleeper child;
    const auto mine = start_time_of(::getpid());
    const auto its = start_time_of(child.pid());
    ASSERT_TRUE(mine && its);
    EXPECT_LE(*mine, *its);
    EXPECT_EQ(parent_of(child.pid()), ::getpid());
    EXPECT_TRUE(cpu_time_of(::getpid()).value_or(Duration{}) > Duration{});
    EXPECT_FALSE(start_time_of(kNobody));
    EXPECT_FALSE(cpu_time_of(kNobody));
    EXPECT_EQ(parent_of(kNobody), 0);
    EXPECT_TRUE(has_ended(kNobody));
    EXPECT_FALSE(is_stopped(kNobody));
    EXPECT_FALSE(is_busy(kNobody));
    EXPECT_TRUE(is_busy(::getpid()));
    EXPECT_FALSE(open_pidfd(kNobody));
}

TEST(Process, StopsGoesOnAndEndsBySignals) {
    Sleeper child;
    const Descriptor pidfd = open_pidfd(child.pid());
    ASSERT_TRUE(pidfd);
    const auto becomes = [&](bool stopped) {
        for (int i = 0; i < 6000 && is_stopped(child.pid()) != stopped; ++i) sleep_for(milliseconds(10));
        return is_stopped(child.pid()) == stopped;
    };
    EXPECT_FALSE(is_stopped(child.pid()));
    for (int i = 0; i < 6000 && is_busy(child.pid()); ++i) sleep_for(milliseconds(10));
    EXPECT_FALSE(is_busy(child.pid())) << "it sleeps";
    EXPECT_TRUE(send_signal(pidfd.get(), SIGSTOP));
    EXPECT_TRUE(becomes(true));
    EXPECT_TRUE(send_signal(pidfd.get(), SIGCONT));
    EXPECT_TRUE(becomes(false));
    EXPECT_FALSE(readable_within(pidfd.get(), Duration{}));
    EXPECT_FALSE(has_ended(child.pid()));
    EXPECT_TRUE(send_signal(pidfd.get(), SIGKILL));
    EXPECT_TRUE(readable_within(pidfd.get(), seconds(60)));
    EXPECT_TRUE(has_ended(child.pid())) << "nobody has read its status yet";
    child.end();
    EXPECT_FALSE(send_signal(pidfd.get(), SIGKILL));
}

TEST(Process, TheChildAboveAnotherIsFound) {
    const Sleeper child;
    const ChildProcess found = child_above(child.pid(), ::getpid());
    EXPECT_EQ(found.pid, child.pid());
    EXPECT_TRUE(found.pidfd);
    EXPECT_EQ(child_above(child.pid(), kNobody).pid, 0);
    EXPECT_EQ(child_above(::getpid(), ::getpid()).pid, 0);
}

TEST(Process, HasTheVariablesItWasStartedWith) {
    std::ifstream environment("/proc/self/environ");
    std::string first;
    ASSERT_TRUE(std::getline(environment, first, '\0'));
    EXPECT_TRUE(was_started_with(::getpid(), first));
    EXPECT_FALSE(was_started_with(::getpid(), first + "x"));
    EXPECT_FALSE(was_started_with(kNobody, first));
}

}  // namespace
}  // namespace salus::os
