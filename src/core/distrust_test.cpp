// What the engine does about clients that break the protocol and policies that misbehave.
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine.h"
#include "core/engine_fixture.h"

namespace salus {
namespace {

using DistrustTest = CheckedTest;

// ------------------------------------------------------------------------------------------------------------ faults

TEST_F(DistrustTest, WhoBreaksTheProtocolIsDroppedAndTheOthersDoNotNotice) {
    constexpr ClientId kHolder{0};
    constexpr ClientId kWaiter{1};
    constexpr ClientId kStranger{25};
    struct Row {
        std::string_view what;
        std::vector<Event> events;
        std::string_view faults;
    };
    const Row rows[] = {
        {"boundary without a grant", {event::Boundary{kWaiter, 1}}, "drop B no-grant"},
        {"need without a grant", {event::Need{kWaiter, mebibytes(1), mebibytes(1)}}, "drop B no-grant"},
        {"acknowledges twice", {event::Acknowledge{kWaiter, LaneId{0}, 2}}, "drop B not-asked"},
        {"acknowledges the future", {event::Acknowledge{kWaiter, LaneId{0}, 99}}, "drop B not-asked"},
        {"acknowledges another's lane", {event::Acknowledge{kWaiter, LaneId{7}, 1}}, "drop B not-asked"},
        {"paged out unasked", {event::PagedOut{kWaiter, {}}}, "drop B not-asked"},
        {"paged in unasked", {event::PagedIn{kWaiter}}, "drop B not-asked"},
        {"figures that cannot be",
         {event::Demand{kWaiter, Bytes{-1}, {}}, event::Demand{kWaiter, {}, {}, -1.0}, event::Observe{kWaiter, Bytes{-1}},
          event::Need{kWaiter, {}, Bytes{-1}}, event::Boundary{kWaiter, ~std::uint64_t{0}},
          event::Idle{kWaiter, ~std::uint64_t{0}}, event::Leave{kWaiter, ~std::uint64_t{0}},
          event::Adjust{kWaiter, 0, 0.0, 0}},
         "drop B nonsense"},
        {"attach excepted, each event of a stranger's",
         {event::Demand{kStranger, {}, {}}, event::Need{kStranger, {}, {}}, event::Observe{kStranger, {}},
          event::Want{kStranger}, event::Boundary{kStranger, 0}, event::Idle{kStranger, 0},
          event::Acknowledge{kStranger, LaneId{0}, 0}, event::PagedOut{kStranger, {}}, event::PagedIn{kStranger},
          event::Leave{kStranger, 0}, event::Die{kStranger}, event::Stop{kStranger}, event::Continue{kStranger},
          event::Adjust{kStranger, 0, 1.0, 0}},
         "drop Z unknown-client"},
        {"no client at all", {event::Want{kNoClient}}, "drop nobody unknown-client"},
        {"no lane at all", {event::RenewLane{kNoLane}, event::RenewLane{LaneId{7}}}, ""},
    };
    for (const Row& row : rows) {
        for (const Event& event : row.events) {
            SCOPED_TRACE(fmt::format("{}, event {}", row.what, event.index()));
            Rig rig("srtf");
            rig.enter({.iterations_total = 100, .iteration_time = seconds(1)});
            rig.enter({.iterations_total = 100, .iteration_time = seconds(2)});
            rig.send(event);
            EXPECT_EQ(rig.faults(), row.faults);
            EXPECT_TRUE(rig.runs(kHolder));
            EXPECT_EQ(rig.turns() + rig.memory(), "");
            rig.boundary(kHolder);
            EXPECT_EQ(rig.turns(), "grant A 0");
        }
    }
}

TEST_F(DistrustTest, ADroppedClientIsNotGrantedAnythingAnyMore) {
    Rig rig("rr");
    const ClientId a = rig.enter();
    const ClientId b = rig.enter();
    rig.boundary(b);
    EXPECT_EQ(rig.faults(), "drop B no-grant");
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0");
    rig.want(b);
    rig.pass(kMinTurn);
    rig.boundary(a);
    EXPECT_EQ(rig.turns(), "grant A 0");
    rig.die(b);
    EXPECT_EQ(rig.faults(), "");
}

// ---------------------------------------------------------------------------------------------------- policies' faults

/// Does one thing wrong, from the start or once it has two clients to choose from.
class Nonsense final : public Policy {
public:
    enum class Kind { kNobody, kStranger, kNotWaiting, kNan, kInfinite };
    explicit Nonsense(Kind kind)
        : Policy({.name = "nonsense", .good_for = "tests", .bad_at = "all else", .time_sliced = true}), kind_(kind) {}

    Rank rank(const ClientFacts&, const Situation&) const override {
        if (kind_ == Kind::kNan) return {.order = std::numeric_limits<double>::quiet_NaN()};
        if (kind_ == Kind::kInfinite) return {.tier = -std::numeric_limits<double>::infinity()};
        return {};
    }
    ClientId choose(Candidates candidates, const Situation& now) const override {
        if (kind_ == Kind::kNobody) return kNoClient;
        if (kind_ == Kind::kStranger) return ClientId{1234};
        if (kind_ == Kind::kNotWaiting) return candidates.front()->id == ClientId{0} ? ClientId{1} : ClientId{0};
        return Policy::choose(candidates, now);
    }

private:
    const Kind kind_;
};

struct NonsenseRow {
    Nonsense::Kind kind;
    std::string_view faults;
};
constexpr NonsenseRow kNonsense[] = {
    {Nonsense::Kind::kNobody, "fall-back not-a-candidate"},     {Nonsense::Kind::kStranger, "fall-back not-a-candidate"},
    {Nonsense::Kind::kNotWaiting, "fall-back not-a-candidate"}, {Nonsense::Kind::kNan, "fall-back rank-not-finite"},
    {Nonsense::Kind::kInfinite, "fall-back rank-not-finite"},
};

TEST_F(DistrustTest, WhenThePolicyMisbehavesFifoTakesOverAndTheTurnIsNotLost) {
    for (const NonsenseRow& row : kNonsense) {
        SCOPED_TRACE(static_cast<int>(row.kind));
        const Nonsense nonsense(row.kind);
        Driver driver(small_device(), nonsense, fallback_policy());
        const ClientId a = driver.attach();
        const ClientId b = driver.attach();
        driver.want(a);
        EXPECT_EQ(driver.faults(), row.faults);
        EXPECT_EQ(driver.turns(), "grant A 0");
        EXPECT_EQ(&driver.engine.policy(), &fallback_policy());
        EXPECT_EQ(driver.engine.statistics().fallbacks, 1u);
        driver.want(b);
        EXPECT_EQ(driver.why(b), "order behind A") << "fifo rules now";
        driver.leave(a);
        EXPECT_TRUE(driver.runs(b));
        EXPECT_EQ(driver.engine.statistics().fallbacks, 1u);
    }
}

/// As good as any until a second has passed.
class Forgetful final : public Policy {
public:
    Forgetful() : Policy({.name = "forgetful", .good_for = "tests", .bad_at = "all else"}) {}
    Rank rank(const ClientFacts& client, const Situation& now) const override {
        const bool forgets = now.now >= Instant{} + seconds(1);
        return {.order = forgets ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(client.sequence)};
    }
};

TEST_F(DistrustTest, ARankIsLookedAtBeforeATurnIsGranted) {
    const Forgetful forgetful;
    Driver driver(small_device(), forgetful, fallback_policy());
    const ClientId a = driver.enter();
    driver.boundary(a);
    EXPECT_EQ(driver.faults(), "");
    driver.pass(seconds(1));
    driver.boundary(a);
    EXPECT_EQ(driver.faults(), "fall-back rank-not-finite");
    EXPECT_EQ(driver.turns(), "grant A 0");
}

TEST_F(DistrustTest, AfterAFallBackOneRunsAtATime) {
    const Forgetful forgetful;
    Driver driver(small_device(), forgetful, fallback_policy());
    const ClientId a = driver.enter({.occupancy = 0.5});
    const ClientId b = driver.enter({.occupancy = 0.5});
    EXPECT_TRUE(driver.runs(a) && driver.runs(b));
    driver.pass(seconds(1));
    driver.boundary(b);
    EXPECT_EQ(driver.faults(), "fall-back rank-not-finite");
    driver.play(milliseconds(20));
    EXPECT_TRUE(driver.runs(a));
    EXPECT_FALSE(driver.runs(b)) << "A came first, and has the device to itself";
}

TEST_F(DistrustTest, InStrictModeAMisbehavingPolicyIsAFailedCheck) {
    for (const NonsenseRow& row : kNonsense) {
        SCOPED_TRACE(static_cast<int>(row.kind));
        const Nonsense nonsense(row.kind);
        EngineOptions options = small_device();
        options.strict = true;
        Driver driver(options, nonsense, fallback_policy());
        const ClientId a = driver.attach();
        EXPECT_THROW(driver.want(a), CheckFailure);
    }
}

TEST_F(DistrustTest, AFallbackThatMisbehavesIsAFailedCheck) {
    const Nonsense nonsense(Nonsense::Kind::kNobody);
    Driver driver(small_device(), nonsense, nonsense);
    const ClientId a = driver.attach();
    EXPECT_THROW(driver.want(a), CheckFailure);
}

}  // namespace
}  // namespace salus
