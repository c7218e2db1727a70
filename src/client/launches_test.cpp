#include "client/launches.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "os/clock.h"

namespace salus::client {
namespace {

using device::Stream;

/// A client and its service in one: grants the turn when the test says so.
class OneTurn : public LaunchTurns {
public:
    Entered enter_iteration() override {
        std::unique_lock lock(mutex_);
        ++waiting;
        changed_.notify_all();
        changed_.wait(lock, [&] { return granted_ || without_; });
        --waiting;
        if (!granted_) return Entered::kWithout;
        ++inside_;
        return Entered::kYes;
    }
    void leave_iteration() override {
        const std::lock_guard lock(mutex_);
        EXPECT_GT(inside_, 0);
        if (--inside_ > 0) return;
        ++boundaries;
        if (!wanted_back) return;
        EXPECT_EQ(in_driver.load(), 0) << "the turn went back while a thread launched";
        granted_ = false;
        wanted_back = false;
        changed_.notify_all();
    }
    bool is_wanted_back() const override { return wanted_back; }
    void wish() override { ++wishes; }
    void show(std::uint64_t launches) override { shown = launches; }
    bool has_company() const override { return true; }
    bool captures(Stream stream) override { return capturing == stream; }
    void launches_on(Stream stream) override {
        const std::lock_guard lock(mutex_);
        noted.push_back(stream);
    }
    bool mark() override {
        ++marks;
        return markable;
    }
    bool passed() override { return done; }
    void keep_pace(Stream) override { ++paced; }

    void grant() {
        const std::lock_guard lock(mutex_);
        granted_ = true;
        changed_.notify_all();
    }
    void let_go_without() {
        const std::lock_guard lock(mutex_);
        without_ = true;
        changed_.notify_all();
    }
    bool has_turn() {
        const std::lock_guard lock(mutex_);
        return granted_;
    }
    bool is_inside() {
        const std::lock_guard lock(mutex_);
        return inside_ > 0;
    }
    /// Within some seconds.
    template <typename Condition>
    static bool comes_true(const Condition& condition) {
        for (int i = 0; i < 5000 && !condition(); ++i) os::sleep_for(milliseconds(1));
        return condition();
    }

    std::atomic<bool> wanted_back{false}, done{true}, markable{true};
    std::atomic<Stream> capturing{99};
    std::atomic<std::uint64_t> shown{0};  ///< launches
    std::atomic<int> waiting{0}, boundaries{0}, marks{0}, in_driver{0}, paced{0}, wishes{0};
    std::vector<Stream> noted;

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool granted_ = false, without_ = false;
    int inside_ = 0;
};

void launch(Launches& launches, Stream stream) {
    launches.begin(stream);
    launches.end();
}

TEST(Launches, ManyThreadsMayStopAtOnce) {
    for (int round = 0; round < 20; ++round) {
        OneTurn turn;
        Launches launches(turn);
        turn.grant();
        launch(launches, 1);
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) threads.emplace_back([&] { launches.stop(); });
        launch(launches, 1);
    }
}

TEST(Launches, TheFirstWaitsForTheTurnAndTheNextDoNot) {
    OneTurn turn;
    Launches launches(turn);
    turn.done = false;
    std::atomic<bool> launched = false;
    std::thread thread([&] {
        launches.begin(1);
        launched = true;
        launches.end();
        launch(launches, 1);
    });
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.waiting == 1; }));
    EXPECT_FALSE(launched);
    turn.grant();
    thread.join();
    EXPECT_TRUE(turn.is_inside()) << "the turn is open while work is in flight";
    EXPECT_EQ(turn.boundaries, 0);
    EXPECT_EQ(launches.count(), 2u);
}

/// Its stream was destroyed, or a kernel has failed: no mark will pass, and the program launches no more.
TEST(Launches, ATurnThatIsWantedBackEndsThoughNoMarkPasses) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    turn.done = false;
    launch(launches, 1);
    os::sleep_for(milliseconds(100));
    EXPECT_EQ(turn.boundaries, 0) << "nobody wants it";
    EXPECT_EQ(turn.shown, 1u) << "while the turn is on";
    turn.wanted_back = true;
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.boundaries == 1; }));
    EXPECT_FALSE(turn.has_turn());
}

TEST(Launches, WhatACaptureKeepsFromBeingMarkedIsMarkedAfterIt) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    turn.markable = false;
    launch(launches, 1);
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.marks > 3; }));
    EXPECT_EQ(turn.boundaries, 0);
    turn.markable = true;
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.boundaries == 1; }));
}

TEST(Launches, ATurnEndsWhenTheDeviceHasNothingLeftToDo) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    turn.done = false;
    launch(launches, 1);
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.marks > 0; })) << "it is marked when no launch comes";
    os::sleep_for(milliseconds(5));
    EXPECT_TRUE(turn.is_inside());
    turn.done = true;
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.boundaries == 1; }));
    EXPECT_FALSE(turn.is_inside());
    launches.begin(1);  // the grant is still there
    launches.end();
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.boundaries == 2; }));
}

TEST(Launches, ALaunchThatTakesLongKeepsTheTurnOpen) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    launches.begin(1);
    os::sleep_for(milliseconds(20));
    EXPECT_TRUE(turn.is_inside()) << "the driver may wait for room in its queue";
    launches.end();
    EXPECT_TRUE(OneTurn::comes_true([&] { return !turn.is_inside(); }));
}

// On a busy machine the watcher may find the turn quiet for long before the launch comes, and end it: then once more.
TEST(Launches, ATurnThatIsWantedBackEndsAtTheNextLaunch) {
    int wishes = 0;
    for (int attempt = 0; attempt < 50 && wishes == 0; ++attempt) {
        OneTurn turn;
        Launches launches(turn);
        turn.grant();
        turn.done = false;
        launch(launches, 1);
        turn.wanted_back = true;
        std::thread thread([&] { launch(launches, 2); });
        EXPECT_TRUE(OneTurn::comes_true([&] { return turn.waiting == 1; }));
        EXPECT_EQ(turn.boundaries, 1);
        EXPECT_FALSE(turn.has_turn());
        turn.grant();
        thread.join();
        EXPECT_TRUE(turn.is_inside());
        wishes = turn.wishes;
    }
    EXPECT_EQ(wishes, 1) << "the next turn is decided with it in mind";
}

TEST(Launches, EveryStreamIsNotedOnceAfterEachMark) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    turn.done = false;
    for (const Stream stream : {Stream{1}, Stream{1}, Stream{2}, Stream{2}}) {
        launch(launches, stream);
    }
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.marks > 0; }));
    launch(launches, 2);
    EXPECT_EQ(turn.noted, (std::vector<Stream>{1, 2, 2}));
}

// It may even be where the first one was.
TEST(Launches, OfAnotherClientNoteTheirStreamsAnew) {
    OneTurn turn;
    turn.grant();
    std::optional<Launches> launches;
    for (int client = 0; client < 2; ++client) {
        launches.emplace(turn);
        launch(*launches, 1);
    }
    EXPECT_EQ(turn.noted, (std::vector<Stream>{1, 1}));
}

TEST(Launches, AreForgottenInAChild) {
    OneTurn turn;
    turn.grant();
    Launches launches(turn);
    launch(launches, 1);
    EXPECT_TRUE(test::in_a_child([&] {
        launches.forget();
        const int before = turn.boundaries;
        launches.stop();  // without the watcher, and without its turn
        return turn.boundaries == before;
    }));
}

TEST(Launches, WhatIsCapturedNeedsNoTurn) {
    OneTurn turn;
    Launches launches(turn);
    turn.capturing = 7;
    launch(launches, 7);
    EXPECT_EQ(turn.waiting, 0);
    EXPECT_FALSE(turn.is_inside());
}

TEST(Launches, OneThatMayNotWaitGoesAheadWithoutATurn) {
    OneTurn turn;
    Launches launches(turn);
    std::thread thread([&] { launch(launches, 1); });
    EXPECT_TRUE(OneTurn::comes_true([&] { return turn.waiting == 1; }));
    turn.let_go_without();
    thread.join();
    EXPECT_FALSE(turn.is_inside());
}

TEST(Launches, AfterTheStopNobodyWaits) {
    OneTurn turn;
    Launches launches(turn);
    turn.grant();
    turn.done = false;
    launch(launches, 1);
    launches.stop();
    EXPECT_FALSE(turn.is_inside());
    turn.wanted_back = true;
    launch(launches, 1);
    EXPECT_FALSE(turn.is_inside());
}

// Threads launch all the time, while the turn is taken away again and again: it never goes while one of them launches.
TEST(Launches, ThreadsThatLaunchAllTheTimeGiveTheTurnBack) {
    OneTurn turn;
    Launches launches(turn);
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (Stream stream = 1; stream <= 4; ++stream) {
        threads.emplace_back([&, stream] {
            while (!stop) {
                launches.begin(stream);
                const bool is_inside = turn.is_inside();
                EXPECT_TRUE(is_inside || stop) << "a launch without a turn";
                ++turn.in_driver;
                --turn.in_driver;
                launches.end();
            }
        });
    }
    for (int i = 0; i < 200; ++i) {
        turn.grant();
        EXPECT_TRUE(OneTurn::comes_true([&] { return turn.is_inside(); })) << "after " << i << " turns";
        turn.wanted_back = true;
        ASSERT_TRUE(OneTurn::comes_true([&] { return !turn.has_turn(); })) << "after " << i << " turns";
    }
    stop = true;
    turn.let_go_without();
    for (std::thread& thread : threads) thread.join();
    EXPECT_GE(turn.boundaries, 200);
}

}  // namespace
}  // namespace salus::client
