#include "core/lanes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"

namespace salus {
namespace {

constexpr UserId kAnn{1};
constexpr UserId kBob{2};
constexpr ClientId kFirst{10};
constexpr ClientId kSecond{11};
constexpr ClientId kStranger{99};

constexpr Bytes b(std::int64_t n) { return {n}; }

/// A failed check throws, and the old handler is back afterwards.
class LanesTest : public testing::Test {
protected:
    ~LanesTest() override { set_check_handler(old_); }

    /// Joins and has the mapping made, as the engine sees it when all is quiet.
    void settle(LaneId lane, ClientId client, std::int64_t ephemeral) {
        ASSERT_TRUE(lanes.acknowledge(lane, client, lanes.join(lane, client, b(ephemeral)).version));
    }
    std::uint32_t version_of(LaneId lane, ClientId client) { return lanes.at(lane).mapping(client)->version; }
    std::int64_t total() const { return lanes.total_charge().count; }

    Lanes lanes;

private:
    CheckHandler old_ = set_check_handler(throw_check_failure);
};

// Placement.

struct LaneSetup {
    UserId user;
    std::int64_t size;
    enum class State { kUsed, kBlocked, kParted, kNeverJoined } state = State::kUsed;
    std::int64_t charge = 0;  ///< if more than size: it was that large, and its member has not unmapped yet
};
using enum LaneSetup::State;

Lanes make(const std::vector<LaneSetup>& setups) {
    Lanes lanes;
    for (std::size_t i = 0; i < setups.size(); ++i) {
        const auto& [user, size, state, charge] = setups[i];
        const ClientId client{static_cast<std::uint32_t>(i)};
        const LaneId lane = lanes.open(user, b(std::max(size, charge)));
        if (state == kNeverJoined) continue;
        lanes.acknowledge(lane, client, lanes.join(lane, client, b(size)).version);
        if (charge > size) lanes.resize(lane, b(size));
        if (state == kParted) lanes.part(lane, client);
        lanes.at(lane).blocked = state == kBlocked;
    }
    return lanes;
}

std::string shown(const std::optional<Placement>& p) {
    if (!p) return "none";
    const std::string lane = p->lane == kNoLane ? "" : " " + std::to_string(index_of(p->lane));
    const char* kind = p->kind == Placement::Kind::kOpen ? "open" : p->kind == Placement::Kind::kJoin ? "join" : "grow";
    return kind + lane + " to " + std::to_string(p->size.count);
}

TEST(LanesPlace, FollowsTheStepsInOrder) {
    const struct {
        const char* what;
        std::vector<LaneSetup> lanes;
        std::int64_t persistent, ephemeral;
        bool may_open, may_share;
        std::int64_t free;
        const char* expected;
    } kCases[] = {
        // Step 1: open while it is wanted and fits.
        {"the first lane", {}, 3, 7, true, true, 10, "open to 7"},
        {"one byte short", {}, 3, 7, true, true, 9, "none"},
        {"opens although another would fit", {{kAnn, 7}}, 3, 7, true, true, 10, "open to 7"},
        {"no room to open: joins", {{kAnn, 7}}, 3, 7, true, true, 9, "join 0 to 7"},
        {"opening is not wanted: joins", {{kAnn, 7}}, 3, 7, false, true, 100, "join 0 to 7"},
        {"nothing is needed: opens an empty lane", {}, 0, 0, true, true, 0, "open to 0"},
        // Step 2: best fit, wherever it stands.
        {"best fit is not the first", {{kAnn, 9}, {kAnn, 6}, {kAnn, 5}, {kAnn, 4}}, 0, 5, false, true, 0, "join 2 to 5"},
        {"best fit is not the last", {{kAnn, 4}, {kAnn, 6}, {kAnn, 9}}, 0, 5, false, true, 100, "join 1 to 6"},
        {"equally good: the older", {{kAnn, 6}, {kAnn, 6}}, 0, 5, false, true, 0, "join 0 to 6"},
        {"joins rather than grows", {{kAnn, 2}, {kAnn, 50}}, 0, 5, false, true, 100, "join 1 to 50"},
        {"joining takes no room but P's", {{kAnn, 9}}, 3, 9, false, true, 3, "join 0 to 9"},
        // Step 3: the smallest lane whose growth fits.
        {"grows the smallest", {{kAnn, 6}, {kAnn, 4}, {kAnn, 5}}, 0, 10, false, true, 6, "grow 1 to 10"},
        {"the smallest would not fit", {{kAnn, 6}, {kAnn, 4}, {kAnn, 5}}, 0, 10, false, true, 5, "grow 2 to 10"},
        {"only the largest fits", {{kAnn, 5}, {kAnn, 4}, {kAnn, 6}}, 0, 10, false, true, 4, "grow 2 to 10"},
        {"none fits", {{kAnn, 6}, {kAnn, 4}, {kAnn, 5}}, 0, 10, false, true, 3, "none"},
        {"growth comes after P", {{kAnn, 6}}, 1, 10, false, true, 4, "none"},
        {"no room to open: grows", {{kAnn, 6}}, 1, 10, true, true, 5, "grow 0 to 10"},
        {"what is charged already is not charged again", {{kAnn, 6, kUsed, 9}}, 0, 10, false, true, 1, "grow 0 to 10"},
        {"grows within its old charge for nothing", {{kAnn, 6, kUsed, 12}}, 0, 10, false, true, 0, "grow 0 to 10"},
        {"its charge is not its size", {{kAnn, 6, kUsed, 12}, {kAnn, 11}}, 0, 10, false, true, 0, "join 1 to 11"},
        // P must fit, whatever the lanes.
        {"P does not fit", {{kAnn, 9}}, 4, 5, true, true, 3, "none"},
        {"in debt nobody enters", {{kAnn, 9}}, 0, 5, true, true, -1, "none"},
        // Users.
        {"users never share", {{kBob, 9}}, 0, 5, true, true, 4, "none"},
        {"nor grow each other's lanes", {{kBob, 4}}, 0, 5, true, true, 4, "none"},
        {"joins its user's, not the best", {{kBob, 5}, {kAnn, 9}}, 0, 5, false, true, 0, "join 1 to 9"},
        {"grows its user's, not the smallest", {{kBob, 2}, {kAnn, 4}}, 0, 5, false, true, 3, "grow 1 to 5"},
        {"a user without a lane opens unasked", {{kBob, 9}}, 1, 5, false, true, 6, "open to 5"},
        {"if it fits", {{kBob, 9}}, 1, 5, false, true, 5, "none"},
        // Lanes that nobody joins.
        {"blocked", {{kAnn, 5, kBlocked}, {kAnn, 9}}, 0, 5, false, true, 100, "join 1 to 9"},
        {"blocked is not grown", {{kAnn, 4, kBlocked}, {kAnn, 5}}, 0, 6, false, true, 100, "grow 1 to 6"},
        {"only blocked ones: opens unasked", {{kAnn, 9, kBlocked}}, 0, 5, false, true, 5, "open to 5"},
        {"its member has left", {{kAnn, 5, kParted}, {kAnn, 9}}, 0, 5, false, true, 100, "join 1 to 9"},
        {"nobody has come", {{kAnn, 5, kNeverJoined}, {kAnn, 9}}, 0, 5, false, true, 100, "join 1 to 9"},
        {"only emptied ones: opens unasked", {{kAnn, 9, kParted}}, 0, 5, false, true, 5, "open to 5"},
        {"only emptied ones and no room", {{kAnn, 9, kParted}}, 0, 5, false, true, 4, "none"},
        // A policy that does not share lanes.
        {"alone: opens", {{kAnn, 9}}, 0, 5, true, false, 5, "open to 5"},
        {"alone: does not join", {{kAnn, 9}}, 0, 5, true, false, 4, "none"},
        {"alone: does not grow", {{kAnn, 4}}, 0, 5, true, false, 4, "none"},
        {"alone: has its lane, and no more are wanted", {{kAnn, 9}}, 0, 5, false, false, 100, "none"},
    };
    for (const auto& c : kCases) {
        const Lanes lanes = make(c.lanes);
        const PlacementRequest request{kAnn, b(c.persistent), b(c.ephemeral), c.may_open, c.may_share};
        EXPECT_EQ(shown(lanes.place(request, b(c.free))), c.expected) << c.what;
    }
}

// Charges.

TEST_F(LanesTest, OpeningIsChargedAtOnce) {
    const LaneId first = lanes.open(kAnn, b(5));
    const LaneId second = lanes.open(kBob, b(7));
    EXPECT_NE(first, second);
    EXPECT_EQ(lanes.at(second).user, kBob);
    EXPECT_EQ(total(), 12);
    settle(first, kFirst, 5);
    EXPECT_EQ(total(), 12);  // the lane, not its members, is charged
}

TEST_F(LanesTest, JoiningAsksForTheWholeLane) {
    const LaneId lane = lanes.open(kAnn, b(9));
    const Mapping asked = lanes.join(lane, kFirst, b(4));
    EXPECT_TRUE(asked.member && !asked.settled);
    EXPECT_EQ(asked.target, b(9));
    EXPECT_EQ(lanes.at(lane).required(), b(4));
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, asked.version));
    EXPECT_TRUE(lanes.at(lane).mapping(kFirst)->settled);
    settle(lane, kSecond, 6);
    EXPECT_EQ(lanes.at(lane).required(), b(6));
}

TEST_F(LanesTest, GrowthIsChargedAtOnce) {
    const LaneId lane = lanes.open(kAnn, b(5));
    settle(lane, kFirst, 5);
    lanes.resize(lane, b(8));
    EXPECT_EQ(total(), 8);
    EXPECT_FALSE(lanes.at(lane).mapping(kFirst)->settled);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, version_of(lane, kFirst)));
    EXPECT_EQ(total(), 8);
}

TEST_F(LanesTest, ShrinkingStaysChargedUntilTheLastHasUnmapped) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kFirst, 3);
    settle(lane, kSecond, 4);
    lanes.resize(lane, b(5));
    EXPECT_EQ(lanes.at(lane).size, b(5));
    EXPECT_EQ(total(), 9);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, version_of(lane, kFirst)));
    EXPECT_EQ(total(), 9);
    EXPECT_TRUE(lanes.acknowledge(lane, kSecond, version_of(lane, kSecond)));
    EXPECT_EQ(total(), 5);
}

TEST_F(LanesTest, ANewcomerToAShrunkenLaneNeverHadTheOldSize) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kFirst, 3);
    lanes.resize(lane, b(5));
    const std::uint32_t newcomer = lanes.join(lane, kSecond, b(5)).version;
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, version_of(lane, kFirst)));
    EXPECT_EQ(total(), 5);
    EXPECT_TRUE(lanes.acknowledge(lane, kSecond, newcomer));
    EXPECT_EQ(total(), 5);
}

TEST_F(LanesTest, PartingStaysChargedUntilThatRequestIsAcknowledged) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kSecond, 2);
    settle(lane, kFirst, 9);
    const Mapping parting = lanes.part(lane, kFirst);
    EXPECT_FALSE(parting.member);
    EXPECT_EQ(parting.target, b(0));
    EXPECT_EQ(lanes.at(lane).required(), b(2));
    lanes.resize(lane, b(2));  // asks only members: the request to unmap stands
    EXPECT_EQ(version_of(lane, kFirst), parting.version);
    EXPECT_TRUE(lanes.acknowledge(lane, kSecond, version_of(lane, kSecond)));
    EXPECT_EQ(total(), 9);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, parting.version));
    EXPECT_EQ(total(), 2);
    EXPECT_EQ(lanes.at(lane).mapping(kFirst), nullptr);
    EXPECT_FALSE(lanes.acknowledge(lane, kFirst, parting.version));
}

TEST_F(LanesTest, StaleAcknowledgementsAreAcceptedAndIgnored) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kFirst, 3);
    lanes.resize(lane, b(5));
    const std::uint32_t shrink = version_of(lane, kFirst);
    lanes.resize(lane, b(7));
    const std::uint32_t grow = version_of(lane, kFirst);
    EXPECT_LT(shrink, grow);
    EXPECT_EQ(total(), 9);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, shrink));
    EXPECT_EQ(total(), 9);
    EXPECT_FALSE(lanes.at(lane).mapping(kFirst)->settled);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, grow));
    EXPECT_EQ(total(), 7);
    // A late answer to the first request must not undo the last.
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, shrink));
    EXPECT_TRUE(lanes.at(lane).mapping(kFirst)->settled);
    EXPECT_EQ(total(), 7);
}

TEST_F(LanesTest, ComingBackBeforeUnmappingKeepsTheMapping) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kFirst, 3);
    const std::uint32_t unmap = lanes.part(lane, kFirst).version;
    const std::uint32_t again = lanes.join(lane, kFirst, b(4)).version;
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, unmap));
    ASSERT_NE(lanes.at(lane).mapping(kFirst), nullptr);
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, again));
    EXPECT_TRUE(lanes.at(lane).mapping(kFirst)->member);
    EXPECT_EQ(lanes.at(lane).mappings.size(), 1u);
    EXPECT_EQ(lanes.at(lane).required(), b(4));
    EXPECT_EQ(total(), 9);
}

TEST_F(LanesTest, UnknownAcknowledgementsAreRejected) {
    const LaneId lane = lanes.open(kAnn, b(9));
    const LaneId other = lanes.open(kAnn, b(9));
    const std::uint32_t version = lanes.join(lane, kFirst, b(3)).version;
    const struct {
        const char* what;
        LaneId lane;
        ClientId client;
        std::uint32_t version;
    } kCases[] = {
        {"no such lane", LaneId{77}, kFirst, version},
        {"never in this lane", other, kFirst, version},
        {"no such client", lane, kStranger, version},
        {"not asked yet", lane, kFirst, version + 1},
    };
    for (const auto& c : kCases) EXPECT_FALSE(lanes.acknowledge(c.lane, c.client, c.version)) << c.what;
    EXPECT_TRUE(lanes.acknowledge(lane, kFirst, version));
    EXPECT_FALSE(lanes.acknowledge(lane, kFirst, version)) << "twice";
    EXPECT_EQ(total(), 18);
}

TEST_F(LanesTest, ForgettingFreesADeadClientsShareEverywhere) {
    const LaneId lane = lanes.open(kAnn, b(9));
    const LaneId left = lanes.open(kAnn, b(6));
    settle(lane, kFirst, 9);
    settle(lane, kSecond, 2);
    settle(left, kFirst, 6);
    lanes.part(left, kFirst);
    lanes.close_empty();
    lanes.part(lane, kFirst);
    lanes.resize(lane, b(2));
    EXPECT_TRUE(lanes.acknowledge(lane, kSecond, version_of(lane, kSecond)));
    EXPECT_EQ(total(), 15);
    lanes.forget(kFirst);
    EXPECT_EQ(total(), 2);
    EXPECT_EQ(lanes.at(lane).required(), b(2));
    EXPECT_FALSE(lanes.acknowledge(lane, kFirst, 1));
    lanes.forget(kStranger);
    EXPECT_EQ(total(), 2);
}

TEST_F(LanesTest, EmptyLanesCloseWhenTheLastHasUnmapped) {
    const LaneId used = lanes.open(kAnn, b(2));
    const LaneId mapped = lanes.open(kAnn, b(9));
    const LaneId untouched = lanes.open(kBob, b(5));
    settle(used, kSecond, 0);  // a member that needs nothing is a member
    settle(mapped, kFirst, 9);
    const std::uint32_t unmap = lanes.part(mapped, kFirst).version;
    EXPECT_EQ(total(), 16);
    lanes.close_empty();
    EXPECT_EQ(lanes.find(untouched), nullptr);
    ASSERT_NE(lanes.find(mapped), nullptr);
    EXPECT_EQ(total(), 11);
    EXPECT_TRUE(lanes.acknowledge(mapped, kFirst, unmap));
    EXPECT_EQ(total(), 2);
    lanes.close_empty();
    EXPECT_EQ(lanes.find(mapped), nullptr);
    EXPECT_NE(lanes.find(used), nullptr);
    EXPECT_EQ(lanes.all().size(), 1u);
    EXPECT_GT(lanes.open(kAnn, b(1)), untouched) << "ids are not reused";
}

TEST_F(LanesTest, BrokenContractsFailTheCheck) {
    const LaneId lane = lanes.open(kAnn, b(9));
    settle(lane, kFirst, 5);
    EXPECT_THROW(lanes.resize(lane, b(4)), CheckFailure);
    EXPECT_THROW(lanes.join(lane, kSecond, b(10)), CheckFailure);
    EXPECT_THROW(lanes.part(lane, kSecond), CheckFailure);
    EXPECT_THROW(lanes.at(LaneId{77}), CheckFailure);
    lanes.resize(lane, b(5));
    lanes.part(lane, kFirst);
    EXPECT_THROW(lanes.part(lane, kFirst), CheckFailure) << "it left already";
    lanes.at(lane).holder = kFirst;
    EXPECT_THROW(lanes.close_empty(), CheckFailure) << "in use";
}

// Lanes against a naive model, over random sequences of operations.

/// What really is in one client for one lane, and what the service may conclude from the answers so far.
struct ModelMapping {
    bool member = true;
    std::int64_t ephemeral = 0;
    std::int64_t mapped = 0;                                      ///< in the client
    std::deque<std::pair<std::uint32_t, std::int64_t>> requests;  ///< not carried out yet
    std::vector<std::int64_t> possible;                           ///< sizes not ruled out by an answer to the newest request

    void ask(std::uint32_t version, std::int64_t size) {
        requests.emplace_back(version, size);
        possible.push_back(size);
    }
};

struct ModelLane {
    UserId user{};
    std::int64_t size = 0;
    std::map<ClientId, ModelMapping> mappings;

    bool has_members() const {
        return std::any_of(mappings.begin(), mappings.end(), [](const auto& m) { return m.second.member; });
    }
    std::int64_t required() const {
        std::int64_t most = 0;
        for (const auto& [client, m] : mappings) most = std::max(most, m.member ? m.ephemeral : 0);
        return most;
    }
    std::int64_t charge() const {
        std::int64_t most = size;
        for (const auto& [client, m] : mappings) {
            for (std::int64_t possible : m.possible) most = std::max(most, possible);
        }
        return most;
    }
};

class LanesWalk {
public:
    explicit LanesWalk(std::uint64_t seed) : random_(seed) {}

    void step() {
        const LaneId lane = any_lane();
        const ClientId client{static_cast<std::uint32_t>(random_.below(4))};
        switch (random_.below(10)) {
            case 0: admit(client); break;
            case 1:
                if (lane != kNoLane) join(lane, client, upto(model_[lane].size));
                break;
            case 2: part(lane, client); break;
            case 3:
                if (lane != kNoLane) resize(lane, model_[lane].required() + upto(8));
                break;
            case 4: forget(client); break;
            case 5: close_empty(); break;
            case 6: answer_nonsense(lane, client); break;
            default: answer(lane, client); break;
        }
    }

    void compare() const {
        std::int64_t total = 0;
        ASSERT_EQ(lanes_.all().size(), model_.size());
        for (const auto& [id, expected] : model_) {
            const Lane* lane = lanes_.find(id);
            ASSERT_NE(lane, nullptr);
            EXPECT_EQ(lane->size.count, expected.size);
            EXPECT_EQ(lane->charge.count, expected.charge());
            EXPECT_EQ(lane->required().count, expected.required());
            EXPECT_EQ(lane->has_members(), expected.has_members());
            EXPECT_EQ(lane->mappings.size(), expected.mappings.size());
            // What all of it is for: nobody has more mapped than is charged.
            for (const auto& [client, m] : expected.mappings) EXPECT_LE(m.mapped, lane->charge.count);
            total += expected.charge();
        }
        EXPECT_EQ(lanes_.total_charge().count, total);
    }

    bool all_kinds_of_answers_came() const { return stale_ > 0 && newest_ > 0 && rejected_ > 0; }

private:
    static constexpr std::int64_t kCapacity = 60;

    std::int64_t upto(std::int64_t high) { return random_.integer(0, high); }

    LaneId any_lane() {
        if (model_.empty()) return kNoLane;
        return std::next(model_.begin(), static_cast<std::ptrdiff_t>(random_.below(model_.size())))->first;
    }

    ModelMapping* find(LaneId lane, ClientId client) {
        if (lane == kNoLane || !model_[lane].mappings.contains(client)) return nullptr;
        return &model_[lane].mappings[client];
    }

    /// As the engine does it, and what was free beforehand suffices.
    void admit(ClientId client) {
        const UserId user{static_cast<std::uint32_t>(random_.below(2))};
        const std::int64_t ephemeral = upto(20);
        const Bytes before = lanes_.total_charge();
        const PlacementRequest request{user, {}, b(ephemeral), random_.chance(0.5), random_.chance(0.9)};
        const auto placement = lanes_.place(request, b(kCapacity) - before);
        if (!placement) return;
        LaneId lane = placement->lane;
        if (placement->kind == Placement::Kind::kOpen) {
            lane = lanes_.open(user, placement->size);
            ASSERT_FALSE(model_.contains(lane));
            model_[lane] = {user, placement->size.count, {}};
        } else if (placement->kind == Placement::Kind::kGrow) {
            resize(lane, placement->size.count);
        }
        EXPECT_EQ(model_[lane].user, user);
        join(lane, client, ephemeral);
        EXPECT_LE(lanes_.total_charge(), b(kCapacity));
    }

    void join(LaneId id, ClientId client, std::int64_t ephemeral) {
        const Mapping& asked = lanes_.join(id, client, b(ephemeral));
        ModelMapping& m = model_[id].mappings[client];
        m.member = true;
        m.ephemeral = ephemeral;
        m.ask(asked.version, model_[id].size);
        EXPECT_EQ(asked.target.count, model_[id].size);
    }

    void part(LaneId id, ClientId client) {
        ModelMapping* m = find(id, client);
        if (!m || !m->member) return;
        m->member = false;
        m->ask(lanes_.part(id, client).version, 0);
    }

    void resize(LaneId id, std::int64_t size) {
        lanes_.resize(id, b(size));
        model_[id].size = size;
        for (auto& [client, m] : model_[id].mappings) {
            if (m.member) m.ask(lanes_.at(id).mapping(client)->version, size);
        }
    }

    void forget(ClientId client) {
        lanes_.forget(client);
        for (auto& [id, lane] : model_) lane.mappings.erase(client);
    }

    void close_empty() {
        lanes_.close_empty();
        for (auto& [id, lane] : model_) lane.size = lane.has_members() ? lane.size : 0;
        std::erase_if(model_, [](const auto& lane) { return lane.second.mappings.empty(); });
    }

    /// The client carries out its oldest request and says so.
    void answer(LaneId id, ClientId client) {
        ModelMapping* m = find(id, client);
        if (!m || m->requests.empty()) return;
        const auto [version, size] = m->requests.front();
        m->requests.pop_front();
        m->mapped = size;
        EXPECT_TRUE(lanes_.acknowledge(id, client, version));
        if (!m->requests.empty()) {
            ++stale_;
            return;
        }
        ++newest_;
        m->possible = {size};
        if (!m->member) model_[id].mappings.erase(client);
    }

    void answer_nonsense(LaneId id, ClientId client) {
        const ModelMapping* m = find(id, client);
        const std::uint32_t newest = m ? lanes_.at(id).mapping(client)->version : 0;
        // Nothing is outstanding, or it is not this.
        const bool repeats = m && m->requests.empty();
        const std::uint32_t version = repeats ? newest : newest + 1 + static_cast<std::uint32_t>(random_.below(3));
        EXPECT_FALSE(lanes_.acknowledge(id, client, version));
        ++rejected_;
    }

    Random random_;
    Lanes lanes_;
    std::map<LaneId, ModelLane> model_;
    int stale_ = 0;
    int newest_ = 0;
    int rejected_ = 0;
};

TEST_F(LanesTest, AgreesWithANaiveModel) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        LanesWalk walk(seed);
        for (int i = 0; i < 400; ++i) {
            SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(i));
            walk.step();
            walk.compare();
            if (HasFailure()) return;
        }
        EXPECT_TRUE(walk.all_kinds_of_answers_came());
    }
}

}  // namespace
}  // namespace salus
