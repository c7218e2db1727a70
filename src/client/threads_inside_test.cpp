#include "client/threads_inside.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace salus::client {
namespace {

using std::chrono::milliseconds;

/// Looks, waits a little, looks again.
bool rest(const ThreadsInside& threads) {
    ThreadsInside::Watch watch(threads);
    EXPECT_FALSE(watch.rest());  // there is no earlier look to compare with
    std::this_thread::sleep_for(milliseconds(5));
    return watch.rest();
}

TEST(ThreadsInside, OneThatSleepsRestsAndOneThatComputesDoesNot) {
    ThreadsInside threads;
    std::atomic<bool> computes{true}, ends{false}, inside{false};
    std::thread other([&] {
        const int place = threads.enter();
        inside = true;
        while (computes) {}
        while (!ends) std::this_thread::sleep_for(milliseconds(200));
        threads.leave(place);
    });
    while (!inside) std::this_thread::yield();
    EXPECT_FALSE(rest(threads));
    computes = false;
    bool rested = false;
    for (int i = 0; i < 1000 && !rested; ++i) rested = rest(threads);
    EXPECT_TRUE(rested);
    ends = true;
    other.join();
}

TEST(ThreadsInside, NobodyRests) {
    const ThreadsInside threads;
    EXPECT_TRUE(rest(threads));
}

TEST(ThreadsInside, WhoComesInBetweenHasDoneSomething) {
    ThreadsInside threads;
    ThreadsInside::Watch watch(threads);
    EXPECT_FALSE(watch.rest());
    const int place = threads.enter();
    EXPECT_FALSE(watch.rest());
    threads.leave(place);
}

TEST(ThreadsInside, BeyondItsPlacesThreadsAreNotNoted) {
    ThreadsInside threads;
    for (std::size_t i = 0; i < ThreadsInside::kPlaces; ++i) EXPECT_EQ(threads.enter(), static_cast<int>(i));
    EXPECT_EQ(threads.enter(), -1);
    threads.leave(5);
    EXPECT_EQ(threads.enter(), 5);
}

}  // namespace
}  // namespace salus::client
