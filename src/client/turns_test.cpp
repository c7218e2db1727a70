// Waiting between the steps of a turn; the steps themselves are tested in attachment_test.cpp.
#include "client/turns.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>

#include <gtest/gtest.h>

#include "client/service_fixture.h"

namespace salus::client::test {
namespace {

using control::State;

class TurnsTest : public ::testing::Test {
protected:
    using Entry = Turns::Entry;

    Entry begin(const Waiting& waiting = {[] { return false; }}) { return turns_.begin(waiting); }
    /// Another thread begins.
    std::future<Entry> begin_elsewhere(const Waiting& waiting = {[] { return false; }}) {
        return std::async(std::launch::async, [this, waiting] { return begin(waiting); });
    }
    /// Inside an iteration, with a grant.
    void enter() {
        std::future<Entry> entry = begin_elsewhere();
        ASSERT_TRUE(grant(page_));
        ASSERT_EQ(entry.get(), Entry::kNewTurn);
    }
    bool end(bool clean = true, Turns::Count count = {}, bool asynchronous = false) {
        return turns_.end(
            asynchronous, count, [&] { return ++tidied_, clean; }, [this] { ++drained_; });
    }
    State state() const { return turns_.word().state; }
    bool waits() {
        return eventually([&] { return turns_.word().want; });
    }

    ControlPage page_;
    std::atomic<int> notified_{0};
    int tidied_ = 0;
    int drained_ = 0;
    Turns turns_{page_, [this] { ++notified_; }};
};

TEST_F(TurnsTest, WhoOnlyTriesTellsNobody) {
    EXPECT_FALSE(turns_.try_begin());
    EXPECT_EQ(page_.word, 0u);
    EXPECT_EQ(notified_, 0);
    enter();
    EXPECT_EQ(turns_.try_begin(), Entry::kJoined);
}

TEST_F(TurnsTest, WaitsForAGrantAndKeepsItWhileNobodyWantsItBack) {
    std::future<Entry> entry = begin_elsewhere();
    ASSERT_TRUE(waits());
    EXPECT_TRUE(eventually([&] { return notified_ == 1; }));
    ASSERT_TRUE(grant(page_));
    EXPECT_EQ(entry.get(), Entry::kNewTurn);
    EXPECT_GT(turns_.waited_ns(), 0u);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(end());
        EXPECT_EQ(state(), State::kIdle);
        EXPECT_EQ(begin(), Entry::kJoined);
    }
    EXPECT_EQ(turns_.turns(), 1u);
    EXPECT_EQ(tidied_, 3);
    EXPECT_EQ(page_.iterations, 3u);
    EXPECT_EQ(notified_, 1) << "one wish, and nothing else to tell";
}

// A waiting thread looks again every 200 ms anyway. If grants wake it, the fastest of several is much faster.
TEST_F(TurnsTest, AGrantWakesWhoWaits) {
    std::uint64_t fastest = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < 5; ++i) {
        std::future<Entry> entry = begin_elsewhere();
        ASSERT_TRUE(waits());
        os::sleep_for(salus::milliseconds(2));  // it sleeps by now
        const std::uint64_t granted = os::now_ns();
        ASSERT_TRUE(grant(page_));
        ASSERT_EQ(entry.get(), Entry::kNewTurn);
        fastest = std::min(fastest, os::now_ns() - granted);
        take_back(page_);
        ASSERT_TRUE(end());
    }
    EXPECT_LT(fastest, 100'000'000u);
}

TEST_F(TurnsTest, TheEndOfABoundaryWakesWhoCameDuringIt) {
    std::uint64_t fastest = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < 5; ++i) {
        enter();
        std::future<Entry> second;
        std::uint64_t settled = 0;
        const auto tidy = [&] {
            second = begin_elsewhere();
            EXPECT_TRUE(waits());
            os::sleep_for(salus::milliseconds(2));
            settled = os::now_ns();
            return true;
        };
        ASSERT_TRUE(turns_.end(false, {}, tidy, [] {}));
        ASSERT_EQ(second.get(), Entry::kJoined) << "with the grant that was kept";
        fastest = std::min(fastest, os::now_ns() - settled);
        take_back(page_);
        ASSERT_TRUE(end());
        ASSERT_EQ(state(), State::kFree);
    }
    EXPECT_LT(fastest, 100'000'000u);
}

TEST_F(TurnsTest, AGrantThatIsWantedBackGoesAtTheBoundary) {
    enter();
    const int before = notified_;
    EXPECT_EQ(take_back(page_), control::TakeBack::Outcome::kAtBoundary);
    EXPECT_TRUE(end());
    EXPECT_EQ(state(), State::kFree);
    EXPECT_FALSE(turns_.word().yield);
    EXPECT_EQ(notified_, before + 1);
    EXPECT_EQ(drained_, 0) << "nothing is in flight";
}

TEST_F(TurnsTest, TheDeviceIsWaitedForOnlyIfTheGrantGoes) {
    enter();
    EXPECT_TRUE(end(true, {}, /*asynchronous=*/true));
    EXPECT_EQ(drained_, 0);
    EXPECT_FALSE(turns_.word().drained);
    begin();
    take_back(page_);
    EXPECT_TRUE(end(true, {}, /*asynchronous=*/true));
    EXPECT_EQ(drained_, 1);
    EXPECT_EQ(state(), State::kFree);
}

TEST_F(TurnsTest, ALaneThatIsNotCleanKeepsTheGrant) {
    enter();
    const int before = notified_;
    take_back(page_);
    EXPECT_TRUE(end(/*clean=*/false));
    EXPECT_TRUE(turns_.word().kept);
    EXPECT_EQ(notified_, before);
    EXPECT_EQ(begin(), Entry::kJoined) << "it is no new turn";
    EXPECT_TRUE(end());
    EXPECT_EQ(state(), State::kFree);
}

TEST_F(TurnsTest, IterationsCountWhenTheLastThreadLeavesOrAtOnceIfTheyAreItsOwn) {
    enter();
    ASSERT_EQ(begin(), Entry::kJoined);
    ASSERT_EQ(begin(), Entry::kJoined);
    EXPECT_TRUE(end(true, {.iterations = 5}));
    EXPECT_EQ(page_.iterations, 0u);
    EXPECT_TRUE(end(true, {.iterations = 2, .own = true}));
    EXPECT_EQ(page_.iterations, 2u);
    EXPECT_EQ(tidied_, 0);
    EXPECT_TRUE(end(true, {.iterations = 1}));
    EXPECT_EQ(page_.iterations, 3u);
    EXPECT_EQ(tidied_, 1);
}

TEST_F(TurnsTest, AnEndWithoutABeginChangesNothing) {
    EXPECT_FALSE(end());
    EXPECT_EQ(tidied_, 0);
    EXPECT_EQ(page_.word, 0u);
    EXPECT_EQ(page_.iterations, 0u);
}

TEST_F(TurnsTest, WhenTimeIsUpTheWishStands) {
    const Waiting for_ever{[] { return false; }};
    EXPECT_EQ(turns_.begin(for_ever, 1'000'000), Entry::kWaiting);
    EXPECT_TRUE(turns_.word().want);
    EXPECT_GE(turns_.waited_ns(), 1'000'000u);
    EXPECT_EQ(turns_.begin(for_ever, 0), Entry::kWaiting);
    EXPECT_EQ(notified_, 1) << "the service knows";
    ASSERT_TRUE(grant(page_));
    EXPECT_EQ(turns_.begin(for_ever, 0), Entry::kNewTurn);
}

TEST_F(TurnsTest, ASignalEndsAWaitThatHasALimitAndNoOther) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    constexpr std::uint64_t kAnHour = 3'600'000'000'000;
    for (const std::uint64_t limit : {kAnHour, Turns::kForEver}) {
        std::atomic<pthread_t> waiter{};
        std::future<Entry> entry = std::async(std::launch::async, [&] {
            waiter = ::pthread_self();
            return turns_.begin({[] { return false; }}, limit);
        });
        ASSERT_TRUE(eventually([&] { return waiter != pthread_t{}; }) && waits());
        const auto signal_until_it_ends = [&](int most) {
            for (int i = 0; i < most; ++i) {  // the waiter may not sleep yet
                ::pthread_kill(waiter, SIGUSR1);
                if (entry.wait_for(std::chrono::milliseconds(2)) == std::future_status::ready) return true;
            }
            return false;
        };
        EXPECT_EQ(signal_until_it_ends(limit == kAnHour ? 10'000 : 10), limit == kAnHour);
        if (limit == Turns::kForEver) grant(page_);
        EXPECT_EQ(entry.get(), limit == kAnHour ? Entry::kWaiting : Entry::kNewTurn);
    }
    ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(TurnsTest, WhoIsToGiveUpStopsWaiting) {
    std::atomic<bool> give_up{false};
    std::future<Entry> entry = begin_elsewhere({[&] { return give_up.load(); }});
    ASSERT_TRUE(waits());
    give_up = true;
    EXPECT_EQ(entry.get(), Entry::kGivenUp);
}

// See Note [Threads that wait for each other].
TEST_F(TurnsTest, BehindAGrantThatIsWantedBackThreadsWaitUnlessTheyInsist) {
    enter();
    take_back(page_);
    EXPECT_EQ(turns_.begin({[] { return false; }}, 0), Entry::kWaiting);
    std::atomic<int> asked{0};
    std::future<Entry> entry = begin_elsewhere({[] { return false; }, [&] { return ++asked == 3; }});
    EXPECT_EQ(entry.get(), Entry::kJoined);
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(turns_.word().inside, 2u);
    const std::uint64_t long_ago = os::now_ns() - 6'000'000'000;
    EXPECT_EQ(turns_.begin({[] { return false; }}, Turns::kForEver, long_ago), Entry::kJoined) << "it has waited for 6 s";
    EXPECT_EQ(turns_.word().inside, 3u);
}

TEST_F(TurnsTest, ARevokedGrantIsAcknowledgedAndToldOnce) {
    enter();
    ASSERT_TRUE(end(true, {}, /*asynchronous=*/true));
    const int before = notified_;
    EXPECT_EQ(take_back(page_), control::TakeBack::Outcome::kHelperDrains);
    EXPECT_FALSE(turns_.withdraw());
    turns_.acknowledge();
    turns_.acknowledge();
    EXPECT_EQ(notified_, before + 1);
    EXPECT_TRUE(turns_.withdraw());
}

TEST_F(TurnsTest, TheTimeInWhichTheDeviceWorksOnIsThatOfTheTurn) {
    for (const bool device_worked : {false, true}) {
        enter();
        ASSERT_TRUE(end(true, {}, /*asynchronous=*/true));
        const std::uint64_t busy = page_.busy_ns, ended = page_.ended_ns;
        ASSERT_EQ(take_back(page_), control::TakeBack::Outcome::kHelperDrains);
        os::sleep_for(Duration{2'000'000});
        turns_.acknowledge(device_worked);
        EXPECT_EQ(page_.busy_ns - busy, page_.ended_ns - ended);
        EXPECT_EQ(page_.busy_ns - busy >= 2'000'000, device_worked);
    }
    enter();
    ASSERT_TRUE(end(true, {}, /*asynchronous=*/true));
    const std::uint64_t busy = page_.busy_ns;
    turns_.acknowledge(true);
    EXPECT_EQ(page_.busy_ns, busy) << "a late revoke takes nothing, and adds nothing";
}

}  // namespace
}  // namespace salus::client::test
