// Crews: clients that take one turn together, by Note [Crews] in crews.cpp.
#include <string_view>

#include <gtest/gtest.h>

#include "base/random.h"
#include "core/engine.h"
#include "core/engine_fixture.h"
#include "policies/table.h"

namespace salus {
namespace {

constexpr std::uint32_t kCrew = 7;

EngineOptions one_lane() {
    EngineOptions options = small_device();
    options.lanes_max = 1;
    return options;
}

/// A and B are a crew and run; C, another job, waits.
struct CrewRig : Rig {
    explicit CrewRig(std::string_view policy = "rr", const EngineOptions& options = one_lane()) : Rig(policy, options) {}

    ClientId join(const Newcomer& n = {.ephemeral_mib = 0}, std::uint32_t crew = kCrew) {
        const ClientId id = attach(n);
        send(event::JoinCrew{id, JobId{crew}});
        return id;
    }
    void start() {
        a = join();
        b = join();
        want(a);
        want(b);
        c = enter();
    }
    /// ... and both were asked to yield.
    void take_back() {
        start();
        pass(kMinTurn);
        EXPECT_EQ(turns(), "yield A; yield B");
    }

    ClientId a{}, b{}, c{};
};

using CrewTest = CheckedTest;

TEST_F(CrewTest, MembersRunAtOnceAndOthersWait) {
    for (const Policy* policy : all_policies()) {
        SCOPED_TRACE(policy->info.name);
        CrewRig rig(policy->info.name);
        rig.start();
        EXPECT_TRUE(rig.runs(rig.a) && rig.runs(rig.b));
        EXPECT_FALSE(rig.runs(rig.c));
    }
}

TEST_F(CrewTest, AMemberThatComesLaterRunsAtOnce) {
    CrewRig rig;
    const ClientId a = rig.join();
    rig.want(a);
    const ClientId b = rig.join();
    rig.want(b);
    EXPECT_EQ(rig.turns(), "grant B 0");
    rig.pass(seconds(5));
    EXPECT_EQ(rig.turns(), "") << "nobody else wants to run";
}

TEST_F(CrewTest, OnlyThoseOfOneCrewAndOneUserRunTogether) {
    struct Row {
        std::uint32_t user, crew;
        bool together;
    };
    for (const Row& row : {Row{1, kCrew, true}, Row{1, kCrew + 1, false}, Row{2, kCrew, false}}) {
        CrewRig rig;
        const ClientId a = rig.join();
        rig.want(a);
        const ClientId b = rig.join({.user = row.user, .ephemeral_mib = 0}, row.crew);
        rig.want(b);
        EXPECT_EQ(rig.runs(b), row.together) << row.user << " " << row.crew;
    }
}

TEST_F(CrewTest, TheTurnEndsWhenTheLastHasGivenBack) {
    CrewRig rig;
    rig.take_back();
    rig.boundary(rig.a);
    EXPECT_EQ(rig.turns(), "") << "B still runs";
    EXPECT_FALSE(rig.runs(rig.c));
    rig.boundary(rig.b);
    EXPECT_EQ(rig.turns(), "grant C 0");
}

TEST_F(CrewTest, TheNextTurnIsForBothAgain) {
    CrewRig rig;
    rig.take_back();
    rig.boundary(rig.b);
    rig.boundary(rig.a);
    rig.pass(kMinTurn);
    rig.boundary(rig.c);
    EXPECT_TRUE(rig.runs(rig.a) && rig.runs(rig.b)) << rig.turns();
}

/// A is inside a launch, and waits on the device for what B has not launched yet.
TEST_F(CrewTest, AMemberIsLetInForOneThatCannotGiveBack) {
    CrewRig rig;
    rig.take_back();
    rig.boundary(rig.b);
    EXPECT_FALSE(rig.runs(rig.b)) << "the turn may be over in a moment";
    rig.pass(milliseconds(24));
    EXPECT_FALSE(rig.runs(rig.b));
    rig.pass(milliseconds(1));
    EXPECT_EQ(rig.turns(), "grant B 0");
    rig.boundary(rig.a);
    EXPECT_EQ(rig.turns(), "yield B") << "it was let in for A";
    rig.boundary(rig.b);
    EXPECT_EQ(rig.turns(), "grant C 0");
}

TEST_F(CrewTest, MembersThatNeverEndAtOnceDoNotKeepTheTurnForEver) {
    CrewRig rig;
    rig.take_back();
    rig.boundary(rig.b);
    std::vector<std::int64_t> waits_ms;
    for (int i = 0; i < 8; ++i) {  // A does not give back, and B does whenever it is asked
        const Instant from = rig.now;
        while (!rig.runs(rig.b)) rig.pass(milliseconds(1));
        waits_ms.push_back((rig.now - from).ns / 1'000'000);
        while (!rig.at(rig.b).yield_asked) rig.pass(milliseconds(1));
        rig.boundary(rig.b);
    }
    EXPECT_EQ(waits_ms, (std::vector<std::int64_t>{25, 50, 100, 200, 400, 800, 1600, 1600}));
    rig.boundary(rig.a);
    EXPECT_TRUE(rig.runs(rig.c));
    rig.pass(kMinTurn);
    rig.boundary(rig.c);
    rig.pass(kMinTurn);
    rig.boundary(rig.b);
    rig.pass(milliseconds(25));
    EXPECT_TRUE(rig.runs(rig.b)) << "a new turn, a new patience";
}

TEST_F(CrewTest, ThoseLeftGoOnWhenTheLeaderIsGone) {
    for (const bool dies : {true, false}) {
        CrewRig rig;
        rig.start();
        if (dies) rig.die(rig.a);
        else rig.idle(rig.a);
        EXPECT_TRUE(rig.runs(rig.b)) << rig.turns();
        rig.pass(kMinTurn);
        if (dies) EXPECT_EQ(rig.turns(), "yield B") << "from the beginning of the turn on";
        else EXPECT_EQ(rig.turns(), "revoke A; yield B");
        if (!dies) rig.idle(rig.a);
        rig.boundary(rig.b);
        EXPECT_TRUE(rig.runs(rig.c));
    }
}

TEST_F(CrewTest, ATurnThatAllLetRestGoesBackAtOnce) {
    CrewRig rig;
    rig.start();
    rig.idle(rig.a);
    EXPECT_EQ(rig.turns(), "") << "B still uses it";
    rig.idle(rig.b);
    EXPECT_EQ(rig.turns(), "revoke A; revoke B");
}

TEST_F(CrewTest, AMemberThatIsStoppedHoldsNobodyUp) {
    CrewRig rig;
    rig.start();
    rig.stop(rig.a);
    EXPECT_EQ(rig.turns(), "yield A; yield B");
    rig.boundary(rig.b);
    EXPECT_EQ(rig.turns(), "grant C 0") << "A keeps no lane";
    rig.pass(kMinTurn);
    rig.boundary(rig.c);
    EXPECT_EQ(rig.turns(), "grant B 0");
}

TEST_F(CrewTest, OneThatContinuesBesideAnotherTurnLetsNobodyIn) {
    CrewRig rig;
    rig.start();
    rig.stop(rig.a);
    rig.boundary(rig.b);
    rig.resume(rig.a);
    rig.pass(kMinTurn);
    EXPECT_TRUE(rig.runs(rig.c) && !rig.runs(rig.b)) << "A goes on to its boundary, and B waits for its turn";
}

/// Two jobs of which one has three processes: each job gets half of the time, whichever of its processes run.
TEST_F(CrewTest, ItsTimeCountsOnce) {
    CrewRig rig("fair");
    const ClientId a = rig.join(), b = rig.join(), d = rig.join();
    const ClientId alone = rig.enter();
    for (const ClientId id : {a, b, d}) rig.want(id);
    rig.play(seconds(2));
    const double share = rig.at(alone).facts.attained.seconds() / 2;
    EXPECT_NEAR(share, 0.5, 0.05);
    EXPECT_NEAR(rig.at(a).facts.attained.seconds(), rig.at(d).facts.attained.seconds(), 0.05);
}

TEST_F(CrewTest, ItsTimeCountsOnceAlsoIfItsMembersTakeTheirTimeOneByOne) {
    CrewRig rig("fair");
    const ClientId a = rig.join(), b = rig.join();
    const ClientId alone = rig.enter();
    ClientId mine = a, other = b;
    rig.want(mine);
    Duration held;
    for (int i = 0; i < 200; ++i) {
        const bool ran = rig.runs(mine);
        rig.pass(milliseconds(5));
        if (ran) held += milliseconds(5);
        if (rig.at(alone).yield_asked) rig.boundary(alone);
        if (!rig.runs(mine) || !rig.at(mine).yield_asked) continue;
        rig.idle(mine);  // the other goes on where it has stopped
        std::swap(mine, other);
        rig.want(mine);
    }
    EXPECT_NEAR(held.seconds() / 1.0, 0.5, 0.05);
}

/// Its P is on the device, and does not fit. But A may wait for it.
TEST_F(CrewTest, AMemberWithoutALaneMayAccompany) {
    CrewRig rig;
    rig.answers_revokes = true;
    const ClientId other = rig.enter({.pageable = false, .persistent_mib = 600, .ephemeral_mib = 300});
    const ClientId a = rig.join({.pageable = false, .ephemeral_mib = 0});
    rig.idle(other);
    rig.want(a);
    const ClientId b = rig.attach({.pageable = false, .persistent_mib = 200, .ephemeral_mib = 0});
    rig.observe(b, 200);
    rig.send(event::JoinCrew{b, JobId{kCrew}});
    ASSERT_FALSE(rig.has_lane(b));
    ASSERT_TRUE(rig.runs(a));
    rig.want(b);
    EXPECT_TRUE(rig.runs(b)) << rig.why(b);
    rig.want(other);
    rig.pass(kMinTurn);
    EXPECT_EQ(rig.turns(), "yield B; yield C");
    rig.boundary(a);
    EXPECT_FALSE(rig.runs(other)) << "B is not done";
    rig.boundary(b);
    EXPECT_TRUE(rig.runs(other));
}

TEST_F(CrewTest, OnlyClientsWithoutEphemeralMemoryMayJoin) {
    CrewRig rig;
    const ClientId a = rig.attach();
    rig.send(event::JoinCrew{a, JobId{kCrew}});
    EXPECT_EQ(rig.faults(), "drop A nonsense");
    const ClientId b = rig.join();
    rig.demand(b, 10, 1);
    EXPECT_EQ(rig.faults(), "drop B nonsense");
}

TEST_F(CrewTest, NobodyChangesItsCrew) {
    CrewRig rig;
    rig.start();
    rig.send(event::JoinCrew{rig.b, JobId{kCrew}});
    EXPECT_EQ(rig.faults(), "");
    rig.send(event::JoinCrew{rig.b, JobId{kCrew + 1}});  // it would run on, in a turn that nobody takes back
    EXPECT_EQ(rig.faults(), "drop B nonsense");
}

TEST_F(CrewTest, WhoeverJoinsAtAnyTimeHoldsNobodyUp) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        CrewRig rig(random.chance(0.5) ? "rr" : "fair");
        rig.answers_revokes = true;
        const auto number = [&](std::uint64_t below) { return static_cast<std::uint32_t>(random.below(below)); };
        for (int i = 0; i < 4; ++i) rig.attach({.user = 1 + number(2), .ephemeral_mib = 0});
        const ClientId honest = rig.attach({.user = 3});
        for (int step = 0; step < 200; ++step) {
            const ClientId id{number(4)};
            const Client* client = rig.engine.find(id);
            if (!client) continue;
            if (client->dropped) {
                rig.die(id);
                continue;
            }
            switch (random.below(9)) {
                case 0: rig.send(event::JoinCrew{id, JobId{1 + number(10) / 9}}); break;
                case 1:
                case 2:
                    if (client->turn() == Turn::kParked) rig.want(id);
                    break;
                case 3:
                    if (client->holds()) rig.boundary(id);
                    break;
                case 4:
                    if (client->holds()) rig.idle(id);
                    break;
                case 5: client->stopped ? rig.resume(id) : rig.stop(id); break;
                case 6: rig.set_class(id, random.chance(0.3)); break;
                case 7:
                    if (client->holds() && !client->stalled) rig.need(id, random.integer(0, 150), 0);
                    break;
                default: rig.pass(milliseconds(random.integer(0, 40)));
            }
        }
        for (std::uint32_t i = 0; i < 4; ++i) {
            const Client* client = rig.engine.find(ClientId{i});
            if (client && client->dropped) rig.die(ClientId{i});
            else if (client && client->stopped) rig.resume(ClientId{i});
        }
        // From now on, all give back what they are asked for.
        if (rig.at(honest).turn() == Turn::kParked) rig.want(honest);
        bool ran = false;
        for (int i = 0; i < 400 && !ran; ++i) {
            rig.play(milliseconds(10));
            ran = rig.at(honest).facts.iterations_done > 0 || rig.runs(honest);
        }
        ASSERT_TRUE(ran) << rig.why(honest);
    }
}

}  // namespace
}  // namespace salus
