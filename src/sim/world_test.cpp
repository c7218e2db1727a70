// The service's shell over the simulated world, one step at a time.
#include "sim/world.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/table.h"
#include "shell/shell.h"

namespace salus::sim {
namespace {

TEST(ShellOverWorld, WhatAProcessUsesBesideManagedMemoryFallsWhenThatIsSeenTwice) {
    World world(gibibytes(16), /*is_gpu=*/true, /*clients=*/1, [](const Event&, Instant, std::span<const Action>) {});
    world.set_others(Bytes{});
    SimulatedClient& client = world.clients.front();
    client.phase = SimulatedClient::Phase::kOnHost;
    client.context = mebibytes(600);

    shell::Settings settings;
    settings.engine.capacity = gibibytes(16);
    settings.policy = find_policy("fair");
    settings.fallback = &fallback_policy();
    shell::Shell shell(settings, world.ports());
    auto joining = std::make_unique<shell::Session>();
    joining->id = ClientId{0};
    joining->process = World::process_of(ClientId{0});
    joining->connection = world.connect(ClientId{0});
    joining->page = client.page;
    const Result<shell::Session*> attached = shell.attach(std::move(joining), {});
    ASSERT_TRUE(attached.ok()) << attached.error();
    const shell::Session& session = *attached.value();

    struct Row {
        int seen_mib;
        int counts_mib;
    } rows[] = {{600, 600}, {50, 600}, {600, 600}, {700, 700}, {200, 700}, {200, 200}};
    for (const Row& row : rows) {
        client.context = mebibytes(row.seen_mib);
        shell.look_at_usage();
        EXPECT_EQ(session.overhead, mebibytes(row.counts_mib)) << "seen: " << row.seen_mib;
    }
}

/// A service's shell with a GPU of 1 GiB. The test says what the clients do.
class ShellOverGpu : public ::testing::Test {
protected:
    ShellOverGpu()
        : world_(gibibytes(1), /*is_gpu=*/true, /*clients=*/2,
                 [this](const Event& event, Instant, std::span<const Action>) { events_.push_back(event); }),
          shell_(settings(), world_.ports()) {
        world_.set_others(Bytes{});
    }

    static shell::Settings settings() {
        shell::Settings settings;
        settings.engine.capacity = gibibytes(1);
        settings.engine.lanes_max = 2;
        settings.policy = find_policy("fair");
        settings.fallback = &fallback_policy();
        return settings;
    }
    SimulatedClient& process(ClientId id) { return world_.clients[index_of(id)]; }
    const Client& client(ClientId id) const { return *shell_.engine().find(id); }

    shell::Session& attach(ClientId id, const wire::Attach& attach = {}) {
        process(id).phase = SimulatedClient::Phase::kOnHost;
        auto joining = std::make_unique<shell::Session>();
        joining->id = id;
        joining->process = World::process_of(id);
        joining->connection = world_.connect(id);
        joining->page = process(id).page;
        process(id).page->wanted_persistent = attach.persistent;
        process(id).page->wanted_ephemeral = attach.ephemeral;
        return *shell_.attach(std::move(joining), attach).value();
    }
    void want(ClientId id) {
        process(id).turn.begin(0);
        shell_.notified(*shell_.find(id));
    }
    /// It is inside an iteration of a granted turn.
    void enter(ClientId id) { EXPECT_TRUE(process(id).turn.begin(0).entry.has_value()); }
    /// The iteration ends, and with it the turn.
    void leave(ClientId id) {
        process(id).turn.leave();
        process(id).turn.finish(0, 1);
        process(id).turn.settle(/*clean=*/true, /*drained=*/true);
        shell_.notified(*shell_.find(id));
    }
    /// A client with a profile, inside an iteration in a lane of its own.
    void start(ClientId id, Bytes persistent, Bytes ephemeral) {
        wire::Attach with;
        with.flags = wire::Attach::kProfiled;
        with.persistent = static_cast<std::uint64_t>(persistent.count);
        with.ephemeral = static_cast<std::uint64_t>(ephemeral.count);
        attach(id, with);
        want(id);
        serve();
        enter(id);
    }
    void need(ClientId id, std::uint64_t number, Bytes persistent, Bytes ephemeral) {
        shell_.message(*shell_.find(id), wire::Need{number, static_cast<std::uint64_t>(persistent.count),
                                                    static_cast<std::uint64_t>(ephemeral.count)});
    }

    /// The clients' helpers do what they are told. The answers to needs are kept.
    void serve() {
        for (auto mail = world_.take_mail(); !mail.empty(); mail = world_.take_mail()) {
            for (const World::Mail& letter : mail) {
                SimulatedClient& c = process(letter.to);
                if (const auto* map = std::get_if<wire::MapLane>(&letter.message)) {
                    c.mapped = SimulatedClient::Mapped{LaneId{map->lane}, Bytes{static_cast<std::int64_t>(map->size)}};
                    shell_.message(*shell_.find(letter.to), wire::Acknowledge{map->lane, map->version});
                } else if (const auto* unmap = std::get_if<wire::UnmapLane>(&letter.message)) {
                    c.mapped.reset();
                    shell_.message(*shell_.find(letter.to), wire::Acknowledge{unmap->lane, unmap->version});
                } else if (std::holds_alternative<wire::PageOut>(letter.message)) {
                    shell_.message(*shell_.find(letter.to), wire::PagedOut{});
                } else if (const auto* answer = std::get_if<wire::NeedAnswer>(&letter.message)) {
                    answers_.emplace_back(answer->need, answer->given != 0);
                }
            }
        }
    }
    void pass(Duration time) {
        for (const Instant end = world_.now() + time; world_.now() < end;) {
            world_.pass_time_until(world_.now() + milliseconds(10));
            shell_.tick();
            serve();
        }
    }
    template <typename T>
    std::vector<T> events_of(ClientId id) const {
        std::vector<T> found;
        for (const Event& event : events_) {
            if (const auto* e = std::get_if<T>(&event); e && e->client == id) found.push_back(*e);
        }
        return found;
    }

    using Answers = std::vector<std::pair<std::uint64_t, bool>>;  ///< number of the need, and whether it was given
    const ClientId a_{0}, b_{1};
    std::vector<Event> events_;
    Answers answers_;
    World world_;
    shell::Shell shell_;
};

// The library opens the device when it is welcome.
TEST_F(ShellOverGpu, AContextThatCameAfterTheWelcomeIsChargedBeforeTheFirstTurn) {
    attach(a_);
    EXPECT_EQ(client(a_).observed(), Bytes{});
    process(a_).context = mebibytes(64);
    want(a_);
    ASSERT_EQ(process(a_).word().state, control::State::kGranted);
    ASSERT_EQ(events_of<event::Observe>(a_).size(), 1u);
    EXPECT_EQ(client(a_).observed(), mebibytes(64));
    EXPECT_EQ(world_.now(), Instant{}) << "it was not found by chance";
}

TEST_F(ShellOverGpu, WhatAContextGrewByInAProfilingTurnIsInTheFirstStatement) {
    attach(a_);
    process(a_).context = mebibytes(64);
    want(a_);
    enter(a_);
    process(a_).context = mebibytes(200);
    process(a_).page->wanted_persistent = static_cast<std::uint64_t>(mebibytes(20).count);
    leave(a_);
    const auto stated = events_of<event::Demand>(a_);
    ASSERT_EQ(stated.size(), 1u);
    EXPECT_EQ(stated.front().persistent, mebibytes(220));
}

TEST_F(ShellOverGpu, AThreadWaitsForALaneThatTheDeviceHasNoMemoryForYet) {
    start(a_, mebibytes(16), mebibytes(64));
    world_.set_has_lane_memory(false);
    need(a_, 1, mebibytes(16), mebibytes(256));
    serve();
    pass(milliseconds(500));
    EXPECT_EQ(answers_, (Answers{{1, true}})) << "it has room, and waits for its lane";
    EXPECT_EQ(process(a_).mapped->size, mebibytes(64));
    world_.set_has_lane_memory(true);
    pass(milliseconds(60));
    EXPECT_EQ(process(a_).mapped->size, mebibytes(256));
    pass(seconds(20));
    EXPECT_EQ(answers_, (Answers{{1, true}}));
}

TEST_F(ShellOverGpu, NobodyWaitsForEverForALane) {
    start(a_, mebibytes(16), mebibytes(64));
    world_.set_has_lane_memory(false);
    need(a_, 1, mebibytes(16), mebibytes(256));
    const Duration patience = shell_.engine().options().deny_after;
    pass(patience - milliseconds(100));
    EXPECT_EQ(answers_, (Answers{{1, true}}));
    pass(milliseconds(200));
    EXPECT_EQ(answers_, (Answers{{1, true}, {1, false}}));
    need(a_, 2, mebibytes(16), mebibytes(256));
    serve();
    EXPECT_EQ(answers_.back(), (Answers::value_type{2, false})) << "it has waited for this";
    need(a_, 3, mebibytes(32), mebibytes(64));
    serve();
    EXPECT_EQ(answers_.back(), (Answers::value_type{3, true})) << "it needs no larger lane for this";
    pass(seconds(1));
    EXPECT_EQ(answers_.size(), 4u);
}

// So does whoever holds the memory make way, instead of the one who was promised it being out of memory.
TEST_F(ShellOverGpu, WhoWaitsForALaneAsksAgainWithWhatItsContextIsFoundToUse) {
    start(a_, mebibytes(80), mebibytes(448));
    start(b_, mebibytes(16), mebibytes(384));
    world_.set_has_lane_memory(false);  // the rest is b's context, of which nobody knows
    process(b_).context = mebibytes(64);
    need(b_, 1, mebibytes(16), mebibytes(448));
    serve();
    const auto needs = events_of<event::Need>(b_);
    ASSERT_EQ(needs.size(), 2u);
    EXPECT_EQ(needs.front().persistent, mebibytes(16));
    EXPECT_EQ(needs.back().persistent, mebibytes(80));
    EXPECT_TRUE(client(b_).stalled);
    EXPECT_TRUE(process(a_).word().yield) << "a is asked for its memory";
    EXPECT_EQ(answers_, (Answers{{1, true}}));
    process(a_).turn.wish();
    leave(a_);
    world_.set_has_lane_memory(true);
    serve();
    EXPECT_EQ(answers_, (Answers{{1, true}, {1, true}}));
    EXPECT_EQ(process(b_).mapped->size, mebibytes(448));
    EXPECT_EQ(client(b_).reserved(), mebibytes(80));
}

TEST_F(ShellOverGpu, ALaneIsMappedLateAlsoIfTheNeedForItWasNeverAnswered) {
    start(a_, mebibytes(80), mebibytes(448));
    start(b_, mebibytes(16), mebibytes(384));
    world_.set_has_lane_memory(false);
    process(b_).context = mebibytes(64);
    need(b_, 1, mebibytes(16), mebibytes(448));
    serve();
    ASSERT_TRUE(client(b_).stalled);
    pass(milliseconds(200));
    EXPECT_TRUE(client(b_).stalled) << "a is still inside";
    EXPECT_EQ(process(b_).mapped->size, mebibytes(384));
    process(b_).page->wanted_ephemeral = static_cast<std::uint64_t>(mebibytes(448).count);
    leave(b_);  // another thread was the one that asked
    EXPECT_TRUE(process(b_).turn.withdraw());
    shell_.notified(*shell_.find(b_));
    serve();
    EXPECT_EQ(answers_, (Answers{{1, true}, {1, false}}));
    leave(a_);
    serve();
    world_.set_has_lane_memory(true);
    want(b_);
    pass(milliseconds(200));
    EXPECT_EQ(process(b_).word().state, control::State::kGranted);
    EXPECT_EQ(process(b_).mapped->size, mebibytes(448));
}

TEST_F(ShellOverGpu, ALaneThatCouldNotBeMadeSmallerAtOnceIsMadeSmallerWhileItsClientAsks) {
    start(a_, mebibytes(16), mebibytes(448));
    world_.set_has_lane_memory(false);
    need(a_, 1, mebibytes(700), mebibytes(64));
    pass(milliseconds(200));
    EXPECT_EQ(process(a_).mapped->size, mebibytes(448));
    EXPECT_EQ(answers_, Answers{});
    world_.set_has_lane_memory(true);
    pass(milliseconds(60));
    EXPECT_EQ(process(a_).mapped->size, mebibytes(64));
    EXPECT_EQ(answers_, (Answers{{1, true}}));
}

// Else nobody who needs the whole device would ever come in.
TEST_F(ShellOverGpu, OthersThatAreAllGoneCountNoLongerHoweverLittleTheyHad) {
    struct Row {
        int others_mib, left_mib;
    };
    for (const Row& row : {Row{100, 924}, Row{96, 924}, Row{4, 1020}, Row{3, 1020}, Row{0, 1024}, Row{5, 1024}}) {
        world_.set_others(mebibytes(row.others_mib));
        shell_.look_at_usage();
        EXPECT_EQ(shell_.engine().capacity(), mebibytes(row.left_mib)) << row.others_mib;
    }
}

TEST_F(ShellOverGpu, WhoIsStalledAsksAgainWithWhatItsContextIsFoundToUse) {
    start(a_, mebibytes(80), mebibytes(448));
    start(b_, mebibytes(16), mebibytes(64));
    need(b_, 1, mebibytes(16), mebibytes(512));
    serve();
    ASSERT_TRUE(client(b_).stalled);
    process(b_).context = mebibytes(64);
    shell_.look_at_usage();
    EXPECT_EQ(events_of<event::Need>(b_).back().persistent, mebibytes(80));
    EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace salus::sim
