#include "client/use_marks.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/gate_fixture.h"

namespace salus::client {
namespace {

constexpr Duration kMoment = salus::milliseconds(5);
constexpr Duration kLong = salus::seconds(30);

TEST(UseMarks, AreWaitedForUntilTheLastUseEnds) {
    test::Gate gate;
    std::jthread user([&] {
        begin_use();
        begin_use();
        end_use();
        gate.pass();
        end_use();
    });
    gate.wait_until_reached();
    EXPECT_FALSE(wait_for_users(kMoment));
    const auto waits = std::async(std::launch::async, [] { return wait_for_users(kLong); });
    gate.open();
    EXPECT_EQ(waits.wait_for(std::chrono::nanoseconds(kLong.ns)), std::future_status::ready);
}

TEST(UseMarks, OfTheCallerAndOfThreadsThatHaveEndedCountForNothing) {
    std::jthread([] { begin_use(); }).join();
    begin_use();
    EXPECT_TRUE(wait_for_users(kMoment));
    end_use();
}

// Of the objects of a thread, the first ones end last: they may destroy a stream, for example.
TEST(UseMarks, OfThreadsThatUseTheClientWhenTheyEndGoBack) {
    struct UsesItAtTheEnd {
        bool is_due = false;
        ~UsesItAtTheEnd() {
            begin_use();
            end_use();
        }
    };
    const auto run_a_thread = [] {
        std::jthread([] {
            thread_local UsesItAtTheEnd first;
            first.is_due = true;
            begin_use();
            end_use();
        });
    };
    run_a_thread();
    const std::size_t before = count_use_marks();
    for (int i = 0; i < 10; ++i) run_a_thread();
    EXPECT_EQ(count_use_marks(), before);
}

TEST(UseMarks, OfThreadsThatAChildDoesNotHaveCountForNothing) {
    test::Gate gate;
    std::jthread user([&] {
        begin_use();
        gate.pass();
        end_use();
    });
    gate.wait_until_reached();
    EXPECT_TRUE(test::in_a_child([] {
        forget_other_users();
        return wait_for_users(kMoment);
    }));
    gate.open();
}

TEST(UseMarks, KeepWhatThreadsMayHaveFound) {
    constexpr int kAlive = 42, kRounds = 100;
    std::atomic<std::atomic<int>*> found{nullptr};
    std::atomic<bool> ends{false};
    std::vector<std::jthread> users;
    for (int i = 0; i < 3; ++i) {
        users.emplace_back([&] {
            while (!ends) {
                begin_use();
                const std::atomic<int>* const there = found.load(std::memory_order_acquire);
                EXPECT_TRUE(!there || *there == kAlive);
                end_use();
            }
        });
    }
    for (int i = 0; i < kRounds; ++i) {
        const auto one = std::make_unique<std::atomic<int>>(kAlive);
        found = one.get();
        std::this_thread::yield();
        found = nullptr;
        ASSERT_TRUE(wait_for_users(kLong));
        *one = 0;
    }
    ends = true;
}

}  // namespace
}  // namespace salus::client
