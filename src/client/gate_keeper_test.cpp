#include "client/gate_keeper.h"

#include <map>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "client/launches_wanted.h"

namespace salus::client {
namespace {

/// Remembers what it is told, and wants a gate before each fourth launch.
struct Streams : device::GatedStreams {
    bool prepare() override { return can; }
    unsigned pass(device::Stream stream, unsigned launches) override {
        passed[stream] += launches;
        return 4;
    }
    bool store_behind(std::span<const device::Stream> behind, std::atomic<std::uint32_t>& word,
                      std::uint32_t number) override {
        stored.push_back({{behind.begin(), behind.end()}, &word, number});
        return can_store;
    }
    void forget(device::Stream stream) override { passed.erase(stream); }

    struct Store {
        std::vector<device::Stream> streams;
        std::atomic<std::uint32_t>* word;
        std::uint32_t number;
    };
    bool can = true, can_store = true;
    std::map<device::Stream, unsigned> passed;
    std::vector<Store> stored;
};

struct GateKeeperTest : testing::Test {
    bool anything_in_flight() const {
        for (const RequestMark& mark : page.marks) {
            if (mark.in_flight()) return true;
        }
        return false;
    }
    GatePage page;
    Streams streams;
    GateKeeper keeper{page, &streams};
};

TEST_F(GateKeeperTest, PutsGatesInWhileArmedAndCountsEveryLaunch) {
    keeper.launch(1);
    EXPECT_TRUE(streams.passed.empty());
    keeper.arm(/*gates=*/true, /*requests=*/false);
    std::jthread([&] {  // a thread that has not launched before
        for (int i = 0; i < 9; ++i) keeper.launch(1);
        EXPECT_EQ(streams.passed[1], 9u) << "at the first, the fifth and the ninth";
        keeper.launch(2);
        EXPECT_EQ(streams.passed[2], 1u);
    })
        .join();
    keeper.arm(false, false);
    keeper.launch(3);
    EXPECT_EQ(streams.passed.count(3), 0u);
}

TEST_F(GateKeeperTest, WantsToHearOfLaunchesWhileItPutsGatesInOrMarksRequests) {
    const std::uint32_t before = launches_wanted;
    keeper.arm(/*gates=*/false, /*requests=*/false);
    EXPECT_EQ(launches_wanted, before);
    keeper.arm(true, false);
    EXPECT_EQ(launches_wanted, before + kWantedForGates);
    keeper.arm(true, true);
    keeper.arm(false, true);
    EXPECT_EQ(launches_wanted, before + kWantedForGates) << "of one client, however often it is armed";
    {
        GateKeeper other{page, &streams};
        other.arm(true, false);
        keeper.disarm();
        EXPECT_EQ(launches_wanted, before + kWantedForGates) << "the other one still does";
    }
    EXPECT_EQ(launches_wanted, before);
    streams.can = false;
    GateKeeper without{page, &streams};
    without.arm(true, true);
    EXPECT_EQ(launches_wanted, before);
}

TEST_F(GateKeeperTest, HasTheDeviceSayThatARequestIsDone) {
    EXPECT_FALSE(keeper.request_begins()) << "nobody wants to know";
    keeper.arm(false, /*requests=*/true);
    const auto request = keeper.request_begins();
    ASSERT_TRUE(request);
    for (const device::Stream stream : {5u, 6u, 6u, 7u, 5u}) keeper.launch(stream);
    keeper.request_ends(*request);
    ASSERT_EQ(streams.stored.size(), 1u);
    EXPECT_EQ(streams.stored[0].streams, (std::vector<device::Stream>{6, 7, 5})) << "behind all its launches";
    EXPECT_TRUE(anything_in_flight());
    *streams.stored[0].word = streams.stored[0].number;
    EXPECT_FALSE(anything_in_flight());
}

TEST_F(GateKeeperTest, EndsARequestAtOnceThatTheDeviceKnowsNothingOf) {
    keeper.arm(false, true);
    keeper.request_ends(*keeper.request_begins());
    EXPECT_TRUE(streams.stored.empty()) << "it has launched nothing";
    EXPECT_FALSE(anything_in_flight());
    streams.can_store = false;
    const auto request = keeper.request_begins();
    keeper.launch(1);
    keeper.request_ends(*request);
    EXPECT_FALSE(anything_in_flight());
}

TEST_F(GateKeeperTest, WaitsForTheLastOfManyStreams) {
    keeper.arm(false, true);
    const auto request = keeper.request_begins();
    for (device::Stream stream = 1; stream <= 20; ++stream) keeper.launch(stream);
    keeper.request_ends(*request);
    ASSERT_EQ(streams.stored.size(), 1u);
    EXPECT_EQ(streams.stored[0].streams, (std::vector<device::Stream>{13, 14, 15, 16, 17, 18, 19, 20}));
    const auto next = keeper.request_begins();
    keeper.launch(3);
    keeper.request_ends(*next);
    EXPECT_EQ(streams.stored[1].streams, std::vector<device::Stream>{3}) << "of this request alone";
}

TEST_F(GateKeeperTest, LeavesAStreamAloneThatHasEnded) {
    keeper.arm(false, true);
    const auto request = keeper.request_begins();
    keeper.launch(1);
    keeper.stream_ends(1);
    keeper.request_ends(*request);
    EXPECT_TRUE(streams.stored.empty());
    EXPECT_FALSE(anything_in_flight());
    const auto next = keeper.request_begins();
    keeper.launch(1);  // another stream of that name
    keeper.request_ends(*next);
    EXPECT_EQ(streams.stored.size(), 1u);
}

TEST_F(GateKeeperTest, LeavesStreamsAloneWhoseContextMayBeGone) {
    keeper.arm(false, true);
    const auto request = keeper.request_begins();
    keeper.launch(1);
    keeper.context_ended();
    keeper.request_ends(*request);
    EXPECT_TRUE(streams.stored.empty());
    EXPECT_FALSE(anything_in_flight());
}

TEST_F(GateKeeperTest, IsArmedWhileThreadsLaunchAndDestroyStreams) {
    std::atomic<bool> ends{false};
    std::jthread program([&] {
        while (!ends) {
            const auto request = keeper.request_begins();
            keeper.launch(1);
            keeper.stream_ends(1);
            if (request) keeper.request_ends(*request);
        }
    });
    for (int i = 0; i < 200; ++i) {
        keeper.arm(i % 2 == 0, i % 3 == 0);
        std::this_thread::yield();
    }
    ends = true;
    program.join();
    EXPECT_FALSE(anything_in_flight());
}

TEST_F(GateKeeperTest, DoesNothingWhereTheDriverCannot) {
    streams.can = false;
    keeper.arm(true, true);
    keeper.launch(1);
    EXPECT_TRUE(streams.passed.empty());
    EXPECT_FALSE(keeper.request_begins());
    EXPECT_FALSE(keeper.is_in_use());
    GateKeeper none(page, nullptr);
    none.arm(true, true);
    EXPECT_FALSE(none.is_armed());
}

TEST_F(GateKeeperTest, OpensAGateThatNobodyElseOpens) {
    constexpr std::uint64_t kMs = 1'000'000;
    keeper.look(0);
    page.close();
    keeper.look(100 * kMs);
    keeper.look(200 * kMs);
    EXPECT_FALSE(page.is_open());
    page.open();
    page.close();  // another time: it has not been closed for long
    keeper.look(260 * kMs);
    keeper.look(400 * kMs);
    EXPECT_FALSE(page.is_open());
    keeper.look(411 * kMs);
    EXPECT_TRUE(page.is_open());
}

TEST_F(GateKeeperTest, OpensItsGateWhenTheServiceIsGoneAndForGoodAtTheEnd) {
    keeper.arm(true, false);
    page.close();
    keeper.disarm();
    EXPECT_TRUE(page.is_open());
    EXPECT_FALSE(keeper.is_armed());
    keeper.stay_open();
    page.close();
    EXPECT_TRUE(page.is_open());
}

}  // namespace
}  // namespace salus::client
