#include <gtest/gtest.h>

#include "attachment/asking.h"
#include "attachment/requests.h"
#include "attachment/turn_steps.h"

namespace salus::attachment {
namespace {

using control::State;

class TurnTest : public ::testing::Test {
protected:
    /// Grants as the service does.
    void grant() {
        const auto granted = control::grant(turn_.word());
        ASSERT_TRUE(granted);
        page_.word = control::pack(*granted);
    }
    void take_back() { page_.word = control::pack(control::take_back(turn_.word(), /*may_retract=*/false).next); }

    ControlPage page_;
    TurnSteps turn_{page_};
};

TEST_F(TurnTest, WaitsForAGrantAndRunsInIt) {
    EXPECT_FALSE(turn_.try_begin([] { return std::uint64_t{1}; }));
    EXPECT_FALSE(turn_.word().want) << "it only looked";
    const TurnSteps::Begun first = turn_.begin(10);
    EXPECT_FALSE(first.entry);
    EXPECT_TRUE(first.notify);
    EXPECT_FALSE(turn_.begin(11).notify) << "the service knows";
    grant();
    EXPECT_EQ(turn_.begin(20).entry, TurnSteps::Entry::kNewTurn);
    EXPECT_EQ(page_.begun_ns, 20u);
    EXPECT_EQ(turn_.begin(21).entry, TurnSteps::Entry::kJoined) << "a second thread";
    EXPECT_FALSE(turn_.leave().last);
    EXPECT_TRUE(turn_.leave().last);
    turn_.finish(50, 3);
    EXPECT_EQ(page_.busy_ns, 30u);
    EXPECT_EQ(page_.ended_ns, 50u);
    EXPECT_EQ(page_.iterations, 3u);
    EXPECT_FALSE(turn_.settle(/*clean=*/true, /*drained=*/false).notify) << "nobody asked for the grant";
    EXPECT_EQ(turn_.word().state, State::kIdle);
    EXPECT_EQ(turn_.try_begin([] { return std::uint64_t{60}; }), TurnSteps::Entry::kJoined) << "with the grant that it kept";
    EXPECT_EQ(page_.begun_ns, 60u);
}

TEST_F(TurnTest, ThePageHasTheTimesOfIterations) {
    const auto at = [&](std::size_t place) { return page_.iterations_by_time[place].load(); };
    const auto part = [&](std::uint64_t from_us, std::uint64_t to_us, std::uint64_t iterations) {
        turn_.begin(from_us * 1000);
        turn_.leave();
        turn_.finish(to_us * 1000, iterations);
        turn_.settle(/*clean=*/true, /*drained=*/true);
    };
    turn_.begin(1);
    grant();
    part(0, 100, 1);
    EXPECT_EQ(at(0), 1u);
    part(1000, 1150, 0);  // this one ...
    EXPECT_EQ(page_.iteration_times_ns, 100'000u);
    part(2000, 2050, 1);  // ... goes on here
    EXPECT_EQ(at(1), 1u) << "200 us";
    part(3000, 3600, 3);
    EXPECT_EQ(at(1), 4u) << "three of them, 200 us each";
    EXPECT_EQ(page_.iteration_times_ns, 900'000u);
    turn_.device_finished(3'650'000);
    part(4000, 4200, 1);
    EXPECT_EQ(at(2), 1u) << "250 us: the device's time counts, too";
    EXPECT_EQ(page_.iteration_times_ns, page_.busy_ns);
}

TEST_F(TurnTest, GivesTheGrantBackOnlyWhenTheDeviceIsDone) {
    turn_.begin(1);
    grant();
    turn_.begin(2);
    take_back();
    turn_.leave();
    EXPECT_TRUE(turn_.settle(/*clean=*/true, /*drained=*/false).must_drain);
    EXPECT_EQ(turn_.word().state, State::kBoundary);
    EXPECT_TRUE(turn_.settle(/*clean=*/true, /*drained=*/true).notify);
    EXPECT_EQ(turn_.word().state, State::kFree);
    EXPECT_FALSE(turn_.leave().was_inside);
}

TEST_F(TurnTest, AWishIsKnownWhenTheTurnGoesBackAndChangesNothingElse) {
    turn_.wish();
    EXPECT_TRUE(turn_.begin(1).notify) << "nobody has told the service before";
    turn_.wish();
    grant();
    turn_.begin(2);
    turn_.wish();
    EXPECT_FALSE(turn_.word().want) << "nobody wants the turn back";
    take_back();
    turn_.wish();
    turn_.leave();
    EXPECT_TRUE(turn_.settle(/*clean=*/true, /*drained=*/true).notify);
    EXPECT_EQ(turn_.word().state, State::kFree);
    EXPECT_TRUE(turn_.word().want) << "the service sees it together with the end of the turn";
    grant();
    EXPECT_EQ(turn_.begin(3).entry, TurnSteps::Entry::kNewTurn);
    turn_.leave();
    turn_.finish(4, 1);
    turn_.settle(/*clean=*/true, /*drained=*/true);
    turn_.wish();
    EXPECT_EQ(turn_.word().state, State::kIdle);
    EXPECT_FALSE(turn_.word().want);
}

TEST_F(TurnTest, AnIdleGrantIsRevokedAndAcknowledgedOnce) {
    turn_.begin(1);
    grant();
    turn_.begin(2);
    turn_.leave();
    turn_.settle(/*clean=*/true, /*drained=*/false);
    take_back();
    ASSERT_EQ(turn_.word().state, State::kRevoked);
    EXPECT_FALSE(turn_.withdraw()) << "the device may still work";
    EXPECT_TRUE(turn_.acknowledge());
    EXPECT_FALSE(turn_.acknowledge());
    EXPECT_TRUE(turn_.withdraw());
}

// ------------------------------------------------------------------------------------------------------------ requests

template <typename T>
bool asks_for(const Requests::Step& step) {
    return std::holds_alternative<T>(step.todo) && !step.say;
}

TEST(RequestsOfTheService, AreMappedInOrderAndAnswered) {
    Requests requests;
    const Requests::State idle{};
    EXPECT_TRUE(asks_for<request::GiveUp>(requests.on(wire::MapLane{3, 1, 100}, idle))) << "no memory came";
    EXPECT_TRUE(asks_for<request::TakePieces>(requests.on(wire::LanePieces{3, 0}, idle)));
    EXPECT_TRUE(asks_for<request::TakePieces>(requests.on(wire::LanePieces{3, 5}, idle)));
    EXPECT_TRUE(asks_for<request::GiveUp>(requests.on(wire::LanePieces{4, 5}, idle))) << "the rest of another lane";
    const Requests::Step map = requests.on(wire::MapLane{3, 2, 100}, idle);
    ASSERT_TRUE(asks_for<request::MapLane>(map));
    const auto mapped = Requests::answer(map.todo, {.ok = true});
    ASSERT_TRUE(mapped && std::holds_alternative<wire::Acknowledge>(*mapped));
    EXPECT_EQ(std::get<wire::Acknowledge>(*mapped).version, 2u);

    const Requests::Step other = requests.on(wire::UnmapLane{9, 7}, idle);
    EXPECT_TRUE(other.say && std::holds_alternative<std::monostate>(other.todo)) << "it has no such lane";
    EXPECT_TRUE(asks_for<request::UnmapLane>(requests.on(wire::UnmapLane{3, 3}, idle)));
    EXPECT_TRUE(asks_for<request::GiveUp>(requests.on(wire::MapLane{3, 4, 100}, idle)));
}

TEST(RequestsOfTheService, ToPageOutAreRefusedUnlessEverythingRests) {
    struct Case {
        Requests::State state;
        bool accepted;
        unsigned for_good;
    };
    const Case cases[] = {
        {{{.state = State::kFree, .want = true}, true, false}, true, 0},
        {{{.state = State::kFree, .want = true}, false, false}, false, 0},
        {{{.state = State::kFree, .want = false}, true, false}, false, 0},
        {{{.state = State::kGranted}, true, false}, false, 0},
        {{{.state = State::kFree, .want = true}, true, true}, false, 1},
        {{.word = {.state = State::kFree, .want = false}, .may_go_idle = true}, true, 0},
        {{.word = {.state = State::kFree, .want = true}, .may_go_idle = true}, false, 0},
        {{.word = {.state = State::kIdle}, .may_go_idle = true}, false, 0},
        {{.word = {.state = State::kFree}, .stays = true, .may_go_idle = true}, false, 1},
    };
    for (const Case& c : cases) {
        Requests requests;
        const Requests::Step step = requests.on(wire::PageOut{}, c.state);
        EXPECT_EQ(asks_for<request::PageOut>(step), c.accepted);
        if (c.accepted) continue;
        EXPECT_EQ(std::get<wire::Unpageable>(*step.say).for_good, c.for_good);
    }
    EXPECT_TRUE(std::holds_alternative<wire::PagedOut>(*Requests::answer(request::PageOut{}, {.ok = true})));
    EXPECT_EQ(std::get<wire::Unpageable>(*Requests::answer(request::PageOut{}, {.ok = false})).for_good, 1u);
}

TEST(RequestsOfTheService, ALateRevokeAsksForNothing) {
    Requests requests;
    EXPECT_TRUE(asks_for<request::Drain>(requests.on(wire::Revoke{}, {{.state = State::kRevoked}, false, false})));
    EXPECT_TRUE(asks_for<std::monostate>(requests.on(wire::Revoke{}, {{.state = State::kRunning}, false, false})));
}

// -------------------------------------------------------------------------------------------------------------- asking

TEST(NeedsOfMemory, AnAnswerIsTakenForNoOther) {
    Asking asking;
    const wire::Need first = asking.ask(1, 2);
    const wire::Need second = asking.ask(3, 4);
    EXPECT_NE(first.number, second.number);
    asking.on({first.number, 1, 100});
    EXPECT_EQ(asking.outcome(), Asking::Outcome::kNone) << "late, and nobody's";
    asking.on({second.number, 1, 100});
    EXPECT_EQ(asking.outcome(), Asking::Outcome::kGiven);
    asking.on({second.number, 0, 0});
    EXPECT_EQ(asking.outcome(), Asking::Outcome::kDenied) << "the lane that was to come with it cannot be had";
    asking.ask(5, 6);
    EXPECT_EQ(asking.outcome(), Asking::Outcome::kNone);
}

}  // namespace
}  // namespace salus::attachment
