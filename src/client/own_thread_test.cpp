#include "client/own_thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

std::atomic<bool> may_end{false};

void* wait_for_the_end(void*) {
    while (!may_end) ::usleep(1000);
    return nullptr;
}

TEST(OwnThread, IsJoinedOnce) {
    OwnThread thread;
    EXPECT_FALSE(thread.is_there());
    thread.join();
    may_end = false;
    ASSERT_TRUE(thread.start(wait_for_the_end, nullptr));
    EXPECT_TRUE(thread.is_there());
    may_end = true;
    thread.join();
    EXPECT_FALSE(thread.is_there());
    thread.join();
}

TEST(OwnThread, TakesNoSignals) {
    OwnThread thread;
    sigset_t mask;
    const auto look = [](void* seen) -> void* {
        ::pthread_sigmask(SIG_SETMASK, nullptr, static_cast<sigset_t*>(seen));
        return nullptr;
    };
    ASSERT_TRUE(thread.start(look, &mask));
    thread.join();
    EXPECT_TRUE(::sigismember(&mask, SIGINT));
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_FALSE(::sigismember(&mask, SIGINT));
}

TEST(OwnThread, IsNotThereInAChild) {
    OwnThread thread;
    may_end = false;
    ASSERT_TRUE(thread.start(wait_for_the_end, nullptr));
    const pid_t child = ::fork();
    if (child == 0) {
        thread.forget();
        thread.join();  // there is no thread
        ::_exit(thread.is_there() ? 1 : 0);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(thread.is_there());
    may_end = true;
    thread.join();
}

}  // namespace
}  // namespace salus::client
