// Turns: who runs next in which lane, for how long, and what it is charged.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "core/engine.h"

namespace salus {

// Note [Profiling turns]
// A newcomer's P and T are unknown, so its first iterations run in private memory while every lane is at a boundary. Then
// its demand can be met by lending it the lanes' memory and, if necessary, by paging. A profiling turn is one iteration.
// While the lanes are being gathered, nothing is granted. A stopped or stalled holder is not waited for: it may never reach
// its boundary.
// On a GPU, a crowd of newcomers would profile one by one, each with seconds of setting up libraries. So where half of the
// device is free, a newcomer profiles beside the others: it gets a small part of that memory, and nobody has to wait for it.
// If it needs more, its turn becomes one that has the device to itself. There is only one such turn at a time: others that
// need more wait for its end, and hold little.

// Note [Beside]
// Lanes are memory; who may run at once is another decision. Batch clients take turns. An interactive client waits for no
// batch client: it has a lane "beside", whose clients run whoever else runs, and which counts neither as one of lanes_max
// nor for an exclusive policy, nor is gathered for a profiling turn. Mostly it is alone there, keeps its grant, and never
// waits. Where there is no memory for that, interactive clients of one user share such a lane; and where there is none for
// that either, an interactive client takes turns in a batch lane until there is.

// Note [Users]
// Users do not share lanes, so lanes of several users could run at once, and the device would divide its time as it likes.
// If time is shared by user, a time-sliced policy gives the device to one user at a time: in their turn, all of their lanes
// may run. The policy ranks the user before the client (Rank::user), so of ten jobs, nine of one user and one of another,
// the one has half of the time. What clients state about themselves (occupancy, weight, priority) counts among the clients
// of their user only. If lanes_max is given, that many lanes run at once, whoever their users are, in the same order.

// ---------------------------------------------------------------------------------------------------------- dispatch

void Engine::dispatch() {
    if (in_crews_ > 0) run_crews();
    for (Lane& lane : lanes_.all()) {
        if (lane.beside && lane.holder == kNoClient && !lane.ready.empty()) grant(lane, *choose(lane.ready));
    }
    if (one_user_at_a_time()) leave_one_user();
    const bool room_is_coming = unprofiled_ > 0 && profile_beside();
    if (unprofiled_ > 0 && !room_is_coming && dispatch_profiling()) return;
    if (measures_overlap()) return dispatch_measured();
    if (!turn_.parts.empty()) turn_ = {};
    if (policy_->info.exclusive) return dispatch_exclusive();
    if (options_.lanes_max > 0) return dispatch_capped();
    if (one_user_at_a_time()) return dispatch_by_user();
    for (Lane& lane : lanes_.all()) {
        if (!lane.beside && lane.holder == kNoClient && !lane.ready.empty()) grant(lane, *choose(lane.ready));
    }
}

/// Of all lanes that are free and run in turns; nullptr if nobody waits in them.
Client* Engine::first_in_turns() {
    scratch_.clear();
    for (const Lane& lane : lanes_.all()) {
        if (!lane.beside && lane.holder == kNoClient) scratch_.insert(scratch_.end(), lane.ready.begin(), lane.ready.end());
    }
    return scratch_.empty() ? nullptr : choose(scratch_);
}

// At most lanes_max lanes run. There may be more lanes than that, because users do not share lanes.
void Engine::dispatch_capped() {
    for (;;) {
        Client* chosen = first_in_turns();
        if (!chosen) return;
        if (running_lanes() >= options_.lanes_max) return contend_for_slots();
        grant(lanes_.at(chosen->lane), *chosen);
    }
}

/// For each lane that waits for a slot, one running lane must yield: idle ones first, then those that rank last.
void Engine::contend_for_slots() {
    std::vector<Client*> waiters;  // the first client of each lane
    std::vector<Client*> holders;
    std::size_t leaving = 0;  // holders that will give their slot to another lane
    for (const Lane& lane : lanes_.all()) {
        if (lane.beside) continue;
        if (lane.holder == kNoClient) {
            if (!lane.ready.empty()) waiters.push_back(choose(lane.ready));
            continue;
        }
        Client* holder = &clients_.at(lane.holder);
        if (holder->stopped || holder->stalled) continue;  // it occupies no slot
        charge_time(*holder);
        if (!holder->yield_asked) holders.push_back(holder);
        else if (lane.ready.empty()) ++leaving;
    }
    waiters = by_rank(std::move(waiters));
    holders = by_rank(std::move(holders));
    std::reverse(holders.begin(), holders.end());
    std::stable_partition(holders.begin(), holders.end(), [](const Client* c) { return c->turn() == Turn::kHoldingIdle; });
    for (std::size_t i = 0; i < holders.size() && leaving + i < waiters.size(); ++i) {
        contend(lanes_.at(holders[i]->lane), *waiters[leaving + i]);
    }
}

/// Those whose turns keep other users from the device.
std::vector<Client*> Engine::live_holders() {
    std::vector<Client*> holders;
    for (Client* client : clients_.all()) {
        const bool in_turns = client->accompanies || (client->lane != kNoLane && !is_beside(*client));
        if (in_turns && is_live(*client)) holders.push_back(client);
    }
    return holders;
}

/// Several may still run from before a change of policy, or because a holder that was stopped goes on.
void Engine::leave_one_user() {
    const std::vector<Client*> ranked = by_rank(live_holders());
    for (Client* holder : ranked) {
        if (holder->facts.user != ranked.front()->facts.user) ask_yield(*holder);
    }
}

void Engine::dispatch_by_user() {
    for (;;) {
        Client* chosen = first_in_turns();
        if (!chosen) return;
        const auto keeps_out = [&](const Client* holder) { return holder->facts.user != chosen->facts.user; };
        if (std::ranges::any_of(live_holders(), keeps_out)) return contend_between_users(chosen->facts.user);
        grant(lanes_.at(chosen->lane), *chosen);
    }
}

/// The users that have the device make way for the next one when their minimum turn is over.
void Engine::contend_between_users(UserId next) {
    for (Lane& lane : lanes_.all()) {
        if (lane.beside || lane.holder == kNoClient || lane.user == next) continue;
        Client& holder = clients_.at(lane.holder);
        if (holder.yield_asked || !is_live(holder)) continue;
        if (holder.turn() == Turn::kHoldingIdle && !mate_runs(holder)) {
            ask_yield(holder);
            continue;
        }
        if (lane.yield_at == kNever) lane.yield_at = holder.granted_at + options_.min_turn;
        if (lane.yield_at > now_) continue;
        if (still_goes_first(lane)) lane.yield_at = now_ + std::max(options_.min_turn, holder.facts.iteration_time);
        else ask_yield(holder);
    }
}

// One client at a time: the first admitted client in the policy's order, even if it idles.
void Engine::dispatch_exclusive() {
    const bool busy = running_lanes() > 0;
    Client* front = nullptr;
    for (Client* client : clients_.all()) {
        if (client->lane == kNoLane || client->is_aside() || client->refused || client->dropped || is_beside(*client))
            continue;
        if (client->accompanies) continue;
        if (busy ? !client->holds() : lanes_.at(client->lane).holder != kNoClient) continue;
        if (!front || ranks_before(*client, *front)) front = client;
    }
    if (busy) {  // several may still run from before the change of policy
        for (Client* client : clients_.all()) {
            if (is_beside(*client)) continue;
            if (client != front && client->holds() && !(front && are_mates(*client, *front))) ask_yield(*client);
            if (client->ready_index >= 0 && front && ranks_before(*client, *front)) contend(lanes_.at(front->lane), *client);
        }
        return;
    }
    if (front && front->ready_index < 0) {  // a crew is one: whoever of it is ready goes ahead
        for (Client* mate : mates_of(*front)) {
            if (mate->ready_index >= 0 && lanes_.at(mate->lane).holder == kNoClient) front = mate;
        }
    }
    if (front && front->ready_index >= 0) grant(lanes_.at(front->lane), *front);
}

Client* Engine::choose(Candidates candidates) {
    const ClientId id = policy_->choose(candidates, situation());
    const bool valid = std::any_of(candidates.begin(), candidates.end(), [&](const ClientFacts* c) { return c->id == id; });
    if (!valid) [[unlikely]] {
        fall_back(PolicyFault::kNotACandidate);
        return choose(candidates);
    }
    Client* chosen = &clients_.at(id);
    checked_rank(*chosen);
    return chosen;
}

void Engine::grant(Lane& lane, Client& client) {
    SALUS_CHECK(lane.holder == kNoClient, "one holder a lane");
    SALUS_CHECK(client.ready_index >= 0, "only who is ready is granted a turn");
    lane.holder = client.facts.id;
    move_turn(client, Turn::kRunning);
    ++statistics_.turns;
    // With one slot for all lanes, the device itself changes hands.
    const ClientId before = options_.lanes_max == 1 && !lane.beside ? last_granted_ : lane.last_holder;
    const bool measured = measures_overlap() && !lane.beside;
    const bool handover = measured ? !std::ranges::binary_search(last_turn_, client.facts.id) : before != client.facts.id;
    if (handover) ++statistics_.switches;
    lane.last_holder = client.facts.id;
    if (!lane.beside) last_granted_ = client.facts.id;
    act(action::Grant{client.facts.id, lane.id, handover});
    if (client.crew != kNoJob) bring_mates(client);

    lane.yield_at = kNever;
    if (policy_->info.time_sliced && !lane.ready.empty()) {
        lane.yield_at = now_ + least_turn_of(client);
        if (lane.yield_at <= now_) end_turn_of(client);
    }
}

/// The lanes that run in turns. A stopped or stalled holder uses only memory of the device. What is left of a crew's turn
/// when its leader is gone counts like a lane.
std::size_t Engine::running_lanes() const {
    const auto lanes = std::ranges::count_if(lanes_.all(), [&](const Lane& lane) {
        if (lane.beside || lane.holder == kNoClient) return false;
        const Client& holder = clients_.at(lane.holder);
        return !holder.stopped && !holder.stalled;
    });
    if (in_crews_ == 0) return static_cast<std::size_t>(lanes);
    const auto left = std::ranges::count_if(clients_.all(), [&](const Client* client) {
        return client->accompanies && !client->stopped && !client->stalled && !leader_of(*client);
    });
    return static_cast<std::size_t>(lanes + left);
}

// -------------------------------------------------------------------------------------------------------- contention

void Engine::became_ready(Client& client) {
    if (!update_ready(client)) return;
    Lane& lane = lanes_.at(client.lane);
    if (lane.holder != kNoClient) contend(lane, client);
}

/// Decides whether and when the lane's holder must yield to a client that has just become ready.
void Engine::contend(Lane& lane, const Client& newcomer) {
    Client& holder = clients_.at(lane.holder);
    if (holder.yield_asked || leader_of(newcomer)) return;
    if (turn_.is_ending && part_of(holder)) return;
    const PolicyInfo& policy = policy_->info;
    const bool idles = holder.turn() == Turn::kHoldingIdle && !mate_runs(holder) && !companion_runs(holder);
    if (idles && is_work_conserving(lane)) return ask_yield(holder);
    if (policy_->urgent(newcomer.facts, holder.facts)) return ask_yield(holder);
    bool makes_way = policy.time_sliced;
    if (!makes_way) {
        charge_time(holder);
        scratch_ = {&holder.facts, &newcomer.facts};
        for (Client* companion : companions_of(holder)) {
            charge_time(*companion);
            scratch_.push_back(&companion->facts);
        }
        makes_way = choose(scratch_) == &newcomer;
    }
    if (!makes_way) return;
    lane.yield_at = std::min(lane.yield_at, holder.granted_at + least_turn_of(holder));
    if (lane.yield_at <= now_) end_turn_of(holder);
}

/// Whether the lane's holder, whose minimum turn is over, would be chosen again. Those that wait are often not ready at the
/// moment when a turn goes back; if turns just alternated, jobs with long iterations would get more than their share.
bool Engine::still_goes_first(const Lane& lane) {
    Client& holder = clients_.at(lane.holder);
    scratch_.assign(lane.ready.begin(), lane.ready.end());
    const bool one_turn = measures_overlap();
    if (one_user_at_a_time() || one_turn) {
        for (const Lane& other : lanes_.all()) {
            const bool is_theirs = other.user == lane.user && !one_turn;
            const bool is_in_use = other.holder != kNoClient && !one_turn;
            if (other.beside || is_in_use || is_theirs || other.id == lane.id) continue;
            scratch_.insert(scratch_.end(), other.ready.begin(), other.ready.end());
        }
    }
    if (scratch_.empty() || holder.stopped || holder.stalled || holder.turn() != Turn::kRunning) return false;
    charge_time(holder);
    scratch_.push_back(&holder.facts);
    const std::vector<Client*> companions = companions_of(holder);
    for (Client* companion : companions) {
        charge_time(*companion);
        scratch_.push_back(&companion->facts);
    }
    const Client* chosen = choose(scratch_);
    return chosen == &holder || std::ranges::find(companions, chosen) != companions.end();
}

/// After a change of policy or of a client's attributes.
void Engine::contend_everywhere() {
    for (Lane& lane : lanes_.all()) {
        if (lane.holder == kNoClient) continue;
        lane.yield_at = kNever;
        for (const ClientFacts* waiting : lane.ready) contend(lane, clients_.at(waiting->id));
    }
}

/// A crew is asked as one, and so is a company.
void Engine::ask_yield(Client& holder) {
    ask_one(holder);
    for (Client* mate : mates_of(holder)) {
        if (mate->holds()) ask_one(*mate);
    }
    for (Client* companion : companions_of(holder)) ask_one(*companion);
}

void Engine::ask_one(Client& holder) {
    if (holder.lane != kNoLane && !holder.accompanies) lanes_.at(holder.lane).yield_at = kNever;
    holder.let_in_until = kNever;
    if (holder.yield_asked) return;
    holder.yield_asked = true;
    holder.asked_back_at = now_;
    if (holder.turn() == Turn::kHoldingIdle) {
        ++statistics_.revokes;
        act(action::Revoke{holder.facts.id});
    } else {
        ++statistics_.yields_asked;
        act(action::Yield{holder.facts.id});
    }
}

/// The holder, or the last of its crew, has gone idle: others that are ready in the lane need not wait.
void Engine::yield_if_idle(Client& client) {
    if (mate_runs(client) || companion_runs(client)) return;
    std::vector<Client*> together = mates_of(client);
    together.push_back(&client);
    for (Client* holder : together) {
        if (!holder->holds() || holder->accompanies || holder->lane == kNoLane) continue;
        const Lane& lane = lanes_.at(holder->lane);
        if (is_work_conserving(lane) && !lane.ready.empty()) ask_yield(*holder);
    }
}

/// The client's lane, or the right to profile, is free again.
void Engine::release_lane(Client& client) {
    const bool taken_back = std::exchange(client.yield_asked, false);
    leave_turn(client);
    if (boundary_awaited_) {
        boundary_awaited_ = false;
        memory_changed_ = true;
    }
    if (client.accompanies) {
        client.accompanies = false;
        if (client.lane == kNoLane || lanes_.at(client.lane).blocked) memory_changed_ = true;  // it may get another
    } else if (client.lane == kNoLane) {
        if (profiling_ == client.facts.id) profiling_ = kNoClient;
    } else {
        Lane& lane = lanes_.at(client.lane);
        lane.holder = kNoClient;
        lane.yield_at = kNever;
        lane.blocked = false;
        if (taken_back) statistics_.handover_times.add(now_ - client.asked_back_at);
    }
    if (client.crew != kNoJob) pass_on(client, taken_back);
}

/// The grant is back, at a boundary, and the client is parked.
void Engine::give_back(Client& client) {
    const bool profiled_in_this_turn = client.lane == kNoLane && !client.accompanies;
    move_turn(client, Turn::kParked);
    release_lane(client);
    if (profiled_in_this_turn) end_profiling_turn(client);
    else if (client.demand_changed) apply_demand(client);
    if (client.lane != kNoLane) move_by_class(client);
    const auto is_wanted_out = [](const Client* c) { return c->suspended || c->goes_when_idle; };
    if (is_wanted_out(&client) || std::ranges::any_of(mates_of(client), is_wanted_out)) memory_changed_ = true;
    page_out_idle_if_due(client);
}

/// After a change of class: a client that became batch leaves its lane beside, and is admitted again; for one that became
/// interactive, spread_beside() looks for one. A lane that it has to itself changes with it. REQUIRES: it does not hold a
/// turn.
void Engine::move_by_class(Client& client) {
    if (is_beside(client) == client.facts.interactive) return;
    Lane& lane = lanes_.at(client.lane);
    if (lane.members() == 1 && (client.facts.interactive || wants_lane(client))) {
        lane.beside = client.facts.interactive;
        if (!lane.beside) join_turns(client);
    } else if (!client.facts.interactive) {
        leave_lane(client);
    }
    memory_changed_ = true;
}

/// A client that stops waiting leaves its lane's ready list here. A client that begins to wait joins it in became_ready(),
/// which also considers the lane's holder.
void Engine::move_turn(Client& client, Turn to) {
    if (client.holds() && to == Turn::kParked) statistics_.turn_times.add(now_ - client.granted_at);
    if (to == Turn::kRunning && !std::exchange(client.has_run, true) && client.iterations_before == 0)
        statistics_.admission_waits.add(now_ - client.first_wanted_at + starts_.waited(client.job, now_));
    const bool is_in_turn = part_of(client) != nullptr;
    if (is_in_turn) settle_turn_time();
    client.move_turn(to, now_);
    if (is_in_turn) settle_turn_time();
    // A refusal to be paged out that came when the client already wanted to run ends with the turn that it got.
    if (to == Turn::kRunning) client.page_refused = false;
    if (to != Turn::kReady) update_ready(client);
}

/// Adds it to its lane's ready list if it could run, otherwise removes it. True if it was added.
bool Engine::update_ready(Client& client) {
    const bool ready = client.could_run();
    if (ready == (client.ready_index >= 0)) return false;
    std::vector<const ClientFacts*>& list = lanes_.at(client.lane).ready;
    if (ready) {
        client.ready_index = static_cast<std::int32_t>(list.size());
        list.push_back(&client.facts);
    } else {
        clients_.at(list.back()->id).ready_index = client.ready_index;
        list[static_cast<std::size_t>(client.ready_index)] = list.back();
        list.pop_back();
        client.ready_index = -1;
    }
    return ready;
}

// ------------------------------------------------------------------------------------------------------------- gates

bool Engine::is_answering(const Client& client) const {
    return client.requests > 0 && client.facts.interactive && is_beside(client) && client.holds() && !client.stalled &&
           !client.stopped && !client.dropped;
}

void Engine::decide_gates() {
    if (!gates_.are_asked()) return;
    const auto clients = clients_.all();
    const bool in_flight = std::ranges::any_of(clients, [&](const Client* c) { return is_answering(*c); });
    const bool of_use = std::ranges::any_of(clients, [&](const Client* c) {
        const bool works =
            c->turn() == Turn::kRunning || (c->turn() == Turn::kHoldingIdle && now_ - c->idle_since < Gates::kStillBusy);
        return works && !is_beside(*c) && !c->facts.interactive && !c->stalled && !c->stopped;
    });
    if (!gates_.decide(in_flight, of_use, now_)) return;
    if (!gates_.are_closed()) return act(action::OpenGates{});
    ++statistics_.gate_closings;
    act(action::CloseGates{});
}

// -------------------------------------------------------------------------------------------------------- accounting

/// Charges the turn up to now, minus the time that the client is known to have idled.
void Engine::charge_time(Client& client, Duration idle) {
    if (client.turn() != Turn::kRunning) return;
    idle = std::min(idle, now_ - client.charged_until);
    const Duration held = now_ - client.charged_until - idle;
    client.charged_until = now_;
    client.facts.idle += idle;
    if (client.stalled) return;  // it waits for memory and does not run
    client.facts.attained += held;
    client.facts.last_ran = now_;
    const double share = share_of_time(client);
    client.facts.virtual_time_s += share * held.seconds() / client.facts.weight;
    // The time of a crew is that of its leader.
    if (options_.share_by_user && !client.accompanies && !is_beside(client))
        set_account_time(*client.account, client.account->time_s + share * held.seconds());
    if (client.lane != kNoLane) client.memory_time_gib_s += client.facts.ephemeral.mib() / 1024.0 * held.seconds();
}

void Engine::count_iterations(Client& client, std::uint64_t iterations) {
    if (iterations == 0) return;
    client.facts.iterations_done += iterations;
    if (!client.profiled) {
        client.profile_iterations += static_cast<unsigned>(iterations);
        client.profile_time = client.facts.attained;
    }
    // The first iterations fault memory in and build lasting state, so they say little about the others.
    const bool only_those = client.facts.iterations_done <= client.profile_iterations;
    if (only_those && client.iteration_time_stated) return;
    const Duration time = only_those ? client.facts.attained : client.facts.attained - client.profile_time;
    const std::uint64_t count = client.facts.iterations_done - (only_those ? 0 : client.profile_iterations);
    client.facts.iteration_time = time / static_cast<std::int64_t>(count);
}

// Note [Virtual time]
// The virtual clock follows the minimum virtual time of the contending clients, and never goes back. A client that joins, or
// returns from idling, is raised to it. So nobody catches up on past hours, and a client that came in a quiet moment is not
// at a disadvantage.
// A second clock follows the clients that have a lane. A client that waited for memory is raised to that clock when it is
// admitted: the wait gives it no claim on the others' time. A client that was paged out keeps its virtual time; this is how
// clients that do not fit together take turns.
// Clients beside count for neither clock: they take nobody's turn. Their virtual time decides among those that share a lane
// beside. One that leaves such a lane, to take turns, may have run for hours; it need not wait as long.
// If time is shared by user, each user has two such clocks for their clients, and a virtual time of their own: the time that
// they held. Two more clocks follow the users in the same way: a user none of whose clients contends, or has a lane, is
// raised to them when one does.
namespace {
constexpr double kNobodyS = std::numeric_limits<double>::max();
void advance(double& clock_s, double least_s) {
    if (least_s != kNobodyS) clock_s = std::max(clock_s, least_s);
}
}  // namespace

void Engine::advance_virtual_clocks(const Client* joining) {
    for (auto& [id, account] : accounts_) account.least_contending_s = account.least_admitted_s = kNobodyS;
    for (Client* client : clients_.all()) {
        if (client == joining || client->is_aside()) continue;
        charge_time(*client);
        const double time_s = client->facts.virtual_time_s;
        if (is_beside(*client)) continue;
        Account& account = *client->account;
        if (client->turn() == Turn::kReady || client->turn() == Turn::kRunning)
            account.least_contending_s = std::min(account.least_contending_s, time_s);
        if (client->lane != kNoLane) account.least_admitted_s = std::min(account.least_admitted_s, time_s);
    }
    double contending = kNobodyS;
    double admitted = kNobodyS;
    for (auto& [id, account] : accounts_) {
        advance(account.clock_s, account.least_contending_s);
        advance(account.admitted_clock_s, account.least_admitted_s);
        if (account.least_contending_s != kNobodyS) contending = std::min(contending, account.time_s);
        if (account.least_admitted_s != kNobodyS) admitted = std::min(admitted, account.time_s);
    }
    advance(account_clock_s_, contending);
    advance(admitted_account_clock_s_, admitted);
}

void Engine::set_account_time(Account& account, double time_s) {
    account.time_s = time_s;
    for (Client* client : clients_.all()) {
        if (client->account == &account) client->facts.user_time_s = time_s;
    }
}

void Engine::level_virtual_time(Client& client) {
    level_account(client);
    client.facts.virtual_time_s = std::max(client.facts.virtual_time_s, client.account->clock_s);
}

/// Advances the clocks. If nobody else of its user contends, the user joins with it.
void Engine::level_account(Client& client) {
    advance_virtual_clocks(&client);
    Account& account = *client.account;
    if (account.least_contending_s == kNobodyS && account.time_s < account_clock_s_)
        set_account_time(account, account_clock_s_);
}

void Engine::join_turns(Client& client) {
    constexpr double kAheadMostS = 1;
    if (options_.share_by_user) level_account(client);
    const double time_s = client.facts.virtual_time_s;
    const double clock_s = client.account->clock_s;
    client.facts.virtual_time_s = std::clamp(time_s, clock_s, clock_s + kAheadMostS);
}

void Engine::level_with_members(Client& client, const Lane& lane) {
    std::optional<double> least;
    for (const Mapping& m : lane.mappings) {
        if (!m.member || m.client == client.facts.id) continue;
        const double time_s = clients_.at(m.client).facts.virtual_time_s;
        least = std::min(least.value_or(time_s), time_s);
    }
    if (least) client.facts.virtual_time_s = std::max(client.facts.virtual_time_s, *least);
}

void Engine::level_with_admitted(Client& client) {
    advance_virtual_clocks(&client);
    Account& account = *client.account;
    client.facts.virtual_time_s = std::max(client.facts.virtual_time_s, account.admitted_clock_s);
    if (account.least_admitted_s == kNobodyS && account.time_s < admitted_account_clock_s_)
        set_account_time(account, admitted_account_clock_s_);
}

// --------------------------------------------------------------------------------------------------------- profiling

/// True while no lane may be granted because of a profiling turn. See Note [Profiling turns].
bool Engine::dispatch_profiling() {
    Client* client = profiling_ == kNoClient ? nullptr : &clients_.at(profiling_);
    if (client && client->holds()) return profiler_has_device();
    if (client && !may_profile_now(*client, entry_barred())) client = nullptr;
    if (!client) client = next_to_profile();
    profiling_ = client ? client->facts.id : kNoClient;
    if (!client) return false;

    for (const Lane& lane : lanes_.all()) {
        if (!lane.beside && lane.holder != kNoClient) ask_yield(clients_.at(lane.holder));
    }
    if (running_lanes() == 0) start_profiling_turn(*client, ledger_.free());
    return true;
}

/// Lets newcomers profile at once, without the lanes, while there is room for each. True while the lanes of a company are
/// given up for that.
bool Engine::profile_beside() {
    if (profiling_ != kNoClient || ledger_.in_debt()) return false;
    const Bytes share{ledger_.capacity().count / kShareBeside};
    for (Client* client = next_to_profile(); client; client = next_to_profile()) {
        const bool may = client->facts.interactive || (options_.context > Bytes{} && !policy_->info.exclusive);
        if (!may) return false;
        const Bytes half{ledger_.capacity().count / 2};
        if (ledger_.free() < half) return fold_lanes(half);
        if (std::ranges::count_if(clients_.all(), profiles_now) >= kProfileBeside) return false;
        const Bytes has = std::max(client->facts.persistent - client->reserved(), Bytes{});
        if (client->facts.persistent > share || ledger_.free() < has + share) return false;
        start_profiling_turn(*client, has + share);
    }
    return false;
}

/// A profiling turn is in progress, and is neither stopped nor waiting for memory that others must free by running.
bool Engine::profiler_has_device() const {
    const Client* client = profiling_ == kNoClient ? nullptr : &clients_.at(profiling_);
    return client && client->holds() && !client->stopped && (!client->stalled || ledger_.coming() > Bytes{});
}

Client* Engine::next_to_profile() {
    if (stalled_ > 0) return nullptr;
    std::vector<Client*> newcomers;
    for (Client* client : clients_.all()) {
        if (!client->profiled && client->wants()) newcomers.push_back(client);
    }
    if (newcomers.empty()) return nullptr;
    newcomers = by_rank(std::move(newcomers));
    std::stable_partition(newcomers.begin(), newcomers.end(), [](const Client* c) { return c->facts.interactive; });
    if (policy_->info.exclusive) {  // if the first of those not yet on the device may not come, none may
        const auto absent = [](const Client* client) { return client->residency() == Residency::kAbsent; };
        const auto first = std::find_if(newcomers.begin(), newcomers.end(), absent);
        if (first != newcomers.end()) newcomers.erase(std::remove_if(first + 1, newcomers.end(), absent), newcomers.end());
    }
    const Barred barred = entry_barred();
    const auto found =
        std::find_if(newcomers.begin(), newcomers.end(), [&](const Client* c) { return may_profile_now(*c, barred); });
    return found == newcomers.end() ? nullptr : *found;
}

bool Engine::profiles_now(const Client* client) {
    return client->holds() && client->lane == kNoLane && !client->accompanies;
}

bool Engine::may_profile_now(const Client& newcomer, Barred barred) {
    if (!newcomer.wants() || newcomer.profiled || stalled_ > 0) return false;
    if (newcomer.residency() != Residency::kAbsent && newcomer.residency() != Residency::kResident) return false;
    if (!may_enter(newcomer, barred)) return false;
    if (stands_its_ground(newcomer)) return true;
    return std::ranges::none_of(clients_.all(), [&](const Client* other) {
        const bool is_there = other->wants() || (other->turn() == Turn::kRunning && !other->stopped);
        return is_there && runs_before_profiling(*other, newcomer);
    });
}

/// One that waits for its user's memory waits for the newcomer, perhaps, and keeps nobody from the device. So does one that
/// does not fit beside what stays of the others.
bool Engine::runs_before_profiling(const Client& other, const Client& newcomer) const {
    if (!other.profiled || &other == &newcomer || newcomer.facts.interactive || is_beside(other)) return false;
    return !policy_->profiles_before(newcomer.facts, other.facts) && !is_over_limit(other) && fits_beside_rests(other);
}

void Engine::start_profiling_turn(Client& client, Bytes room) {
    if (client.residency() == Residency::kAbsent) client.move_residency(Residency::kResident, now_);
    set_reserved(client, client.reserved() + room);
    move_turn(client, Turn::kRunning);
    ++statistics_.turns;
    ++statistics_.switches;
    ++statistics_.profiling_turns;
    act(action::Room{client.facts.id, client.reserved()});
    last_granted_ = client.facts.id;
    act(action::Grant{client.facts.id, kNoLane, true});
    ask_yield(client);
}

void Engine::end_profiling_turn(Client& client) {
    // A program that shows no iterations needs turns all the same, and its first ones show what memory it takes.
    constexpr unsigned kTurnsOfOne = 2;
    ++client.profile_turns;
    if (client.profile_iterations >= options_.profile_iterations ||
        client.profile_turns >= kTurnsOfOne * options_.profile_iterations) {
        client.profiled = true;
        --unprofiled_;
    }
    apply_demand(client);
    memory_changed_ = true;
}

}  // namespace salus
