// What the engine measures for the metrics: turns, hand-overs, admissions, pages, and what clients wait for.
#include <gtest/gtest.h>

#include "core/engine_fixture.h"

namespace salus {
namespace {

using EngineTimesTest = CheckedTest;

Duration waited(const Rig& rig, ClientId id, WaitReason reason) {
    Waits waits = rig.at(id).waits(rig.now);
    return wait_for(waits, reason);
}

TEST_F(EngineTimesTest, ATurnLastsFromItsGrantUntilItIsBackAndAHandOverFromTheRequest) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    rig.pass(milliseconds(3));
    const ClientId b = rig.enter();
    rig.pass(milliseconds(11));  // A is asked after 10 ms in all, its minimum turn
    const Statistics& statistics = rig.engine.statistics();
    EXPECT_EQ(statistics.turn_times.count(), 0u) << "A's turn goes on";
    EXPECT_EQ(waited(rig, b, WaitReason::kTurn), milliseconds(11)) << "and B waits";
    rig.boundary(a);
    EXPECT_EQ(statistics.turn_times.count(), 1u);
    EXPECT_EQ(statistics.turn_times.sum, milliseconds(14));
    EXPECT_EQ(statistics.handover_times.count(), 1u);
    EXPECT_EQ(statistics.handover_times.sum, milliseconds(4));
    EXPECT_EQ(statistics.admission_waits.count(), 2u);
    EXPECT_EQ(statistics.admission_waits.sum, milliseconds(11));
    rig.pass(milliseconds(1));
    EXPECT_EQ(waited(rig, b, WaitReason::kTurn), milliseconds(11)) << "it runs";
    EXPECT_EQ(waited(rig, a, WaitReason::kTurn), milliseconds(1));
    rig.die(b);
    EXPECT_EQ(statistics.turn_times.count(), 2u) << "a turn ends with its client, too";
    EXPECT_EQ(statistics.handover_times.count(), 1u) << "nobody had asked B";
    EXPECT_EQ(statistics.admission_waits.count(), 2u) << "A was admitted before";
}

TEST_F(EngineTimesTest, WhoIdlesKeepsItsTurn) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    rig.pass(milliseconds(5));
    rig.idle(a);
    EXPECT_EQ(rig.engine.statistics().turn_times.count(), 0u);
    rig.pass(milliseconds(5));
    rig.enter();  // and A's turn is taken back
    ASSERT_EQ(rig.turns(), "revoke A");
    rig.pass(milliseconds(2));
    rig.idle(a, 0);
    EXPECT_EQ(rig.engine.statistics().turn_times.sum, milliseconds(12));
    EXPECT_EQ(rig.engine.statistics().handover_times.sum, milliseconds(2));
}

TEST_F(EngineTimesTest, AWaitCountsForTheReasonThatHoldsMeanwhile) {
    Rig rig("srtf", without_paging());
    const ClientId a = rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 700});
    const ClientId b = rig.enter({.iterations_total = 100, .iteration_time = seconds(1), .persistent_mib = 400});
    ASSERT_EQ(rig.waits(), "wait B memory");
    rig.pass(seconds(2));
    rig.stop(b);
    rig.pass(seconds(1));
    rig.resume(b);
    rig.pass(seconds(4));
    EXPECT_EQ(waited(rig, b, WaitReason::kMemory), seconds(6));
    EXPECT_EQ(waited(rig, b, WaitReason::kPaused), seconds(1));
    rig.leave(a);
    ASSERT_TRUE(rig.runs(b));
    rig.pass(seconds(9));
    EXPECT_EQ(waited(rig, b, WaitReason::kMemory), seconds(6));
    EXPECT_EQ(rig.engine.statistics().admission_waits.sum, seconds(7));
}

TEST_F(EngineTimesTest, WaitingForMemoryInMidIterationCounts) {
    Rig rig("rr", without_paging());
    const ClientId a = rig.enter({.persistent_mib = 300, .occupancy = 0.5});
    const ClientId b = rig.enter({.persistent_mib = 300, .occupancy = 0.5});
    ASSERT_TRUE(rig.runs(a));
    rig.need(a, 800, 100);
    ASSERT_TRUE(rig.at(a).stalled);
    rig.pass(milliseconds(500));
    EXPECT_EQ(waited(rig, a, WaitReason::kMemory), milliseconds(500));
    rig.leave(b);
    ASSERT_FALSE(rig.at(a).stalled);
    rig.pass(seconds(1));
    EXPECT_EQ(waited(rig, a, WaitReason::kMemory), milliseconds(500));
}

TEST_F(EngineTimesTest, PagesCountWhenTheyAreDone) {
    Rig rig("srtf");
    rig.answers_paging = false;
    const ClientId a = rig.enter({.iterations_total = 100, .iteration_time = seconds(1), .persistent_mib = 600});
    const ClientId b = rig.enter({.iterations_total = 10, .iteration_time = seconds(1), .persistent_mib = 600});
    rig.boundary(a);
    const Statistics& statistics = rig.engine.statistics();
    EXPECT_EQ(statistics.paged_out, Bytes{});
    rig.pass(milliseconds(300));
    rig.answer();
    EXPECT_EQ(statistics.paged_out, mebibytes(600));
    EXPECT_EQ(statistics.page_out_times.sum, milliseconds(300));
    ASSERT_TRUE(rig.runs(b));
    rig.leave(b);
    rig.pass(milliseconds(20));
    rig.answer();
    EXPECT_EQ(statistics.paged_in, mebibytes(600));
    EXPECT_EQ(statistics.page_in_times.sum, milliseconds(20));
    EXPECT_EQ(waited(rig, a, WaitReason::kPaging), milliseconds(320)) << "both ways";
}

TEST_F(EngineTimesTest, AnAdmissionBeginsWhenTheJobIsAnnounced) {
    EngineOptions options = small_device();
    options.context = mebibytes(600);
    Rig rig("rr", options);
    const ClientId first = rig.enter({.persistent_mib = 900});
    rig.announce(7);
    ASSERT_EQ(rig.starts(), "") << "there is no room for its process";
    rig.pass(seconds(3));
    EXPECT_EQ(rig.engine.waited_to_start(JobId{7}, rig.now), seconds(3));
    rig.leave(first);
    rig.pass(milliseconds(500));
    ASSERT_FALSE(rig.engine.starts().waits(JobId{7}));
    const Duration started = rig.engine.waited_to_start(JobId{7}, rig.now);
    rig.pass(seconds(10));  // the process loads its modules: no wait for us
    const Duration before = rig.engine.statistics().admission_waits.sum;
    rig.enter({.persistent_mib = 10, .job = 7});
    EXPECT_EQ(rig.engine.statistics().admission_waits.sum - before, started);
    EXPECT_EQ(rig.engine.waited_to_start(JobId{7}, rig.now), started);
    EXPECT_EQ(rig.engine.waited_to_start(JobId{8}, rig.now), Duration{});
    const std::uint64_t admitted = rig.engine.statistics().admission_waits.count();
    rig.enter({.persistent_mib = 10, .iterations_before = 5});
    EXPECT_EQ(rig.engine.statistics().admission_waits.count(), admitted) << "it was admitted under an earlier service";
}

}  // namespace
}  // namespace salus
