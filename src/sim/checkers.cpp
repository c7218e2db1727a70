#include "sim/checkers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"

namespace salus::sim {
namespace {

/// Whether the client is stopped, or the engine still thinks so: the service hears of stopping and continuing later.
bool is_stopped(const Simulation& s, std::size_t i) {
    const Client* client = s.engine().find(ClientId(i));
    return (s.clients()[i].here() && s.clients()[i].stopped) || (client && client->stopped);
}

bool anybody_stopped(const Simulation& s) {
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        if (is_stopped(s, i)) return true;
    }
    return false;
}

bool is_beside(const Simulation& s, const Client& client) {
    const Lane* lane = client.lane == kNoLane ? nullptr : s.engine().lanes().find(client.lane);
    return lane && lane->beside;
}

bool is_owed_memory(const Simulation& s) {
    return std::ranges::any_of(s.engine().clients(), [](const Client* c) { return c->debt() > Bytes{}; });
}

bool can_page(const Simulation& s, std::size_t i) { return s.engine().options().paging && !s.clients()[i].stays; }

}  // namespace

void Checkers::after_event(const Event& event, Instant now, std::span<const Action> actions, const Simulation& s) {
    check_memory(event, s);
    check_crews(event, actions, s);
    check_suspensions(event, actions, s);
    check_lanes(event, s);
    check_users(s);
    check_iterations(event, s);
    check_denials(actions, s);
    check_work_conservation(s);
    check_classes(s);
    check_companies(s);
    check_progress(event, s);
    check_starts(event, now, actions, s);
}

// A client that the engine counts as a holder has the grant, or has given it back and the service is about to hear of it.
// And a client with a grant is a holder for the engine.
void Checkers::after_call(const Simulation& s) {
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        const SimulatedClient& c = s.clients()[i];
        const Client* client = s.engine().find(ClientId(i));
        if (!c.here() || !c.connected) continue;
        SALUS_CHECK(client, "a client that is there is known");
        const bool holds = c.word().state != control::State::kFree;
        SALUS_CHECK(holds || c.notifies || !client->holds(), "a grant is back, and the service does not hear of it");
        SALUS_CHECK(!holds || client->holds(), "a client holds a grant that the engine has not given");
    }
    check_gates(s);
    was_stopped_ = was_stopped_ || anybody_stopped(s);
}

// Gates are closed for batch clients alone, only while a request is worked on and for a moment afterwards, and for no more
// of any second than the budget allows. No gate stays closed for long, whatever happens to the service.
void Checkers::check_gates(const Simulation& s) {
    const Gates& gates = s.engine().gates();
    bool anybody_answers = false;
    for (const SimulatedClient& c : s.clients()) {
        if (!c.here()) continue;
        const Client* client = s.engine().find(c.page->owner);
        const bool waits = client && client->stalled;  // for memory; what it waits for may stand behind a gate
        anybody_answers = anybody_answers || c.stopped || ((c.request || !c.ending.empty()) && !waits);
        if (c.page->gates.is_open()) continue;
        SALUS_CHECK(c.stopped || s.now() <= c.gate_closed_at + kGateClosedMost, "a gate stays closed");
        if (!c.connected) continue;
        SALUS_CHECK(!client || !client->facts.interactive, "the gate of an interactive client is closed");
        SALUS_CHECK(gates.are_closed(), "a gate is closed, and the engine has opened them");
    }
    if (std::exchange(gates_service_, s.services()) != s.services()) {
        closed_.clear();
        were_closed_ = false;
    }
    if (gates.are_closed() && !were_closed_) closed_.push_back({s.now(), s.now()});
    if (were_closed_) closed_.back().to = s.now();
    were_closed_ = gates.are_closed();
    Duration sum;
    for (const Span& span : closed_) sum += span.to - std::max(span.from, std::min(span.to, s.now() - Gates::kWindow));
    std::erase_if(closed_, [&](const Span& span) { return !were_closed_ && span.to <= s.now() - Gates::kWindow; });
    SALUS_CHECK(sum <= Gates::kBudget, "gates are closed for longer than the budget allows");

    if (!gates.are_closed() || anybody_answers) unneeded_since_ = kNever;
    else unneeded_since_ = std::min(unneeded_since_, s.now());
    const Duration patience = Gates::kHold + shell::Shell::kLookEvery + s.options().notice_delay_max;
    SALUS_CHECK(unneeded_since_ == kNever || s.now() - unneeded_since_ <= patience,
                "gates are closed, and nobody is being answered");
}

// Everything that is really on the device fits, except for memory that clients took without asking, and memory that was
// promised before the capacity fell.
void Checkers::check_memory(const Event& event, const Simulation& s) {
    const Engine& engine = s.engine();
    Bytes used;
    Bytes unasked;
    std::map<LaneId, Bytes> lanes;
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        const SimulatedClient& c = s.clients()[i];
        const Client* client = engine.find(ClientId(i));
        if (!c.here() || !c.connected || !client) continue;  // the capacity is reduced by what orphans hold
        if (c.mapped) lanes[c.mapped->lane] = std::max(lanes[c.mapped->lane], c.mapped->size);
        const Bytes own = c.context + c.private_use();
        used += own;
        if (own > client->reserved()) unasked += std::min(own - client->reserved(), c.context + c.unasked);
    }
    for (const Lane& lane : engine.lanes().all()) lanes[lane.id] = std::max(lanes[lane.id], lane.size);
    for (const auto& [lane, size] : lanes) used += size;
    // Memory promised before the capacity fell may still be used, but the excess may only shrink.
    const Bytes promised = std::max(engine.reserved() - engine.capacity(), Bytes{});
    capacity_excuse_ = std::holds_alternative<event::SetCapacity>(event) ? promised : std::min(capacity_excuse_, promised);
    SALUS_CHECK(used - unasked <= engine.capacity() + capacity_excuse_, "memory in use exceeds the capacity");
}

void Checkers::check_lanes(const Event& event, const Simulation& s) {
    std::set<LaneId> held;
    std::map<LaneId, UserId> user_of;
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        const SimulatedClient& c = s.clients()[i];
        if (!c.here() || !c.connected) continue;
        if (c.mapped) {
            const auto [found, is_new] = user_of.emplace(c.mapped->lane, s.jobs()[i].user);
            SALUS_CHECK(found->second == s.jobs()[i].user, "clients of different users share a lane");
        }
        if (!c.word().holds() || c.lane == kNoLane) continue;
        const Client* known = s.engine().find(ClientId(i));
        const bool accompanies = known && known->accompanies;
        SALUS_CHECK(accompanies || held.insert(c.lane).second, "two clients hold one lane");
        SALUS_CHECK(c.phase != Phase::kRunning || c.ephemeral <= c.mapped_size(c.lane), "a client runs beyond its lane");
        SALUS_CHECK(!c.inside() || c.persistent_on_device, "a client runs while it is paged out");
    }
    for (const Lane& lane : s.engine().lanes().all()) {
        SALUS_CHECK(lane.size >= lane.required(), "a lane is smaller than a member's T");
    }
    // A client that was stopped or stalled may find its place taken when it continues. It runs to its boundary beside the
    // others, and so does its crew.
    const unsigned lanes_max = s.engine().options().lanes_max;
    std::size_t running = 0;
    const auto crew_of = [&](const Client& client) {
        const std::size_t i = index_of(client.facts.id);
        return joined_.contains(i) ? s.jobs()[i].crew : 0;
    };
    std::set<std::uint32_t> holding;
    for (const Client* client : s.engine().clients()) {
        if (!client->holds() || crew_of(*client) == 0) continue;
        holding.insert(crew_of(*client));
        if (s.client(client->facts.id).resumed) resumed_crews_.insert(crew_of(*client));
    }
    // Members that came in meanwhile run on when the one that was stopped has given its turn back.
    std::erase_if(resumed_crews_, [&](std::uint32_t crew) { return !holding.contains(crew); });
    std::set<std::uint32_t> crews = resumed_crews_;  // each counts once, or not at all
    for (const Client* client : s.engine().clients()) {
        const SimulatedClient& c = s.client(client->facts.id);
        if (!c.runs() || c.lane == kNoLane || c.resumed || client->stopped || is_beside(s, *client)) continue;
        if (crew_of(*client) == 0 || crews.insert(crew_of(*client)).second) ++running;
    }
    // Who had a turn when there were to be fewer lanes may run to its boundary, even if it rested at that moment.
    const auto holders = static_cast<std::size_t>(std::ranges::count_if(
        s.engine().clients(), [&](const Client* client) { return client->holds() && !is_beside(s, *client); }));
    lanes_excuse_ = std::holds_alternative<event::SetLimits>(event) ? holders : std::min(lanes_excuse_, holders);
    SALUS_CHECK(lanes_max == 0 || running <= std::max<std::size_t>(lanes_max, lanes_excuse_), "more lanes run than allowed");
}

// If time is shared by user, one user has the device at a time. A client that ran when that began, or that was stopped, runs
// on to its boundary, and is asked for its turn meanwhile.
void Checkers::check_users(const Simulation& s) {
    // The engine's lanes are those of its last SetLimits; events before that may already be of the new settings.
    const bool capped = s.engine().options().lanes_max > 0;
    if (!s.options().engine.share_by_user || capped || !s.engine().policy().info.time_sliced) return;
    std::optional<UserId> user;
    for (const Client* client : s.engine().clients()) {
        const bool in_turns = client->lane != kNoLane && !is_beside(s, *client);
        if (!in_turns || !client->holds() || client->stopped || client->stalled || client->yield_asked) continue;
        SALUS_CHECK(user.value_or(client->facts.user) == client->facts.user, "two users have the device at once");
        user = client->facts.user;
    }
}

// A suspended client gets no turn, no lane and no memory, unless it helps a turn of its crew to its end. What it has is
// taken back as soon as that can be done. A suspended job does not start.
void Checkers::check_suspensions(const Event& event, std::span<const Action> actions, const Simulation& s) {
    if (std::exchange(suspensions_service_, s.services()) != s.services()) held_.clear();
    if (const auto* attach = std::get_if<event::Attach>(&event)) suspended_.erase(index_of(attach->client));
    if (const auto* suspend = std::get_if<event::Suspend>(&event)) suspended_.insert(index_of(suspend->client));
    if (const auto* resume = std::get_if<event::Resume>(&event)) suspended_.erase(index_of(resume->client));
    if (const auto* hold = std::get_if<event::Hold>(&event); hold && hold->held) held_.insert(hold->job);
    else if (hold) held_.erase(hold->job);
    const Engine& engine = s.engine();
    const auto is_suspended = [&](ClientId id) { return suspended_.contains(index_of(id)); };
    for (const Action& action : actions) {
        if (const auto* grant = std::get_if<action::Grant>(&action); grant && is_suspended(grant->client))
            SALUS_CHECK(joined_.contains(index_of(grant->client)), "a suspended client gets a turn");
        if (const auto* in = std::get_if<action::PageIn>(&action))
            SALUS_CHECK(!is_suspended(in->client), "a suspended client is paged in");
        if (const auto* start = std::get_if<action::Start>(&action))
            SALUS_CHECK(!held_.contains(start->job), "a suspended job starts");
    }
    for (const Client* client : engine.clients()) {
        if (!is_suspended(client->facts.id)) continue;
        const bool goes = client->yield_asked || client->let_in_until != kNever;  // it was let in for a while
        SALUS_CHECK(!client->holds() || goes, "a suspended client is not asked to give up its turn");
        const std::size_t i = index_of(client->facts.id);
        const auto keeps_it = [&](const Client* mate) {
            return are_mates(i, index_of(mate->facts.id), s) && mate->holds() && !mate->stopped && !mate->stalled;
        };
        if (client->holds() || std::ranges::any_of(engine.clients(), keeps_it)) continue;
        SALUS_CHECK(client->lane == kNoLane, "a suspended client keeps its lane");
        const bool waits = client->turn() == Turn::kReady && client->residency() == Residency::kResident;
        if (!waits || !can_page(s, i) || is_stopped(s, i) || client->page_refused || client->all_stays()) continue;
        SALUS_CHECK(!s.clients()[i].here() || !s.clients()[i].connected,
                    "a suspended client waits, and its memory stays on the device");
    }
}

bool Checkers::are_mates(std::size_t a, std::size_t b, const Simulation& s) const {
    return a != b && joined_.contains(a) && joined_.contains(b) && s.jobs()[a].crew == s.jobs()[b].crew;
}

// A client runs without a lane of its own only together with another of its crew. A member that could run does not wait
// while its crew does, or not for long if the turn is being taken back.
void Checkers::check_crews(const Event& event, std::span<const Action> actions, const Simulation& s) {
    if (const auto* attach = std::get_if<event::Attach>(&event)) joined_.erase(index_of(attach->client));
    if (const auto* join = std::get_if<event::JoinCrew>(&event)) joined_.insert(index_of(join->client));
    const Engine& engine = s.engine();
    const auto leads = [](const Client& c) { return c.holds() && !c.stopped && !c.stalled && !c.accompanies; };
    const auto any_mate = [&](const Client& client, const auto& is) {
        return std::ranges::any_of(engine.clients(), [&](const Client* other) {
            return are_mates(index_of(client.facts.id), index_of(other->facts.id), s) && !is_beside(s, *other) && is(*other);
        });
    };
    for (const Action& action : actions) {
        const auto* grant = std::get_if<action::Grant>(&action);
        const Client* client = grant ? engine.find(grant->client) : nullptr;
        if (!client || !client->accompanies) continue;
        SALUS_CHECK(s.client(grant->client).ephemeral == Bytes{}, "a client with a T has no lane");
        SALUS_CHECK(any_mate(*client, leads), "a client accompanies nobody");
    }
    constexpr Duration kLongest = milliseconds(1600);
    for (const Client* client : engine.clients()) {
        const bool could = client->wants() && client->lane != kNoLane && client->mapped && !is_beside(s, *client);
        if (!could || client->residency() != Residency::kResident || !any_mate(*client, leads)) continue;
        const bool taken_back = any_mate(*client, [&](const Client& mate) { return leads(mate) && mate.yield_asked; });
        SALUS_CHECK(taken_back && s.now() <= client->waits_since + kLongest, "a client waits while its crew runs");
    }
}

// The engine counts exactly the reported iterations. A client that leaves has run all its iterations.
void Checkers::check_iterations(const Event& event, const Simulation& s) {
    reported_.resize(s.clients().size());
    before_.resize(s.clients().size());
    if (const auto* attach = std::get_if<event::Attach>(&event)) {
        reported_[index_of(attach->client)] = 0;
        before_[index_of(attach->client)] = s.client(attach->client).page->iterations;
    }
    const auto report = [&](ClientId id, std::uint64_t iterations) { reported_[index_of(id)] += iterations; };
    if (const auto* progress = std::get_if<event::Progress>(&event)) report(progress->client, progress->iterations);
    if (const auto* boundary = std::get_if<event::Boundary>(&event)) report(boundary->client, boundary->iterations);
    if (const auto* idle = std::get_if<event::Idle>(&event)) report(idle->client, idle->iterations);
    if (const auto* leave = std::get_if<event::Leave>(&event)) {
        report(leave->client, leave->iterations);
        const std::size_t i = index_of(leave->client);
        const std::uint64_t shown = s.jobs()[i].launches > 0 ? 0 : s.jobs()[i].iterations;
        SALUS_CHECK(before_[i] + reported_[i] == shown, "an iteration was lost or run twice");
    }
    for (const Client* client : s.engine().clients()) {
        SALUS_CHECK(client->facts.iterations_done == reported_[index_of(client->facts.id)], "an iteration was miscounted");
    }
}

// A client is denied memory only if that is more than the device has, or more than immovable clients leave. Immovable are
// clients that are stalled themselves (with their lanes) or cannot be paged, and the rests of the others. While a client is
// stopped, nothing is checked: it does not answer, whatever it holds.
void Checkers::check_denials(std::span<const Action> actions, const Simulation& s) const {
    for (const Action& action : actions) {
        if (const auto* refuse = std::get_if<action::Refuse>(&action)) {
            SALUS_CHECK(refuse->need > refuse->capacity, "refused although it fits alone");
        }
        const auto* deny = std::get_if<action::Deny>(&action);
        if (!deny) continue;
        if (anybody_stopped(s) || deny->need > deny->capacity) continue;
        Bytes unmovable;
        for (std::size_t i = 0; i < s.clients().size(); ++i) {
            const SimulatedClient& c = s.clients()[i];
            const Client* known = s.engine().find(ClientId(i));
            if (!c.here() && known) unmovable += known->reserved();  // the service is about to hear that it died
            if (ClientId(i) == deny->client || !c.here() || !c.connected) continue;
            unmovable += c.context;
            const bool stuck = c.phase == Phase::kStalled;
            if (c.persistent_on_device && (stuck || !can_page(s, i))) unmovable += std::max(c.persistent, c.room);
            else if (c.has_run) unmovable += std::min(c.fixed, c.persistent);
            if (stuck && c.mapped) unmovable += c.mapped->size;
        }
        SALUS_CHECK(deny->need + unmovable > s.engine().capacity(), "denied although the others could have made room");
    }
}

// An admitted client that wants to run, and whose lane is free, runs. Lanes are held back only for a profiling turn; lanes
// beside never.
void Checkers::check_work_conservation(const Simulation& s) const {
    const Engine& engine = s.engine();
    std::size_t running = 0;
    for (const Client* client : engine.clients()) {
        const bool runs = client->holds() && !client->stopped && !client->stalled;
        if (runs && (client->lane != kNoLane || client->accompanies) && !is_beside(s, *client)) ++running;
    }
    const bool profiling = engine.profiling() != kNoClient && !engine.find(engine.profiling())->stopped;
    const unsigned lanes_max = s.engine().options().lanes_max;
    const bool held_back = engine.policy().info.exclusive || profiling || (lanes_max > 0 && running >= lanes_max) ||
                           (engine.measures_overlap() && running > 0);
    // If one user has the device at a time, clients of another keep it waiting, because they run or have the next turn.
    const auto is_anothers = [&](const Client* client, const Client* other) {
        const bool in_turns = (other->lane != kNoLane || other->accompanies) && !is_beside(s, *other);
        const bool runs = other->holds() && !other->stopped && !other->stalled;
        return other->facts.user != client->facts.user && in_turns && (runs || other->turn() == Turn::kReady);
    };
    const bool by_user = engine.one_user_at_a_time() && running > 0;
    for (const Client* client : engine.clients()) {
        if (held_back && !is_beside(s, *client)) continue;
        const auto keeps_it_out = [&](const Client* other) { return is_anothers(client, other); };
        if (by_user && !is_beside(s, *client) && std::ranges::any_of(engine.clients(), keeps_it_out)) continue;
        if (client->lane == kNoLane || client->residency() != Residency::kResident || client->stopped) continue;
        if (suspended_.contains(index_of(client->facts.id))) continue;
        if (!client->mapped || client->turn() != Turn::kReady) continue;
        if (engine.lanes().find(client->lane)->holder != kNoClient) continue;
        SALUS_CHECK(client->refused, "a client wants to run, its lane is free, and it does not");
    }
}

// A client runs beside the others only if it is interactive. An interactive client takes turns, or shares a lane, only where
// there is no memory for a lane of its own, or for a moment; nobody is moved while memory is owed or being handed out.
void Checkers::check_classes(const Simulation& s) {
    const Engine& engine = s.engine();
    const bool any_stalled = std::ranges::any_of(engine.clients(), [](const Client* c) { return c->stalled; });
    const bool any_newcomer =
        std::ranges::any_of(engine.clients(), [](const Client* c) { return !c->profiled && c->wants(); });
    const bool unsettled =
        any_stalled || any_newcomer || engine.profiling() != kNoClient || engine.reserved_for() != kNoClient;
    bool anybody_could_move = false;
    for (const Client* client : engine.clients()) {
        if (client->lane == kNoLane || client->holds()) continue;
        const bool beside = is_beside(s, *client);
        SALUS_CHECK(!beside || client->facts.interactive, "a batch client has a lane beside the others");
        if (beside || !client->facts.interactive || unsettled || client->stopped) continue;
        const bool has_room = engine.reserved() + client->facts.ephemeral <= engine.capacity();
        anybody_could_move = anybody_could_move || (has_room && !is_owed_memory(s));
    }
    if (!anybody_could_move) could_move_since_ = kNever;
    else could_move_since_ = std::min(could_move_since_, s.now());
    SALUS_CHECK(could_move_since_ == kNever || s.now() - could_move_since_ <= engine.options().review_every,
                "an interactive client takes turns, and there is memory for a lane beside");
}

// Where overlap is measured, clients run at once by a decision or for a trial. A decision rests on enough samples, which
// leave no doubt that it gains; or somebody has left a company.
void Checkers::check_companies(const Simulation& s) {
    const Engine& engine = s.engine();
    const Overlap& overlap = engine.overlap();
    const std::vector<Overlap::Set> before =
        std::exchange(companies_, {overlap.companies().begin(), overlap.companies().end()});
    for (const Overlap::Set& company : companies_) {
        const auto holds_it = [&](const Overlap::Set& other) { return std::ranges::includes(other, company); };
        if (std::ranges::any_of(before, holds_it)) continue;
        if (overlap.is_recalled(company)) continue;  // by what earlier runs have shown
        const std::optional<Rate> rate = overlap.rate_of(company);
        SALUS_CHECK(rate && rate->samples >= Overlap::kEnough && rate->mean - Overlap::kSure * rate->error > 1,
                    "clients run at once, and it was not shown that they gain");
    }
    if (!engine.measures_overlap() || engine.turn_is_ending() || engine.turn().is_trial) return;
    const Client* first = nullptr;
    for (const Client* client : engine.clients()) {
        const bool in_turns = client->lane != kNoLane && !is_beside(s, *client) && !client->accompanies;
        if (!in_turns || !client->holds() || client->stopped || client->stalled || client->yield_asked) continue;
        if (std::exchange(first, client) == nullptr) continue;
        const Overlap::Set company = overlap.company_of(first->facts.id);
        SALUS_CHECK(std::ranges::binary_search(company, client->facts.id), "clients run at once, and nobody has decided so");
    }
}

void Checkers::check_progress(const Event& event, const Simulation& s) {
    const Engine& engine = s.engine();
    waits_.resize(s.clients().size());
    std::uint64_t iterations = 0;
    Duration round;  // all run one iteration, at the speed of all at once
    std::int64_t present = 0;
    Bytes largest;
    Bytes rests;  // what stays of each, even if all are paged out
    bool all_pageable = s.engine().options().paging;
    bool anybody_wants = false;
    bool anybody_runs = false;
    bool suspended_hold = false;  // one is suspended, and has memory on the device: others may have to wait for it
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        const SimulatedClient& c = s.clients()[i];
        iterations += c.iterations;
        if (!c.here()) continue;
        ++present;
        const bool suspended = suspended_.contains(i) || c.suspended;
        suspended_hold = suspended_hold || (suspended && (c.mapped || c.context + c.private_use() > Bytes{}));
        round += s.jobs()[i].iteration_time + s.options().switch_cost;
        largest = std::max(largest, c.persistent);
        rests += c.rest();
        all_pageable = all_pageable && !c.stays;
        anybody_wants = anybody_wants || (c.phase == Phase::kWaiting && !suspended) || c.phase == Phase::kStalled;
        anybody_runs = anybody_runs || c.runs();
    }
    round = round * (present + 1);
    const auto* attach = std::get_if<event::Attach>(&event);
    const bool back = attach && s.client(attach->client).page->iterations > 0;  // it attaches to a new service
    const bool changed = std::holds_alternative<event::SetPolicy>(event) || std::holds_alternative<event::Adjust>(event) ||
                         std::holds_alternative<event::SetCapacity>(event) ||
                         std::holds_alternative<event::Continue>(event) || std::holds_alternative<event::Resume>(event) ||
                         std::holds_alternative<event::SetLimits>(event) ||
                         std::holds_alternative<event::SetUserLimits>(event);
    const bool lacks_memory = engine.capacity() < s.options().engine.capacity || !s.has_lane_memory();
    const bool was_stopped = std::exchange(was_stopped_, anybody_stopped(s));
    const bool disturbed =
        suspended_hold || was_stopped || was_stopped_ || s.anybody_is_orphaned() || back || changed || lacks_memory;
    const bool wanted = std::exchange(anybody_wanted_, anybody_wants);
    if (iterations != iterations_seen_ || anybody_runs || !anybody_wants || !wanted || disturbed) last_progress_ = s.now();
    iterations_seen_ = iterations;
    const Duration answers = s.options().answer_delay_max * 40;
    SALUS_CHECK(s.now() - last_progress_ <= seconds(60) + round * 4 + answers, "somebody wants to run, and nobody does");

    // Under a policy that claims it, nobody starves: a client waits for several rounds of turns and, with paging, of stays.
    // Several, because under fair a client that had the device to itself for a stay is that far ahead, and the others may be
    // slow to catch up because they think or weigh more.
    const Duration stay = seconds_of(2.0 * static_cast<double>(largest.count) / engine.options().page_bytes_per_s /
                                     engine.options().page_share_max);
    if (was_stopped) stopped_time_ += s.now() - last_event_;
    // Batch clients run beside an interactive one while others have no room for that, and make up for it afterwards.
    const bool anybody_beside = std::ranges::any_of(engine.clients(), [&](const Client* c) { return is_beside(s, *c); });
    if (anybody_beside) beside_time_ += s.now() - last_event_;
    last_event_ = s.now();
    Duration least_turns = engine.options().min_turn * present;
    if (engine.options().overlap) least_turns += (Overlap::kStretchMost + round) * present;
    for (std::size_t i = 0; i < s.clients().size(); ++i) {
        const SimulatedClient& c = s.clients()[i];
        const bool waits = c.phase == Phase::kWaiting && !c.word().holds();
        const Client* client = engine.find(ClientId(i));
        if (!waits || disturbed || !client || client->refused || client->suspended) {
            waits_[i] = {};
            continue;
        }
        if (waits_[i].since == kNever) waits_[i].since = s.now();
        if (!engine.policy().info.starvation_free) continue;
        const Lane* lane = client->lane == kNoLane ? nullptr : engine.lanes().find(client->lane);
        // A client that cannot be paged, or not wholly, may keep others out as long as it lives. They catch up afterwards.
        const bool fits = rests - c.rest() + c.context + c.persistent + c.ephemeral <= engine.capacity();
        const bool kept_out = (!all_pageable && (!lane || s.engine().options().paging)) || !fits;
        const bool over_limit = engine.is_over_limit(*client);
        const bool excused =
            kept_out || over_limit || (lane && lane->holder != kNoClient && engine.find(lane->holder)->stalled);
        if (std::exchange(waits_[i].excused, excused) || excused) waits_[i].since = s.now();
        const Duration stays = s.engine().options().paging ? (stay + answers) * (present * 8) : answers;
        waits_[i].bound = std::max(waits_[i].bound, seconds(5) + (round + least_turns) * 8 + stays +
                                                        stopped_time_ * (present * 8) + beside_time_ * 2);
        SALUS_CHECK(s.now() - waits_[i].since <= waits_[i].bound, "a client starves under a policy that claims nobody does");
    }
}

// A job that is announced and not withdrawn is told to start in the end: at the latest when all others have been gone for as
// long as room is kept for jobs that do not attach.
void Checkers::check_starts(const Event& event, Instant now, std::span<const Action> actions, const Simulation& s) {
    if (std::exchange(service_, s.services()) != s.services()) announced_.clear();
    if (std::ranges::any_of(announced_, [&](JobId job) { return held_.contains(job); })) others_there_ = now;
    if (const auto* announce = std::get_if<event::Announce>(&event); announce && !announce->runs)
        announced_.insert(announce->job);
    if (const auto* attach = std::get_if<event::Attach>(&event)) announced_.erase(attach->job);
    if (const auto* withdraw = std::get_if<event::Withdraw>(&event)) announced_.erase(withdraw->job);
    if (!s.engine().clients().empty() || s.anybody_is_orphaned() || announced_.empty()) others_there_ = now;
    for (const Action& action : actions) {
        const auto* start = std::get_if<action::Start>(&action);
        if (!start) continue;
        SALUS_CHECK(announced_.erase(start->job) == 1, "a job is told to start that does not wait");
        others_there_ = now;
    }
    for (const JobId job : announced_) SALUS_CHECK(s.engine().starts().waits(job), "a job that waits to start is forgotten");
    SALUS_CHECK(now - others_there_ <= seconds(60) + s.engine().options().review_every,
                "nobody is there, and a job waits to start");
}

void Checkers::check_end(const Simulation& s, const SimulationResult& result) {
    SALUS_CHECK(result.finished, "not everybody finished");
    SALUS_CHECK(s.engine().clients().empty() && s.engine().reserved() == Bytes{}, "something is left when all are gone");
    SALUS_CHECK(!s.engine().starts().anybody_waits(), "a job waits to start whose runner is gone");
}

}  // namespace salus::sim
