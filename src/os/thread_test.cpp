#include "os/thread.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "os/clock.h"

namespace salus::os {
namespace {

TEST(ThreadFacts, OneThatSpinsRunsAndOneThatSleepsDoesNot) {
    std::atomic<int> number{0};
    std::atomic<bool> stop{false};
    std::atomic<bool> spin{true};
    std::thread thread([&] {
        number = this_thread();
        while (spin) {}
        while (!stop) sleep_for(milliseconds(50));
    });
    while (number == 0) sleep_for(milliseconds(1));
    EXPECT_NE(number, this_thread());
    EXPECT_TRUE(thread_runs(number));
    const std::uint64_t before = cpu_ns_of_thread(number);
    for (int i = 0; i < 6000 && cpu_ns_of_thread(number) == before; ++i) sleep_for(milliseconds(10));
    EXPECT_GT(cpu_ns_of_thread(number), before);
    const auto count = count_threads();
    ASSERT_TRUE(count.has_value());
    EXPECT_GE(*count, 2u);
    spin = false;
    bool slept = false;
    for (int i = 0; i < 6000 && !slept; ++i, sleep_for(milliseconds(10))) slept = !thread_runs(number);
    EXPECT_TRUE(slept);
    stop = true;
    thread.join();
    bool gone = false;  // a moment after it was joined
    for (int i = 0; i < 6000 && !gone; ++i, sleep_for(milliseconds(10))) gone = cpu_ns_of_thread(number) == 0;
    EXPECT_TRUE(gone);
    EXPECT_FALSE(thread_runs(number));
}

}  // namespace
}  // namespace salus::os
