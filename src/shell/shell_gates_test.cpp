// Gates and their clients, as the shell sees them.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attachment/request_marks.h"
#include "policies/table.h"
#include "shell/shell.h"

namespace salus::shell {
namespace {

/// A device with gates, and clients that do as they are told.
struct Machine : Clock, Connections, DeviceMemory, Processes, Journal {
    Instant now() const override { return time; }

    Sent send(ConnectionId to, const wire::Message& message) override {
        if (to == gone) return Sent::kGone;
        said.emplace_back(to, message);
        return Sent::kYes;
    }
    Result<Sent> send_pieces(ConnectionId, LaneId, std::size_t, std::size_t) override { return Sent::kYes; }
    void hang_up(ConnectionId) override {}
    void wake(ControlPage&) override {}

    std::string_view name() const override { return "a device"; }
    std::string identity() const override { return ""; }
    Bytes capacity() const override { return mebibytes(1000); }
    bool has_gates() const override { return true; }
    Result<bool> provide(LaneId, Bytes) override { return true; }
    std::size_t pieces_for(Bytes) const override { return 0; }
    void trim(LaneId, Bytes) override {}
    void release(LaneId) override {}
    bool renew(LaneId) override { return false; }
    bool is_mapped_in(int) const override { return true; }
    std::optional<Usage> usage(const std::vector<int>&) const override { return std::nullopt; }

    bool is_alive(const ProcessId&) const override { return true; }
    bool is_stopped(int) const override { return false; }
    Duration cpu_time_of(int) const override { return Duration{time.ns}; }
    bool is_busy(int) const override { return true; }

    void record(const Event&, Instant, std::span<const Action>) override {}
    void name_client(ClientId, std::uint32_t, std::string_view) override {}
    std::vector<RosterEntry> read_roster() override { return {}; }
    bool write_roster(const std::vector<RosterEntry>&) override { return true; }
    bool logs(LogLevel) const override { return false; }
    void log(LogLevel, std::string_view) override {}
    void log_of_peer(LogLevel, std::string_view) override {}

    Instant time = Instant{} + seconds(100);
    ConnectionId gone = 0;
    std::vector<std::pair<ConnectionId, wire::Message>> said;
};

class ShellGatesTest : public testing::Test {
protected:
    ShellGatesTest() {
        training_ = attach(1, /*interactive=*/false);
        server_ = attach(2, /*interactive=*/true);
    }

    static Settings settings() {
        Settings settings;
        settings.engine.capacity = mebibytes(1000);
        settings.policy = find_policy("rr");
        settings.fallback = &fallback_policy();
        return settings;
    }
    /// ... and it runs.
    Session* attach(ConnectionId connection, bool interactive) {
        auto session = std::make_unique<Session>();
        session->id = shell_.lowest_free_id();
        session->process.pid = static_cast<int>(connection);
        session->connection = connection;
        session->page = std::make_shared<ControlPage>();
        wire::Attach attach;
        attach.job = connection;
        attach.occupancy = attach.weight = 1;
        attach.flags = wire::Attach::kProfiled | wire::Attach::kClassSaid;
        if (interactive) attach.flags |= wire::Attach::kInteractive;
        attach.persistent = attach.ephemeral = 1 << 20;
        Result<Session*> added = shell_.attach(std::move(session), attach);
        EXPECT_TRUE(added.ok());
        Session& s = *added.value();
        acknowledge();
        control::Word wants;
        wants.want = true;
        s.page->word = control::pack(wants);
        shell_.notified(s);
        acknowledge();
        EXPECT_TRUE(s.word().holds());
        return &s;
    }
    void acknowledge() {
        for (const auto& [to, message] : std::exchange(machine_.said, {})) {
            const auto* map = std::get_if<wire::MapLane>(&message);
            if (!map) continue;
            for (const auto& [id, session] : shell_.sessions()) {
                if (session->connection != to) continue;
                shell_.message(*session, wire::Acknowledge{map->lane, map->version});
                break;
            }
        }
    }
    GatePage& gate_of(const Session* session) { return session->page->gates; }
    /// A request begins, for which gates are closed.
    void ask() {
        marks_.emplace(gate_of(server_));
        EXPECT_TRUE(marks_->begin());
        shell_.notified(*server_);
    }
    void pass(Duration time) {
        machine_.time = machine_.time + time;
        shell_.tick();
    }

    Machine machine_;
    Shell shell_{settings(), {machine_, machine_, machine_, machine_, machine_}};
    Session* training_ = nullptr;
    Session* server_ = nullptr;
    std::optional<attachment::RequestMarks> marks_;
};

TEST_F(ShellGatesTest, AClientThatOpensItsGateMeanwhileFindsItClosedAgain) {
    ask();
    EXPECT_FALSE(gate_of(training_).is_open());
    gate_of(training_).open();
    pass(milliseconds(1));
    EXPECT_FALSE(gate_of(training_).is_open());
    EXPECT_TRUE(gate_of(server_).is_open());
}

TEST_F(ShellGatesTest, AClientThatRunsAgainWithoutAWordIsStoppedToo) {
    const auto set = [&](control::State state) {
        control::Word word = training_->word();
        word.state = state;
        training_->page->word = control::pack(word);
    };
    set(control::State::kIdle);
    attach(3, /*interactive=*/true);  // whoever wants to run has the service look at the holders
    ASSERT_EQ(shell_.engine().find(training_->id)->turn(), Turn::kHoldingIdle);
    pass(Gates::kStillBusy * 2);
    set(control::State::kRunning);
    ask();
    EXPECT_FALSE(gate_of(training_).is_open());
}

TEST_F(ShellGatesTest, TheGateOfAClientThatCannotBeReachedStaysOpen) {
    ask();
    ASSERT_FALSE(gate_of(training_).is_open());
    shell_.disconnected(*training_);
    EXPECT_TRUE(gate_of(training_).is_open()) << "its helper may be gone, and we may be killed";
    pass(milliseconds(1));
    EXPECT_TRUE(gate_of(training_).is_open());
    EXPECT_EQ(shell_.sessions().size(), 2u) << "its process is still there";
}

TEST_F(ShellGatesTest, WhoLeavesGoesOn) {
    ask();
    const std::shared_ptr<ControlPage> page = training_->page;
    page->word = 0;
    shell_.notified(*training_);
    gate_of(training_).close();
    shell_.message(*training_, wire::Leave{});
    EXPECT_TRUE(page->gates.is_open());
}

TEST_F(ShellGatesTest, LooksSeldomAtARequestThatDoesNotEnd) {
    ask();
    EXPECT_LE(shell_.next_tick() - machine_.time, Shell::kLookWhileClosed);
    pass(milliseconds(200));
    ASSERT_FALSE(shell_.engine().gates().are_closed());
    EXPECT_EQ(shell_.next_tick() - machine_.time, Shell::kLookEvery);
    pass(seconds(1));
    EXPECT_EQ(shell_.next_tick() - machine_.time, Shell::kLookSeldom);
    EXPECT_TRUE(marks_->begin());
    shell_.notified(*server_);
    EXPECT_LE(shell_.next_tick() - machine_.time, Shell::kLookEvery) << "another has begun";
}

}  // namespace
}  // namespace salus::shell
