// A driver around the engine for tests: keeps virtual time, feeds events, answers what clients would answer by themselves,
// and writes down what the engine said in a form that fits on one line.
//
// Clients are called A, B, C ... in the order of their ids; sizes are in MiB. "map B 1:300" asks B to map lane 1 at 300 MiB.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "core/engine.h"
#include "policies/table.h"

namespace salus {

inline std::int64_t in_mib(Bytes bytes) { return bytes.count >> 20; }

inline std::string letter(ClientId client) {
    return client == kNoClient ? "nobody" : std::string(1, static_cast<char>('A' + index_of(client)));
}

/// One action in a few words.
struct Describe {
    std::string operator()(const action::Start& a) const {
        return fmt::format("start {}", static_cast<std::uint32_t>(a.job));
    }
    std::string operator()(const action::Admit& a) const { return fmt::format("admit {}", letter(a.client)); }
    std::string operator()(const action::Refuse& a) const { return too_much("refuse", a.client, a.need, a.capacity); }
    std::string operator()(const action::AssignLane& a) const { return of_lane("map", a.client, a.lane, a.size); }
    std::string operator()(const action::ResizeLane& a) const { return of_lane("resize", a.client, a.lane, a.size); }
    std::string operator()(const action::CloseLane& a) const {
        return fmt::format("unmap {} {}", letter(a.client), index_of(a.lane));
    }
    std::string operator()(const action::Grant& a) const {
        const std::string where = a.lane == kNoLane ? "private" : std::to_string(index_of(a.lane));
        return fmt::format("grant {} {}", letter(a.client), where);
    }
    std::string operator()(const action::Yield& a) const { return fmt::format("yield {}", letter(a.client)); }
    std::string operator()(const action::Revoke& a) const { return fmt::format("revoke {}", letter(a.client)); }
    std::string operator()(const action::Room& a) const { return of_client("room", a.client, a.persistent); }
    std::string operator()(const action::Deny& a) const { return too_much("deny", a.client, a.need, a.capacity); }
    std::string operator()(const action::PageOut& a) const { return of_client("page-out", a.client, a.persistent); }
    std::string operator()(const action::PageIn& a) const { return of_client("page-in", a.client, a.persistent); }
    std::string operator()(const action::Wait& a) const {
        const std::string behind = a.behind == kNoClient ? "" : " behind " + letter(a.behind);
        return fmt::format("wait {} {}{}", letter(a.client), name_of(a.reason), behind);
    }
    std::string operator()(const action::CloseGates&) const { return "close gates"; }
    std::string operator()(const action::OpenGates&) const { return "open gates"; }
    std::string operator()(const action::FallBack& a) const { return fmt::format("fall-back {}", name_of(a.fault)); }
    std::string operator()(const action::Drop& a) const {
        return fmt::format("drop {} {}", letter(a.client), name_of(a.fault));
    }

private:
    static std::string of_client(const char* verb, ClientId client, Bytes bytes) {
        return fmt::format("{} {} {}", verb, letter(client), in_mib(bytes));
    }
    static std::string of_lane(const char* verb, ClientId client, LaneId lane, Bytes size) {
        return fmt::format("{} {} {}:{}", verb, letter(client), index_of(lane), in_mib(size));
    }
    static std::string too_much(const char* verb, ClientId client, Bytes need, Bytes capacity) {
        return fmt::format("{} {} {}>{}", verb, letter(client), in_mib(need), in_mib(capacity));
    }
};

/// Who attaches. Two of the default kind share a lane, since each fills the device.
struct Newcomer {
    std::uint32_t user = 1;
    int priority = 0;
    double weight = 1.0;
    bool pageable = true;
    std::uint64_t iterations_total = 0;
    Duration iteration_time{};
    bool profiled = true;
    std::int64_t persistent_mib = 10;
    std::int64_t ephemeral_mib = 100;
    double occupancy = 1.0;
    std::uint32_t job = 0;
    std::uint64_t iterations_before = 0;
    bool interactive = false;
};

class Driver {
public:
    Driver(const EngineOptions& options, const Policy& policy, const Policy& fallback) : engine(options, policy, fallback) {}

    // ---- events ----
    /// Delivers the event and, unless told otherwise, the clients' answers to what the engine asks for.
    void send(const Event& event) {
        actions_.clear();
        deliver(event);
    }
    /// Lets time pass, with a Timer event at each deadline on the way. The actions are those of all of them.
    void pass(Duration time) {
        actions_.clear();
        const Instant end = now + time;
        for (int timers = 0; engine.deadline() <= end; ++timers) {
            if (timers > 100'000) throw std::runtime_error("the engine's deadline does not move on");
            now = std::max(now, engine.deadline());
            deliver(event::Timer{});
        }
        now = end;
    }
    ClientId attach(const Newcomer& n = {}) { return attach(ClientId{next_id_++}, n); }
    ClientId attach(ClientId id, const Newcomer& n) {
        event::Attach attach;
        attach.client = id;
        attach.user = UserId{n.user};
        attach.priority = n.priority;
        attach.weight = n.weight;
        attach.pageable = n.pageable;
        attach.iterations_total = n.iterations_total;
        attach.iteration_time = n.iteration_time;
        attach.profiled = n.profiled;
        attach.persistent = mebibytes(n.persistent_mib);
        attach.ephemeral = mebibytes(n.ephemeral_mib);
        attach.occupancy = n.occupancy;
        attach.job = JobId{n.job};
        attach.iterations_before = n.iterations_before;
        attach.interactive = n.interactive;
        send(attach);
        return id;
    }
    /// `past_mib`: what an earlier run kept.
    void announce(std::uint32_t job, std::int64_t past_mib = 0) { send(event::Announce{JobId{job}, mebibytes(past_mib)}); }
    void withdraw(std::uint32_t job) { send(event::Withdraw{JobId{job}}); }
    /// Attaches and wants to run at once.
    ClientId enter(const Newcomer& n = {}) {
        const ClientId id = attach(n);
        want(id);
        return id;
    }
    void want(ClientId id) { send(event::Want{id}); }
    void boundary(ClientId id, std::uint64_t iterations = 1) { send(event::Boundary{id, iterations}); }
    void idle(ClientId id, std::uint64_t iterations = 1) { send(event::Idle{id, iterations}); }
    void leave(ClientId id, std::uint64_t iterations = 1) { send(event::Leave{id, iterations}); }
    void die(ClientId id) { send(event::Die{id}); }
    void stop(ClientId id) { send(event::Stop{id}); }
    void resume(ClientId id) { send(event::Continue{id}); }
    void suspend(ClientId id) { send(event::Suspend{id}); }
    void bring_back(ClientId id) { send(event::Resume{id}); }
    void page_idle(ClientId id) { send(event::PageIdle{id}); }
    void demand(ClientId id, std::int64_t persistent_mib, std::int64_t ephemeral_mib, double occupancy = 1.0) {
        send(event::Demand{id, mebibytes(persistent_mib), mebibytes(ephemeral_mib), occupancy});
    }
    void need(ClientId id, std::int64_t persistent_mib, std::int64_t ephemeral_mib) {
        send(event::Need{id, mebibytes(persistent_mib), mebibytes(ephemeral_mib)});
    }
    void observe(ClientId id, std::int64_t persistent_mib) { send(event::Observe{id, mebibytes(persistent_mib)}); }
    void set_class(ClientId id, bool interactive) { send(event::SetClass{id, interactive}); }
    void set_policy(const Policy& policy) { send(event::SetPolicy{&policy}); }
    void renew_lane(std::uint32_t lane) { send(event::RenewLane{LaneId{lane}}); }
    void set_capacity(std::int64_t capacity_mib) { send(event::SetCapacity{mebibytes(capacity_mib)}); }
    /// Sends the answers held back so far, in order.
    void answer() {
        actions_.clear();
        const std::vector<Event> answers = std::exchange(withheld_, {});
        for (const Event& event : answers) deliver(event);
    }

    /// All who hold a grant iterate for `time`, and give it back at the first boundary after they were asked to.
    /// The actions are those of the whole time.
    void play(Duration time, Duration iteration = milliseconds(5)) {
        std::vector<Action> all;
        for (const Instant end = now + time; now < end;) {
            pass(iteration);
            all.insert(all.end(), actions_.begin(), actions_.end());
            const std::vector<const Client*> clients(engine.clients().begin(), engine.clients().end());
            for (const Client* client : clients) {
                if (client->turn() != Turn::kRunning || client->stopped || client->granted_at == now) continue;
                if (unreported_.size() <= index_of(client->facts.id)) unreported_.resize(index_of(client->facts.id) + 1);
                std::uint64_t& done = unreported_[index_of(client->facts.id)];
                ++done;
                if (!client->yield_asked) continue;
                report(client->facts.id, std::exchange(done, 0));
                all.insert(all.end(), actions_.begin(), actions_.end());
            }
        }
        actions_ = std::move(all);
    }

    // ---- what the engine said to the last event ----
    const std::vector<Action>& actions() const { return actions_; }
    /// Grants and their return: "yield A; grant B 0".
    std::string turns() const { return listed<action::Grant, action::Yield, action::Revoke>(); }
    /// Who is where on the device: "admit A; map A 0:100".
    std::string memory() const {
        return listed<action::Admit, action::Refuse, action::AssignLane, action::ResizeLane, action::CloseLane, action::Room,
                      action::Deny, action::PageOut, action::PageIn>();
    }
    std::string starts() const { return listed<action::Start>(); }
    std::string waits() const { return listed<action::Wait>(); }
    std::string faults() const { return listed<action::FallBack, action::Drop>(); }
    template <typename A>
    std::size_t count() const {
        std::size_t n = 0;
        for (const Action& action : actions_) n += std::holds_alternative<A>(action) ? 1u : 0u;
        return n;
    }

    // ---- what a viewer sees ----
    const Client& at(ClientId id) const {
        const Client* client = engine.find(id);
        if (!client) throw std::runtime_error("no such client");
        return *client;
    }
    bool runs(ClientId id) const { return at(id).turn() == Turn::kRunning; }
    /// "turn behind A"
    std::string why(ClientId id) const {
        const auto [reason, behind] = engine.explain_wait(at(id));
        return std::string(name_of(reason)) + (behind == kNoClient ? "" : " behind " + letter(behind));
    }
    /// The size and the charge of each lane: "0:300 1:200(500)"; the charge only where it differs.
    std::string lanes() const {
        std::string text;
        for (const Lane& lane : engine.lanes().all()) {
            text += fmt::format("{}{}:{}", text.empty() ? "" : " ", index_of(lane.id), in_mib(lane.size));
            if (lane.charge != lane.size) text += fmt::format("({})", in_mib(lane.charge));
        }
        return text;
    }
    std::int64_t reserved_mib() const { return in_mib(engine.reserved()); }

    Engine engine;
    Instant now{};
    std::map<ClientId, std::uint64_t> launches_an_iteration;  ///< in play(), of clients that show no iterations
    bool answers_mappings = true;
    bool answers_paging = true;
    bool answers_revokes = false;  ///< most tests want to see what comes before the answer

private:
    void report(ClientId id, std::uint64_t iterations) {
        const auto launches = launches_an_iteration.find(id);
        if (launches == launches_an_iteration.end()) return boundary(id, iterations);
        send(event::Progress{id, 0, {}, launches->second * iterations});
        boundary(id, 0);
    }
    void deliver(const Event& event) {
        const std::span<const Action> said = engine.handle(event, now);
        const std::vector<Action> fresh(said.begin(), said.end());
        engine.audit();
        actions_.insert(actions_.end(), fresh.begin(), fresh.end());
        for (const Action& action : fresh) std::visit([this](const auto& a) { answer_to(a); }, action);
    }
    template <typename A>
    void answer_to(const A& a) {
        using namespace action;
        if constexpr (std::is_same_v<A, AssignLane> || std::is_same_v<A, ResizeLane> || std::is_same_v<A, CloseLane>) {
            answer_with(event::Acknowledge{a.client, a.lane, a.version}, answers_mappings);
        } else if constexpr (std::is_same_v<A, PageOut>) {
            answer_with(event::PagedOut{a.client, engine.find(a.client)->rest}, answers_paging);
        } else if constexpr (std::is_same_v<A, PageIn>) {
            answer_with(event::PagedIn{a.client}, answers_paging);
        } else if constexpr (std::is_same_v<A, Revoke>) {
            if (answers_revokes) deliver(event::Idle{a.client, 0});
        }
    }
    void answer_with(const Event& event, bool at_once) {
        if (at_once) deliver(event);
        else withheld_.push_back(event);
    }
    template <typename... As>
    std::string listed() const {
        std::string text;
        for (const Action& action : actions_) {
            if (!(std::holds_alternative<As>(action) || ...)) continue;
            text += (text.empty() ? "" : "; ") + std::visit(Describe{}, action);
        }
        return text;
    }

    std::vector<Action> actions_;
    std::vector<Event> withheld_;
    std::vector<std::uint64_t> unreported_;
    std::uint32_t next_id_ = 0;
};

/// A failed check throws CheckFailure, and the old handler is back afterwards.
class CheckedTest : public testing::Test {
protected:
    ~CheckedTest() override { set_check_handler(old_); }

private:
    CheckHandler old_ = set_check_handler(throw_check_failure);
};

/// 1000 MiB, and a minimum turn of 10 ms.
inline constexpr Duration kMinTurn = milliseconds(10);

inline EngineOptions small_device() {
    EngineOptions options;
    options.capacity = mebibytes(1000);
    options.min_turn = kMinTurn;
    return options;
}
inline EngineOptions without_paging() {
    EngineOptions options = small_device();
    options.paging = false;
    return options;
}
inline EngineOptions with_lanes_max(unsigned lanes_max) {
    EngineOptions options = small_device();
    options.lanes_max = lanes_max;
    return options;
}

/// A driver under the policy of that name.
struct Rig : Driver {
    explicit Rig(std::string_view policy, const EngineOptions& options = small_device())
        : Driver(options, *find_policy(policy), fallback_policy()) {}

    bool has_lane(ClientId id) const { return at(id).lane != kNoLane; }
    /// With what of its present turn is not charged yet.
    Duration attained(ClientId id) const {
        const Client& client = at(id);
        return client.facts.attained + (runs(id) ? now - client.charged_until : Duration{});
    }
    double virtual_time_s(ClientId id) const { return at(id).facts.virtual_time_s; }
    /// What each of them attains in that time.
    std::vector<double> shares_s(const std::vector<ClientId>& clients, Duration time) {
        std::vector<double> shares;
        for (const ClientId id : clients) shares.push_back(-attained(id).seconds());
        play(time);
        for (std::size_t i = 0; i < clients.size(); ++i) shares[i] += attained(clients[i]).seconds();
        return shares;
    }
    void play_until_runs(ClientId id) {
        for (int i = 0; i < 100 && !runs(id); ++i) play(milliseconds(5));
        ASSERT_TRUE(runs(id));
    }
};

}  // namespace salus
