#include "os/futex.h"

#include <thread>

#include <gtest/gtest.h>

#include "os/clock.h"

namespace salus::os {
namespace {

TEST(Futex, AWordThatHasChangedIsNotWaitedFor) {
    std::atomic<std::uint64_t> word{1};
    const Instant before = now();
    EXPECT_TRUE(wait_on(word, 2, seconds(60)));
    EXPECT_LT(now() - before, seconds(30));
}

TEST(Futex, TheHighHalfIsNotLookedAt) {
    std::atomic<std::uint64_t> word{std::uint64_t{7} << 32 | 1};
    const Instant before = now();
    EXPECT_TRUE(wait_on(word, 1, milliseconds(5)));
    EXPECT_GE(now() - before, milliseconds(5));
}

TEST(Futex, WhoWaitsIsWoken) {
    std::atomic<std::uint64_t> word{0};
    std::thread waiter([&] {
        while (word.load() == 0) wait_on(word, 0, seconds(60));
    });
    sleep_for(milliseconds(5));
    const Instant before = now();
    word = 1;
    wake_all(word);
    waiter.join();
    EXPECT_LT(now() - before, seconds(30));
}

}  // namespace
}  // namespace salus::os
