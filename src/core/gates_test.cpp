// Gates: Note [When gates are closed] in gates.h.
#include "core/gates.h"

#include <gtest/gtest.h>

#include "core/engine_fixture.h"
#include "policies/table.h"

namespace salus {
namespace {

/// A training, and a server beside it.
struct GateRig : Rig {
    GateRig() : Rig("fair") {
        training = enter();
        server = enter({.interactive = true});
    }
    void requests(std::uint32_t in_flight, std::uint32_t begun) { send(event::Requests{server, in_flight, begun}); }
    void request_begins() { requests(1, 1); }
    void request_ends() { requests(0, 0); }
    /// What the last event, or the time since, has done to the gates: "close", "open" or both.
    std::string gates() const {
        std::string text;
        for (const Action& action : actions()) {
            if (std::holds_alternative<action::CloseGates>(action)) text += "close ";
            if (std::holds_alternative<action::OpenGates>(action)) text += "open ";
        }
        return text;
    }
    bool are_closed() const { return engine.gates().are_closed(); }

    ClientId training{}, server{};
};

using GatesTest = CheckedTest;

TEST_F(GatesTest, AreClosedWhileARequestIsInFlight) {
    GateRig rig;
    rig.request_begins();
    EXPECT_EQ(rig.gates(), "close ");
    rig.pass(milliseconds(5));
    EXPECT_EQ(rig.gates(), "");
    rig.requests(2, 1);
    EXPECT_EQ(rig.gates(), "") << "another thread has one, too";
    rig.requests(1, 0);
    EXPECT_EQ(rig.gates(), "");
    rig.request_ends();
    EXPECT_EQ(rig.gates(), "") << "the program fetches the result";
    rig.pass(Gates::kFetch);
    EXPECT_EQ(rig.gates(), "open ");
    EXPECT_EQ(rig.engine.gates().closed_in_total(rig.now), milliseconds(5) + Gates::kFetch);
}

TEST_F(GatesTest, StayOpenIfNobodyRunsWhoCouldBeStopped) {
    GateRig rig;
    rig.idle(rig.training);
    rig.pass(Gates::kStillBusy);
    rig.request_begins();
    EXPECT_EQ(rig.gates(), "");
    rig.want(rig.training);
    EXPECT_EQ(rig.gates(), "close ") << "the request is still in flight";
    rig.leave(rig.training);
    EXPECT_EQ(rig.gates(), "open ");
}

TEST_F(GatesTest, AreClosedForOneBetweenIterationsForWhomTheDeviceStillWorks) {
    GateRig rig;
    rig.idle(rig.training);
    rig.pass(milliseconds(100));
    rig.request_begins();
    EXPECT_EQ(rig.gates(), "close ");
}

TEST_F(GatesTest, AreClosedForManyShortCallsAsForOneRequest) {
    GateRig rig;
    rig.request_begins();
    rig.pass(milliseconds(2));
    rig.request_ends();
    rig.pass(microseconds(500));
    EXPECT_EQ(rig.gates(), "open ") << "nobody knows yet that another call follows";
    for (int call = 0; call < 5; ++call) {
        rig.pass(microseconds(call == 0 ? 100 : 900));
        EXPECT_EQ(rig.gates(), "");
        rig.request_begins();
        EXPECT_EQ(rig.gates(), call == 0 ? "close " : "");
        rig.pass(milliseconds(2));
        rig.request_ends();
        EXPECT_EQ(rig.gates(), "");
    }
    rig.pass(Gates::kHold);
    EXPECT_EQ(rig.gates(), "open ") << "no call has followed";
}

TEST_F(GatesTest, AreClosedForNoMoreThanTheBudgetOfAnySecond) {
    GateRig rig;
    Duration closed;
    for (int request = 0; request < 20; ++request) {
        const Duration before = rig.engine.gates().closed_in_total(rig.now);
        rig.request_begins();
        rig.pass(milliseconds(30));
        rig.request_ends();
        closed += rig.engine.gates().closed_in_total(rig.now) - before;
        rig.pass(milliseconds(20));
    }
    EXPECT_LE(closed, Gates::kBudget) << "600 ms of requests within a second";
    EXPECT_GE(closed, Gates::kBudget - milliseconds(30)) << "but for the request that showed that they are too many";
    EXPECT_FALSE(rig.are_closed());
    rig.pass(seconds(1));
    rig.request_begins();
    EXPECT_EQ(rig.gates(), "close ") << "another second";
}

TEST_F(GatesTest, AreClosedForLessWhereRequestsAreTooManyForThem) {
    for (const bool crowd : {false, true}) {
        GateRig rig;
        Instant before_last_second{};
        Duration closed_before;
        for (int request = 0; request < 60; ++request) {  // 3 s, 20 a second
            rig.request_begins();
            rig.pass(milliseconds(crowd ? 35 : 11));
            rig.request_ends();
            rig.pass(milliseconds(crowd ? 15 : 39));
            if (request != 39) continue;
            before_last_second = rig.now;
            closed_before = rig.engine.gates().closed_in_total(rig.now);
        }
        const Duration closed = rig.engine.gates().closed_in_total(rig.now) - closed_before;
        ASSERT_EQ(rig.now - before_last_second, seconds(1));
        if (crowd) EXPECT_LE(closed, Gates::kBudgetOfCrowd) << "700 ms of requests in each second";
        else EXPECT_GE(closed, milliseconds(220)) << "for every request";
    }
}

TEST_F(GatesTest, AreOpenedAfterAWhileThoughTheRequestDoesNotEnd) {
    GateRig rig;
    rig.request_begins();
    rig.pass(Gates::kLongest);
    EXPECT_EQ(rig.gates(), "open ");
    rig.pass(seconds(3));
    EXPECT_EQ(rig.gates(), "") << "until another one begins";
    rig.requests(2, 1);
    EXPECT_EQ(rig.gates(), "close ");
}

TEST_F(GatesTest, AreNotClosedForOneThatWaitsItself) {
    GateRig rig;
    rig.request_begins();
    ASSERT_TRUE(rig.are_closed());
    rig.need(rig.server, 10, 900);  // more than there is beside the training
    EXPECT_EQ(rig.gates(), "open ") << "what it waits for may stand behind a gate";
}

TEST_F(GatesTest, AreOpenedWhenTheClientDiesStopsOrIsDroppedInMidRequest) {
    for (const int what : {0, 1, 2}) {
        GateRig rig;
        rig.request_begins();
        ASSERT_TRUE(rig.are_closed());
        if (what == 0) rig.die(rig.server);
        else if (what == 1) rig.stop(rig.server);
        else rig.observe(rig.server, -1);  // nonsense; its process may live on
        EXPECT_EQ(rig.gates(), "open ") << what;
    }
}

TEST_F(GatesTest, AreNotClosedForABatchClient) {
    GateRig rig;
    rig.set_class(rig.server, /*interactive=*/false);
    rig.request_begins();
    EXPECT_EQ(rig.gates(), "");
}

}  // namespace
}  // namespace salus
