// The events, and the steps that follow every event. Turns are in turns.cpp, memory in memory.cpp, admission in
// admission.cpp.
#include "core/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace salus {
namespace {

// Figures come from other people's processes. These bounds keep every sum and product of them in range.
bool makes_sense(Bytes bytes) { return bytes >= Bytes{} && bytes <= gibibytes(std::int64_t{1} << 28); }
bool makes_sense(std::uint64_t iterations) { return iterations <= std::uint64_t{1} << 50; }
bool makes_sense(double share) { return share > 0 && share <= 1e9; }

}  // namespace

Engine::Engine(const EngineOptions& options, const Policy& policy, const Policy& fallback)
    : options_(options),
      policy_(&policy),
      fallback_(&fallback),
      ledger_(options.capacity, clients_, lanes_),
      limits_({options.user_jobs_max, options.user_memory_max}),
      starts_(clients_, lanes_, ledger_, limits_) {}

std::span<const Action> Engine::handle(const Event& event, Instant now) {
    SALUS_CHECK(now >= now_, "time goes forward");
    now_ = now;
    actions_.clear();
    std::visit([this](const auto& e) { on(e); }, event);
    settle();
    return actions_;
}

void Engine::settle() {
    if (memory_changed_ || now_ >= balance_at_) balance();
    const Policy* policy = policy_;
    dispatch();
    if (policy_ != policy) {  // it misbehaved: decide again under the fallback
        balance();
        dispatch();
    }
    decide_gates();
    statistics_.reserved_peak = std::max(statistics_.reserved_peak, reserved());
    ledger_.settle();
    if (options_.strict) audit();
}

void Engine::audit() const {
    ledger_.audit();
    std::size_t stalled = 0;
    std::size_t unprofiled = 0;
    for (const Client* client : clients_.all()) {
        if (client->stalled) ++stalled;
        if (!client->profiled) ++unprofiled;
        SALUS_CHECK(client->facts.user_time_s == client->account->time_s, "all clients of a user have its time");
        SALUS_CHECK(client->could_run() == (client->ready_index >= 0), "those that could run are in a ready list");
        if (client->ready_index < 0) continue;
        const std::vector<const ClientFacts*>& ready = lanes_.find(client->lane)->ready;
        SALUS_CHECK(ready.at(static_cast<std::size_t>(client->ready_index)) == &client->facts, "it is in that of its lane");
    }
    SALUS_CHECK(stalled == stalled_ && unprofiled == unprofiled_, "stalled and unprofiled clients are counted");
}

Instant Engine::deadline() const {
    Instant earliest = std::min({balance_at_, starts_.review_at(), gates_.deadline()});
    for (const Lane& lane : lanes_.all()) earliest = std::min(earliest, lane.yield_at);
    return std::min({earliest, crews_at_, turn_.look_at});
}

Client* Engine::known(ClientId id) {
    Client* client = clients_.find(id);
    if (!client) act(action::Drop{id, ProtocolFault::kUnknownClient});
    return client;
}

void Engine::drop(ClientId id, ProtocolFault fault) {
    Client& client = clients_.at(id);
    client.dropped = true;
    update_ready(client);
    act(action::Drop{id, fault});
}

// ---------------------------------------------------------------------------------------------------------- policies

Rank Engine::checked_rank(const Client& client) {
    const Rank rank = policy_->rank(client.facts, situation());
    if (std::isfinite(rank.user) && std::isfinite(rank.tier) && std::isfinite(rank.order)) [[likely]]
        return rank;
    fall_back(PolicyFault::kRankNotFinite);
    return policy_->rank(client.facts, situation());
}

bool Engine::ranks_before(const Client& a, const Client& b) {
    const Rank rank_a = checked_rank(a);
    const Rank rank_b = checked_rank(b);
    return precedes(rank_a, a.facts, rank_b, b.facts);
}

void Engine::fall_back(PolicyFault fault) {
    SALUS_CHECK(!options_.strict, fault == PolicyFault::kNotACandidate ? "the policy chose a client that may not run"
                                                                       : "the policy gave a rank that is not a number");
    SALUS_CHECK(policy_ != fallback_, "the fallback policy misbehaves");
    policy_ = fallback_;
    reserved_for_ = kNoClient;
    ++statistics_.fallbacks;
    memory_changed_ = true;
    act(action::FallBack{fault});
}

// ------------------------------------------------------------------------------------------------------------ events

void Engine::on(const event::Announce& e) {
    SALUS_CHECK(e.job != kNoJob && makes_sense(e.persistent), "the shell has looked at what it passes on");
    if (starts_.announce(e, now_) == Starts::Announced::kStartedBefore) return act(action::Start{e.job});
    start_announced();
}

void Engine::on(const event::Attach& e) {
    SALUS_CHECK(makes_sense(e.weight) && makes_sense(e.occupancy) && makes_sense(e.persistent) && makes_sense(e.ephemeral),
                "the shell has looked at what it passes on");
    Client& client = clients_.add(e.client);
    client.facts.user = e.user;
    client.facts.account = options_.share_by_user ? e.user : UserId{};
    client.account = &accounts_[client.facts.account];
    client.facts.user_time_s = client.account->time_s;
    client.facts.sequence = next_sequence_++;
    client.facts.priority = e.priority;
    client.facts.weight = e.weight;
    client.facts.interactive = e.interactive;
    client.facts.iterations_total = e.iterations_total;
    client.facts.iteration_time = e.iteration_time;
    client.iteration_time_stated = e.iteration_time.ns > 0;
    client.facts.persistent = e.persistent;
    client.facts.ephemeral = e.ephemeral;
    client.facts.occupancy = e.occupancy;
    client.pageable = e.pageable;
    client.profiled = e.profiled;
    client.job = e.job;
    client.iterations_before = e.iterations_before;
    starts_.attached(e.job, now_);
    client.waits_since = client.idle_since = client.accrued_at = now_;
    level_virtual_time(client);
    if (client.profiled) refuse_if_impossible(client);
    else ++unprofiled_;
}

void Engine::on(const event::Demand& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.persistent) || !makes_sense(e.ephemeral) || !makes_sense(e.occupancy))
        return drop(e.client, ProtocolFault::kNonsense);
    if (client->crew != kNoJob && e.ephemeral > Bytes{}) return drop(e.client, ProtocolFault::kNonsense);
    if (client->facts.occupancy != e.occupancy) memory_changed_ = true;
    client->facts.occupancy = e.occupancy;
    if (client->facts.persistent == e.persistent && client->facts.ephemeral == e.ephemeral) return;
    client->facts.persistent = e.persistent;
    client->facts.ephemeral = e.ephemeral;
    client->demand_changed = true;
    if (!client->holds()) apply_demand(*client);
}

void Engine::on(const event::Need& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.persistent) || !makes_sense(e.ephemeral)) return drop(e.client, ProtocolFault::kNonsense);
    if (client->crew != kNoJob && e.ephemeral > Bytes{}) return drop(e.client, ProtocolFault::kNonsense);
    if (!client->holds()) return drop(e.client, ProtocolFault::kNoGrant);
    unstall(*client);  // a new request replaces an earlier one
    if (e.persistent + e.ephemeral > most_for(*client)) {
        ++statistics_.denials;
        return act(action::Deny{e.client, e.persistent + e.ephemeral, most_for(*client)});
    }
    charge_time(*client);
    if (client->lane != kNoLane && e.ephemeral < client->facts.ephemeral) {  // less than it had stated
        client->facts.ephemeral = e.ephemeral;
        lanes_.at(client->lane).mapping(e.client)->ephemeral = e.ephemeral;
    }
    ledger_.set_observed(*client, std::min(client->observed(), e.persistent));  // its statement replaces what was observed
    client->needed_persistent = e.persistent;
    client->needed_ephemeral = e.ephemeral;
    stall(*client);
    memory_changed_ = true;
}

void Engine::stall(Client& client) {
    client.stalled = true;
    client.stalled_at = now_;
    ++stalled_;
}

/// The client continues: it was given memory, or found some by itself.
void Engine::unstall(Client& client) {
    if (!client.stalled) return;
    charge_time(client);
    wait_for(client.waited, WaitReason::kMemory) += now_ - client.stalled_at;
    client.stalled = false;
    --stalled_;
}

void Engine::on(const event::Observe& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.persistent)) return drop(e.client, ProtocolFault::kNonsense);
    const bool brought_memory = client->residency() == Residency::kAbsent && e.persistent > Bytes{};
    if (brought_memory) client->move_residency(Residency::kResident, now_);
    if (client->residency() == Residency::kPaged) {  // most of that is not on the device
        client->rest += std::max(e.persistent - client->facts.persistent, Bytes{});
        ledger_.set_observed(*client, client->rest);
    } else {
        ledger_.set_observed(*client, e.persistent);
    }
    client->facts.persistent = std::max(client->facts.persistent, e.persistent);
    memory_changed_ = true;
}

void Engine::on(const event::Unpageable& e) {
    Client* client = known(e.client);
    if (!client) return;
    // It may want to run by now, which makes an earlier refusal obsolete.
    const bool is_late = client->paged_while_parked && client->turn() == Turn::kReady;
    if (e.for_good) client->pageable = false;
    else client->page_refused = !is_late;
    if (client->residency() == Residency::kPagingOut) {
        client->move_residency(Residency::kResident, now_);
        --statistics_.page_outs;
        statistics_.paged -= client->movable();
    }
    memory_changed_ = true;
}

void Engine::on(const event::SetRest& e) {
    Client* client = known(e.client);
    if (!client) return;
    SALUS_CHECK(makes_sense(e.rest), "the shell has looked at what it passes on");
    const Bytes more = e.rest - std::exchange(client->rest, e.rest);
    memory_changed_ = true;
    if (client->residency() != Residency::kPaged) return;
    client->facts.persistent = std::max(client->facts.persistent + more, e.rest);
    ledger_.set_observed(*client, e.rest);
    if (e.rest < client->reserved()) set_reserved(*client, e.rest);
}

void Engine::on(const event::Progress& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.iterations) || !makes_sense(e.launches) || e.idle.ns < 0)
        return drop(e.client, ProtocolFault::kNonsense);
    if (!client->holds()) return drop(e.client, ProtocolFault::kNoGrant);
    charge_time(*client, e.idle);
    count_iterations(*client, e.iterations);
    client->launches += e.launches;
}

void Engine::on(const event::Want& e) {
    Client* client = known(e.client);
    if (!client) return;
    client->goes_when_idle = false;
    // A client that computed between iterations could not be paged out then. Now it can, before its next turn.
    if (std::exchange(client->page_refused, false)) memory_changed_ = true;
    if (client->turn() == Turn::kHoldingIdle) {
        move_turn(*client, Turn::kRunning);
        client->facts.idle += now_ - client->idle_since;
        level_virtual_time(*client);
    } else if (client->turn() == Turn::kParked) {
        if (client->facts.attained.ns > 0) client->facts.idle += now_ - client->idle_since;
        move_turn(*client, Turn::kReady);
        level_virtual_time(*client);
        became_ready(*client);
        if (client->lane == kNoLane || stalled_ > 0 || lanes_.at(client->lane).blocked) memory_changed_ = true;
    }
}

void Engine::on(const event::Boundary& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.iterations)) return drop(e.client, ProtocolFault::kNonsense);
    if (!client->holds()) return drop(e.client, ProtocolFault::kNoGrant);
    unstall(*client);
    charge_time(*client);
    count_iterations(*client, e.iterations);
    give_back(*client);
    if (std::exchange(client->page_refused, false)) memory_changed_ = true;
    move_turn(*client, Turn::kReady);
    became_ready(*client);
}

void Engine::on(const event::Idle& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.iterations)) return drop(e.client, ProtocolFault::kNonsense);
    unstall(*client);
    advance_virtual_clocks(nullptr);  // while the client still counts
    if (client->holds()) {
        charge_time(*client);
        count_iterations(*client, e.iterations);
    }
    if (client->turn() == Turn::kRunning && !client->yield_asked) {
        move_turn(*client, Turn::kHoldingIdle);
        const bool outgrew_lane =
            client->demand_changed && client->lane != kNoLane && client->facts.ephemeral > lanes_.at(client->lane).size;
        if (client->demand_changed && !outgrew_lane) apply_demand(*client);
        if (outgrew_lane) ask_yield(*client);
        else yield_if_idle(*client);
        page_out_idle_if_due(*client);
    } else if (client->holds()) {
        give_back(*client);
    } else if (client->turn() == Turn::kReady) {
        move_turn(*client, Turn::kParked);
    } else {
        client->idle_since = now_;
    }
}

void Engine::on(const event::Acknowledge& e) {
    Client* client = known(e.client);
    if (!client) return;
    const Bytes charged_before = lanes_.total_charge();
    if (!lanes_.acknowledge(e.lane, e.client, e.version)) return drop(e.client, ProtocolFault::kNotAsked);
    if (lanes_.total_charge() < charged_before || stalled_ > 0) memory_changed_ = true;
    if (client->lane == e.lane) {
        const Mapping* mapping = lanes_.at(e.lane).mapping(e.client);
        if (mapping->settled) client->mapped = true;
        became_ready(*client);
    }
}

void Engine::on(const event::PagedOut& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (client->residency() != Residency::kPagingOut) return drop(e.client, ProtocolFault::kNotAsked);
    client->move_residency(Residency::kPaged, now_);
    statistics_.page_out_times.add(now_ - client->paging_since);
    SALUS_CHECK(makes_sense(e.rest), "the shell has looked at what it passes on");
    client->rest = e.rest;
    statistics_.paged_out += client->movable();
    ledger_.set_observed(*client, e.rest);
    if (e.rest < client->reserved()) set_reserved(*client, e.rest);
    memory_changed_ = true;
}

void Engine::on(const event::PagedIn& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (client->residency() != Residency::kPagingIn) return drop(e.client, ProtocolFault::kNotAsked);
    client->move_residency(Residency::kResident, now_);
    statistics_.page_in_times.add(now_ - client->paging_since);
    statistics_.paged_in += client->movable();
    became_ready(*client);
    memory_changed_ = true;
}

void Engine::on(const event::Leave& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.iterations)) return drop(e.client, ProtocolFault::kNonsense);
    charge_time(*client);
    count_iterations(*client, e.iterations);
    if (client->facts.attained.ns > 0) {
        ended_service_ += client->facts.attained;
        typical_service_ = ended_service_ / ++ended_jobs_;
    }
    remove(*client);
}

void Engine::on(const event::Die& e) {
    Client* client = known(e.client);
    if (!client) return;
    charge_time(*client);
    remove(*client);
}

void Engine::on(const event::RenewLane& e) {
    if (!lanes_.find(e.lane)) return;
    for (Client* client : clients_.all()) {
        if (client->lane != e.lane || client->holds()) continue;
        client->mapped = false;
        update_ready(*client);
        enter_lane(*client, e.lane);
    }
}

void Engine::remove(Client& client) {
    advance_virtual_clocks(nullptr);
    const ClientId id = client.facts.id;
    unstall(client);
    if (!client.profiled) --unprofiled_;
    if (client.crew != kNoJob) --in_crews_;
    const bool held = client.holds();
    if (client.turn() != Turn::kParked) move_turn(client, Turn::kParked);
    if (held) release_lane(client);
    if (std::erase_if(turn_.parts, [&](const TurnPart& part) { return part.client == id; }) > 0) turn_.is_disturbed = true;
    overlap_.remove(id);
    lanes_.forget(id);
    ledger_.clear(client, now_);
    if (profiling_ == id) profiling_ = kNoClient;
    if (reserved_for_ == id) reserved_for_ = kNoClient;
    clients_.remove(id);
    memory_changed_ = trim_wanted_ = true;
}

void Engine::on(const event::Stop& e) {
    Client* client = known(e.client);
    if (!client || client->stopped) return;
    advance_virtual_clocks(nullptr);
    client->stopped = true;
    client->stopped_at = now_;
    update_ready(*client);
    if (client->holds()) {
        ask_yield(*client);
        if (client->crew != kNoJob) step_aside(*client);
    }
    memory_changed_ = true;
}

void Engine::on(const event::Continue& e) {
    Client* client = known(e.client);
    if (!client || !client->stopped) return;
    client->stopped = false;
    level_virtual_time(*client);
    became_ready(*client);
    memory_changed_ = true;
}

void Engine::on(const event::Hold& e) {
    starts_.hold(e.job, e.held);
    if (!e.held) start_announced();
}

void Engine::on(const event::Suspend& e) {
    Client* client = known(e.client);
    if (!client || client->suspended) return;
    advance_virtual_clocks(nullptr);
    client->suspended = true;
    update_ready(*client);
    if (client->holds()) ask_yield(*client);
    memory_changed_ = true;
}

void Engine::on(const event::Resume& e) {
    Client* client = known(e.client);
    if (!client || !client->suspended) return;
    client->suspended = false;
    client->waits_since = now_;
    level_virtual_time(*client);
    became_ready(*client);
    memory_changed_ = true;
}

void Engine::on(const event::PageIdle& e) {
    Client* client = known(e.client);
    if (!client || !client->idles()) return;
    client->goes_when_idle = true;
    if (client->holds()) ask_yield(*client);
    memory_changed_ = true;
}

void Engine::on(const event::SetClass& e) {
    Client* client = known(e.client);
    if (!client || client->facts.interactive == e.interactive) return;
    client->facts.interactive = e.interactive;
    if (!e.interactive) level_virtual_time(*client);
    if (client->lane == kNoLane) {
        memory_changed_ = true;
    } else if (!client->holds()) {
        move_by_class(*client);
    } else if (is_beside(*client) != e.interactive) {
        ask_yield(*client);  // its lane can only change at a boundary
    }
}

void Engine::on(const event::Requests& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (e.begun > 0) {
        client->asks_again_soon = client->answered_at != kNever && now_ - client->answered_at <= Gates::kHold;
        gates_.request_begins();
    }
    if (client->requests > 0 && e.in_flight == 0) {
        client->answered_at = now_;
        gates_.request_ends(client->asks_again_soon, now_);
    }
    client->requests = e.in_flight;
}

void Engine::on(const event::Recall& e) {
    if (!known(e.client) || !clients_.find(e.other)) return;
    SALUS_CHECK(e.client != e.other && makes_sense(e.rate), "the shell has looked at what it passes on");
    overlap_.recall(e.client, e.other, e.rate);
}

void Engine::on(const event::Adjust& e) {
    Client* client = known(e.client);
    if (!client) return;
    if (!makes_sense(e.weight)) return drop(e.client, ProtocolFault::kNonsense);
    client->facts.priority = e.priority;
    client->facts.weight = e.weight;
    client->facts.iterations_total = e.iterations_total;
    contend_everywhere();
    memory_changed_ = true;
}

void Engine::on(const event::SetPolicy& e) {
    SALUS_CHECK(e.policy, "a policy is given");
    policy_ = e.policy;
    reserved_for_ = kNoClient;
    forget_past_turns();
    contend_everywhere();
    memory_changed_ = true;
}

/// Fairness starts again from zero: nobody owes time that another policy gave, or that lanes gave at once.
void Engine::forget_past_turns() {
    double furthest = 0;
    for (Client* client : clients_.all()) {
        charge_time(*client);
        furthest = std::max(furthest, client->facts.virtual_time_s);
    }
    for (Client* client : clients_.all()) client->facts.virtual_time_s = furthest;
    double furthest_account = 0;
    for (auto& [id, account] : accounts_) {
        furthest = std::max(furthest, account.clock_s);
        furthest_account = std::max(furthest_account, account.time_s);
    }
    for (auto& [id, account] : accounts_) {
        account.clock_s = account.admitted_clock_s = furthest;
        set_account_time(account, furthest_account);
    }
    account_clock_s_ = admitted_account_clock_s_ = std::max(account_clock_s_, furthest_account);
}

void Engine::on(const event::SetLimits& e) {
    if (e.lanes_max != options_.lanes_max) forget_past_turns();
    options_.lanes_max = e.lanes_max;
    options_.paging = e.paging;
    options_.rehome_after = e.rehome_after;
    options_.page_idle_after = e.page_idle_after;
    contend_everywhere();
    std::size_t running = running_lanes();
    for (const Lane& lane : lanes_.all()) {
        if (e.lanes_max == 0 || running <= e.lanes_max) break;
        if (lane.beside || lane.holder == kNoClient) continue;
        Client& holder = clients_.at(lane.holder);
        if (holder.stopped || holder.stalled) continue;
        ask_yield(holder);
        --running;
    }
    memory_changed_ = true;
}

void Engine::on(const event::SetUserLimits& e) {
    const auto is_theirs = [&](const Client* client) { return client->facts.user == e.user; };
    limits_.set(e.user, {e.jobs_max, e.memory_max}, std::ranges::any_of(clients_.all(), is_theirs));
    memory_changed_ = true;
}

void Engine::on(const event::SetCapacity& e) {
    ledger_.set_capacity(e.capacity);
    starts_.set_orphans(e.orphans);
    memory_changed_ = true;
}

void Engine::on(const event::Timer&) {
    if (turn_.look_at <= now_) look_at_turn();
    for (Lane& lane : lanes_.all()) {
        if (lane.holder == kNoClient || lane.yield_at > now_) continue;
        Client& holder = clients_.at(lane.holder);
        // It can stop only at a boundary, so more often than once an iteration is in vain.
        if (still_goes_first(lane)) lane.yield_at = now_ + std::max(options_.min_turn, holder.facts.iteration_time);
        else end_turn_of(holder);
    }
    if (starts_.review_at() <= now_) start_announced();
}

// ----------------------------------------------------------------------------------------------------------- viewers

double Engine::memory_time_gib_s(const Client& client, Instant now) const {
    const double gib = client.reserved().mib() / 1024.0;
    const double lane_gib =
        client.turn() == Turn::kRunning && client.lane != kNoLane ? client.facts.ephemeral.mib() / 1024.0 : 0.0;
    return client.memory_time_gib_s + gib * (now - client.accrued_at).seconds() +
           lane_gib * (now - client.charged_until).seconds();
}

std::pair<WaitReason, ClientId> Engine::why_waits(const Client& client) const {
    using enum WaitReason;
    if (client.turn() != Turn::kReady) return {kNothing, kNoClient};
    if (client.refused) return {kRefused, kNoClient};
    if (client.stopped || client.suspended) return {kPaused, kNoClient};
    if (client.residency() == Residency::kPagingIn || client.residency() == Residency::kPagingOut)
        return {kPaging, kNoClient};
    const bool other_profiles = profiling_ != kNoClient && profiling_ != client.facts.id;
    if (client.lane == kNoLane) {
        if (is_over_limit(client)) return {kUserMemory, kNoClient};
        if (reserved_for_ != kNoClient && reserved_for_ != client.facts.id) return {kReservation, reserved_for_};
        if (other_profiles) return {kProfiling, profiling_};
        if (!client.profiled) return {kProfiling, kNoClient};
        return {policy_->info.exclusive ? kOrder : kMemory, kNoClient};
    }
    if (!client.mapped) return {kMapping, kNoClient};
    const Lane* lane = lanes_.find(client.lane);
    if (lane->holder != kNoClient) {
        return {clients_.at(lane->holder).stopped ? kStoppedHolder : kTurn, lane->holder};
    }
    if (other_profiles) return {kProfiling, profiling_};
    if (measures_overlap() && !lane->beside) {  // lanes are memory only: it waits for a turn
        for (const Lane& other : lanes_.all()) {
            if (!other.beside && other.holder != kNoClient && is_live(clients_.at(other.holder)))
                return {kTurn, other.holder};
        }
    }
    return {kOrder, kNoClient};
}

/// As ranks_before(); but viewers do not judge the policy.
bool Engine::precedes_by_policy(const Client& a, const Client& b) const {
    return precedes(policy_->rank(a.facts, situation()), a.facts, policy_->rank(b.facts, situation()), b.facts);
}

/// Of those that the policy lets onto the device, or lets run, before this client, the first; kNoClient: there is none.
ClientId Engine::first_before(const Client& client) const {
    const Client* first = nullptr;
    for (const Client* other : clients_.all()) {
        if (other == &client || other->refused || other->dropped || other->is_aside()) continue;
        if (client.facts.interactive || are_mates(*other, client) || is_beside(*other)) continue;
        const bool present = other->lane != kNoLane || other->on_device() || other->wants();
        const bool in_order = policy_->info.exclusive && present && precedes_by_policy(*other, client);
        const bool competes =
            !client.profiled && (other->wants() || other->turn() == Turn::kRunning) && runs_before_profiling(*other, client);
        if ((in_order || competes) && (!first || precedes_by_policy(*other, *first))) first = other;
    }
    return first ? first->facts.id : kNoClient;
}

ClientId Engine::with_most_memory_beside(const Client& client) const {
    const Client* most = nullptr;
    for (const Client* other : clients_.all()) {
        if (other == &client || other->reserved() <= Bytes{}) continue;
        if (!most || other->reserved() > most->reserved()) most = other;
    }
    return most ? most->facts.id : kNoClient;
}

/// What next_to_profile() and may_profile_now() find in its way.
std::pair<WaitReason, ClientId> Engine::why_not_profiled(const Client& newcomer) const {
    using enum WaitReason;
    if (profiling_ == newcomer.facts.id) {  // it is next, when the lanes are given back
        for (const Lane& lane : lanes_.all()) {
            if (lane.beside || lane.holder == kNoClient) continue;
            return {clients_.at(lane.holder).stopped ? kStoppedHolder : kTurn, lane.holder};
        }
    }
    if (const ClientId before = first_before(newcomer); before != kNoClient) return {kOrder, before};
    if (stalled_ > 0 || ledger_.in_debt()) return {kMemory, with_most_memory_beside(newcomer)};
    return {kProfiling, kNoClient};
}

std::pair<WaitReason, ClientId> Engine::explain_wait(const Client& client) const {
    using enum WaitReason;
    const auto [reason, behind] = why_waits(client);
    if (behind != kNoClient) return {reason, behind};
    if (reason == kProfiling) return why_not_profiled(client);
    if (reason == kMemory) return {kMemory, with_most_memory_beside(client)};
    if (reason != kOrder) return {reason, behind};
    if (const ClientId before = first_before(client); before != kNoClient) return {kOrder, before};
    // While its own lane is free: another user runs (Note [Users]), or as many lanes as may run at once.
    const auto runs = [&](const Lane& lane) {
        return !lane.beside && lane.holder != kNoClient && !clients_.at(lane.holder).stopped;
    };
    const auto lane = std::ranges::find_if(lanes_.all(), runs);
    if (client.lane == kNoLane || lane == lanes_.all().end()) return {kOrder, kNoClient};
    return {kTurn, lane->holder};
}

}  // namespace salus
