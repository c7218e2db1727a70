// Memory: debts, growth in mid-iteration, lanes that shrink, spread and move, paging.
#include <algorithm>

#include "base/check.h"
#include "core/engine.h"

namespace salus {

// Note [Nobody deadlocks on memory]
// By the safety condition, every admitted client can finish its iteration. Two cases remain: clients that hold P but have no
// lane (profiled, but not placed yet), and clients that outgrow what they stated in mid-iteration.
// - A client without a lane that can be paged is never in the way: any client that ranks before it can page it out.
// - A client without a lane that cannot be paged (paging is off, or several threads use the device) "stands its ground":
//   until it has a lane, no other such client comes onto the device, and it may page out any client that can be paged. Such
//   clients that are already there can finish one after the other: the one profiled last has shown that its T fits beside
//   the P of all; when it has left, the same holds for the one before it. If several of them have outgrown their lanes, so
//   that none fits beside the others' P, the last one is squeezed: see squeeze_if_stuck().
// - A stalled client, which outgrew its statement, is given free memory, then the lanes as they reach a boundary, then the
//   memory of clients that are paged out for it. If that is not enough it waits, and clients that cannot be paged continue
//   until they leave. Only if nobody could run then, the client that ranks last is denied, and gets its framework's
//   out-of-memory error. The denial comes after a delay if memory may become free by itself (from a client between two
//   iterations or at its end, or from others who have taken part of the device), or if nobody waits for it.

// Note [The way back]
// The rest R of a client stays charged while it is paged out, so paging out does not free all of P. A client is paged out
// only for one that fits beside the rests (fits_without), which can run to its end. But rests add up: a client that is paged
// out can come back, when the others are out or have left, only if
//
//   sum over the others of R  +  P  +  T   <=   C
//
// New processes bring contexts, so none starts that would break this for a client that is paged out (Starts::next). Contexts
// can also grow, and processes start that nobody has announced. If then nobody can run any more, the client that ranks last
// gets less T than it stated, or is refused if not even its P fits: squeeze_if_stuck().

// Note [Out by request]
// A suspended client has no turn after its next boundary, and no lane; its P is paged out if it can be. Else it stays where
// it is, and is tried again when the client next comes to begin(): one that computes between iterations cannot be paged out.
// Until it is resumed it is admitted nowhere and waits for nothing.
// A member of a crew goes when nobody of its crew runs any more. It may be let into a turn that is being taken back, because
// one inside may wait for it (Note [Crews]).
// One that idles goes out by request, or after a time, and comes back when it next wants to run.

// Called when something about memory may have changed, and at balance_at_.
void Engine::balance() {
    memory_changed_ = false;
    balance_at_ = kNever;
    page_out_by_request();
    lanes_.close_empty();
    if (trim_wanted_) trim_lanes();
    trim_wanted_ = false;
    repay_debts();
    if (stalled_ > 0) serve_stalled();
    rehome_from_stopped();
    // A profiling turn would undo any placement made just before or during it.
    if (measures_overlap()) {
        fold_for_who_waits();
        close_spare_lanes();
    }
    const bool profiling = profiler_has_device() || (unprofiled_ > 0 && next_to_profile());
    if (stalled_ == 0 && !ledger_.in_debt() && !profiling) {
        admit_waiters();
        spread();
        separate_lanes();
    }
    lanes_.close_empty();
    if (stalled_ > 0) deny_if_stuck();
    tell_waits();
}

/// Turns the client's statement into its reservation. REQUIRES: it is at a boundary.
void Engine::apply_demand(Client& client) {
    client.demand_changed = false;
    memory_changed_ = true;
    if (client.on_device() && client.residency() != Residency::kPagingOut) {
        const Bytes wanted = client.facts.persistent;
        ledger_.set_observed(client, wanted);
        if (wanted <= client.reserved() || ledger_.overdrawn() == Bytes{}) set_reserved(client, wanted);
    }
    if (client.lane != kNoLane) {
        Lane& lane = lanes_.at(client.lane);
        if (client.facts.ephemeral > lane.size) leave_lane(client);
        else lane.mapping(client.facts.id)->ephemeral = client.facts.ephemeral;
    }
    if (client.profiled && client.lane == kNoLane) refuse_if_impossible(client);
}

// ------------------------------------------------------------------------------------------------------------- lanes

void Engine::enter_lane(Client& client, LaneId lane) {
    if (lanes_.at(lane).beside) level_with_members(client, lanes_.at(lane));
    const Mapping& mapping = lanes_.join(lane, client.facts.id, client.facts.ephemeral);
    client.lane = lane;
    client.mapped = false;
    act(action::AssignLane{client.facts.id, lane, mapping.target, mapping.version});
}

void Engine::leave_lane(Client& client) {
    SALUS_CHECK(!client.holds(), "a lane changes hands at a boundary only");
    client.mapped = false;
    update_ready(client);
    if (is_beside(client)) join_turns(client);
    const Mapping& mapping = lanes_.part(client.lane, client.facts.id);
    act(action::CloseLane{client.facts.id, client.lane, mapping.version});
    client.lane = kNoLane;
}

void Engine::resize_lane(LaneId id, Bytes size) {
    lanes_.resize(id, size);
    ++statistics_.lane_resizes;
    for (const Mapping& m : lanes_.at(id).mappings) {
        if (m.member) act(action::ResizeLane{m.client, id, m.target, m.version});
    }
}

// A running client uses no more of its lane than its T, so it can unmap the rest at once, even inside an iteration.
void Engine::trim_lanes() {
    for (const Lane& lane : lanes_.all()) {
        if (!lane.has_members()) continue;
        Bytes least = lane.required();
        const Client* holder = lane.holder == kNoClient ? nullptr : &clients_.at(lane.holder);
        if (holder && holder->stalled) least = std::max(least, holder->needed_ephemeral);
        if (lane.size > least) resize_lane(lane.id, least);
    }
}

/// If there is memory, an interactive client that shares a lane gets one of its own, beside. It is not taken from a turn.
void Engine::spread_beside() {
    for (Client* client : clients_.all()) {
        if (!client->facts.interactive || client->lane == kNoLane || client->holds() || client->is_aside()) continue;
        if (lanes_.at(client->lane).members() == 1) {
            move_by_class(*client);
            continue;
        }
        if (client->facts.ephemeral > ledger_.free()) trim_lanes();
        if (client->facts.ephemeral > ledger_.free()) {
            fold_lanes(client->facts.ephemeral);
            look_again_at(now_ + options_.review_every);
            continue;
        }
        leave_lane(*client);
        const Placement placement{Placement::Kind::kOpen, kNoLane, client->facts.ephemeral};
        enter_lane(*client, prepare_lane(*client, placement, Way::kBeside));
    }
}

/// If the policy wants one more lane and there is memory, a client that waits for its turn gets a lane of its own.
void Engine::spread() {
    if (reserved_for_ == kNoClient) spread_beside();
    for (bool moved = reserved_for_ == kNoClient; moved;) {
        moved = false;
        for (const Lane& lane : lanes_.all()) {
            if (lane.beside) continue;
            scratch_ = lane.ready;
            if (lane.holder == kNoClient && !scratch_.empty())
                std::erase(scratch_, &choose(lane.ready)->facts);  // it has the next turn in the lane
            if (scratch_.empty()) continue;
            Client& client = *choose(scratch_);
            if (client.facts.ephemeral > ledger_.free() || !wants_lane(client)) continue;
            leave_lane(client);
            const Placement placement{Placement::Kind::kOpen, kNoLane, client.facts.ephemeral};
            enter_lane(client, prepare_lane(client, placement, Way::kInTurns));
            moved = true;
            break;  // the list of lanes has changed
        }
    }
}

/// Clients that wait behind a long-stopped holder move to another lane, if there is memory.
void Engine::rehome_from_stopped() {
    std::vector<Client*> stuck;
    for (Lane& lane : lanes_.all()) {
        if (lane.holder == kNoClient) continue;
        const Client& holder = clients_.at(lane.holder);
        lane.blocked = holder.stopped && now_ - holder.stopped_at >= options_.rehome_after;
        if (holder.stopped && !lane.blocked) look_again_at(holder.stopped_at + options_.rehome_after);
        if (!lane.blocked) continue;
        for (const ClientFacts* waiting : lane.ready) stuck.push_back(&clients_.at(waiting->id));
    }
    for (Client* client : stuck) {
        const Way way = is_beside(*client) ? Way::kBeside : Way::kInTurns;
        const PlacementRequest request{.user = client->facts.user,
                                       .persistent = {},
                                       .ephemeral = client->facts.ephemeral,
                                       .beside = way == Way::kBeside};
        const std::optional<Placement> placement = lanes_.place(request, ledger_.free());
        if (!placement) continue;
        leave_lane(*client);
        enter_lane(*client, prepare_lane(*client, *placement, way));
        ++statistics_.rehomings;
    }
}

// ------------------------------------------------------------------------------------------------------------ paging

bool Engine::may_evict(const Client& client) const {
    return may_be_paged(client) && client.residency() == Residency::kResident && !client.stopped;
}

/// It wants to run, holds P on the device, has no lane, and cannot be paged. See Note [Nobody deadlocks on memory].
bool Engine::stands_its_ground(const Client& client) const {
    return client.on_device() && client.lane == kNoLane && !may_be_paged(client) && (client.wants() || client.holds()) &&
           !is_over_limit(client);
}

/// See Note [Out by request].
void Engine::page_out_by_request() {
    for (Client* client : clients_.all()) {
        page_out_idle_if_due(*client);
        const bool is_wanted_out = client->suspended || (client->goes_when_idle && client->turn() == Turn::kParked);
        if (!is_wanted_out || client->holds() || any_mate_is_live(*client)) continue;
        if (client->suspended && client->lane != kNoLane) {
            leave_lane(*client);
            trim_wanted_ = true;
        }
        if (may_evict(*client)) page_out(*client);
    }
}

/// Where clients that idle for long are paged out: it goes, or its time is noted. One that has not run yet is about to
/// begin.
void Engine::page_out_idle_if_due(Client& client) {
    if (options_.page_idle_after == Duration{} || !client.idles() || client.goes_when_idle || !client.has_run ||
        !may_evict(client))
        return;
    const Instant due = client.idle_since + options_.page_idle_after;
    if (due > now_) return look_again_at(due);
    client.goes_when_idle = true;
    memory_changed_ = true;
    if (client.holds()) ask_yield(client);
}

void Engine::page_out(Client& client) {
    SALUS_CHECK(may_evict(client) && !client.holds(), "only a parked client on the device is paged out");
    if (client.lane != kNoLane) leave_lane(client);
    client.move_residency(Residency::kPagingOut, now_);
    client.waits_since = now_;
    client.paged_while_parked = client.turn() == Turn::kParked;
    ++statistics_.page_outs;
    statistics_.paged += client.movable();
    act(action::PageOut{client.facts.id, client.movable()});
}

void Engine::page_in(Client& client) {
    client.facts.persistent = std::max(client.facts.persistent, client.observed());
    set_reserved(client, client.facts.persistent);
    client.move_residency(Residency::kPagingIn, now_);
    ++statistics_.page_ins;
    statistics_.paged += client.movable();
    act(action::PageIn{client.facts.id, client.movable()});
}

// --------------------------------------------------------------------------------------- debts and growth in mid-iteration

void Engine::repay_debts() {
    if (!ledger_.in_debt()) return;
    const Bytes short_by = ledger_.overdrawn();
    // A profiling turn holds all memory that was free, and returns most of it at its boundary: no need to page anyone out.
    if (short_by > Bytes{} && profiler_has_device()) return;
    if (short_by > Bytes{}) return reclaim(short_by, nullptr);
    for (Client* client : clients_.all()) {
        if (client->debt() > Bytes{}) set_reserved(*client, client->observed());
    }
}

/// Frees memory until `amount` is or will be free: first the spare memory of lanes; then clients that can be paged, last
/// rank first, parked ones before running ones (at their boundary).
void Engine::reclaim(Bytes amount, const Client* on_behalf_of) {
    if (ledger_.free() + ledger_.coming() >= amount) return;
    trim_lanes();
    if (fold_lanes(amount) || fold_all_lanes()) return;
    std::vector<Client*> pageable;
    for (Client* client : clients_.all()) {
        const bool owes_and_runs = client->holds() && client->debt() > Bytes{};  // its boundary does not reduce its memory
        if (client != on_behalf_of && may_evict(*client) && !client->stalled && !owes_and_runs) pageable.push_back(client);
    }
    pageable = by_rank(std::move(pageable));
    std::reverse(pageable.begin(), pageable.end());
    std::stable_partition(pageable.begin(), pageable.end(), [](const Client* client) { return !client->holds(); });
    Bytes at_boundary;
    for (Client* client : pageable) {
        if (ledger_.free() + ledger_.coming() + at_boundary >= amount) return;
        if (client->holds()) {
            ask_yield(*client);
            boundary_awaited_ = true;
            at_boundary += client->frees();
        } else {
            page_out(*client);
            lanes_.close_empty();
            trim_lanes();
        }
    }
}

/// The memory that must be free before a stalled client can continue.
Bytes Engine::missing(const Client& client) const {
    const auto beyond = [](Bytes wanted, Bytes had) { return std::max(wanted - had, Bytes{}); };
    const Bytes had = client.reserved() + client.debt();  // its debt is already in use
    const Bytes charge = client.lane == kNoLane ? Bytes{} : lanes_.find(client.lane)->charge;
    return ledger_.overdrawn() + beyond(client.needed_persistent + beyond(client.needed_ephemeral, charge), had);
}

/// A holder was asked to yield for its memory, and will. One that waits for memory itself may not.
bool Engine::is_boundary_coming() const {
    return boundary_awaited_ && std::ranges::any_of(clients_.all(), [](const Client* client) {
               return client->holds() && client->yield_asked && !client->stalled && !client->stopped;
           });
}

/// Of newcomers that need more in their profiling turn, one has the device to itself. See Note [Profiling turns].
void Engine::choose_profiler() {
    const Client* chosen = profiling_ == kNoClient ? nullptr : &clients_.at(profiling_);
    if (chosen && profiles_now(chosen) && !chosen->stopped) return;  // one that is stopped is not waited for
    for (const Client* client : clients_.all()) {
        if (!client->stalled || !profiles_now(client) || client->stopped) continue;
        profiling_ = client->facts.id;
        return;
    }
}

void Engine::serve_stalled() {
    choose_profiler();
    for (Client* client : clients_.all()) {
        if (!client->stalled || (profiles_now(client) && client->facts.id != profiling_)) continue;
        Bytes amount = missing(*client);
        if (amount > ledger_.free()) {
            lend_lanes(amount, *client);
            reclaim(amount, client);
            amount = missing(*client);
        }
        if (amount > ledger_.free()) {
            // Memory that is about to be free is for the first in line.
            if (ledger_.coming() > Bytes{} || is_boundary_coming()) return;
            continue;
        }
        meet_need(*client);
    }
}

/// REQUIRES: what it misses is free.
void Engine::meet_need(Client& client) {
    unstall(client);
    if (client.lane == kNoLane) {
        set_reserved(client, std::max(client.reserved(), client.needed_persistent + client.needed_ephemeral));
        return act(action::Room{client.facts.id, client.reserved()});
    }
    set_reserved(client, client.needed_persistent);
    client.facts.persistent = client.needed_persistent;
    act(action::Room{client.facts.id, client.reserved()});
    Lane& lane = lanes_.at(client.lane);
    if (client.needed_ephemeral > lane.size) resize_lane(lane.id, client.needed_ephemeral);
    client.facts.ephemeral = std::max(client.facts.ephemeral, client.needed_ephemeral);
    lane.mapping(client.facts.id)->ephemeral = client.facts.ephemeral;
}

/// A newcomer may wait for the end of another's turn, which does not come. One that is stopped goes on with what it needs,
/// and then waits for nobody. False: no newcomer can be helped.
bool Engine::serve_another_newcomer() {
    for (const bool stopped : {false, true}) {
        for (Client* client : clients_.all()) {
            if (!client->stalled || !profiles_now(client) || client->facts.id == profiling_) continue;
            if (client->stopped != stopped || missing(*client) > ledger_.free()) continue;
            if (stopped) look_again_at(now_ + options_.review_every);  // for those that still wait
            else profiling_ = client->facts.id;
            meet_need(*client);
            return true;
        }
    }
    return false;
}

/// Lends lanes until `amount` will be free: lanes at a boundary at once, others when they reach theirs; and the part of the
/// borrower's own lane that only other members need. Lanes beside, and lanes with a member that cannot be paged, come last,
/// and only if lending them is enough; otherwise their members continue meanwhile.
void Engine::lend_lanes(Bytes amount, const Client& borrower) {
    struct Loan {
        const Lane* lane;
        Bytes size;
    };
    std::vector<Loan> loans;
    std::vector<Loan> only_if_enough;
    Bytes within_reach = ledger_.free() + ledger_.coming();
    for (const Client* client : clients_.all()) {
        if (client != &borrower && may_evict(*client) && !client->stalled) within_reach += client->frees();
    }
    for (const Lane& lane : lanes_.all()) {
        bool all_pageable = true;
        bool any_stuck = false;
        for (const Mapping& m : lane.mappings) {
            const Client& client = clients_.at(m.client);
            if (&client == &borrower) continue;
            any_stuck = any_stuck || client.stopped || client.stalled;
            all_pageable = all_pageable && (!m.member || may_be_paged(client));
        }
        const Bytes kept = lane.id == borrower.lane ? borrower.needed_ephemeral : Bytes{};
        if (any_stuck || !lane.has_members() || lane.size <= kept) continue;
        within_reach += lane.size - kept;
        (all_pageable && !lane.beside ? loans : only_if_enough).push_back({&lane, lane.size - kept});
    }
    if (within_reach >= amount) loans.insert(loans.end(), only_if_enough.begin(), only_if_enough.end());

    Bytes expected = ledger_.free() + ledger_.coming();
    std::vector<Client*> members;
    for (const Loan& loan : loans) {
        if (expected >= amount) break;
        expected += loan.size;
        bool in_use = false;
        for (const Mapping& m : loan.lane->mappings) {
            Client& member = clients_.at(m.client);
            if (!m.member || &member == &borrower || !member.holds()) continue;
            ask_yield(member);
            boundary_awaited_ = in_use = true;
        }
        for (const Mapping& m : loan.lane->mappings) {
            if (m.member && m.client != borrower.facts.id && !in_use) members.push_back(&clients_.at(m.client));
        }
    }
    for (Client* member : members) leave_lane(*member);
    lanes_.close_empty();
}

/// See Note [Nobody deadlocks on memory].
void Engine::deny_if_stuck() {
    if (ledger_.coming() > Bytes{}) return;
    Client* last = nullptr;
    bool another_wants = false;
    bool another_is_between = false;  // it may return and be paged, or end
    for (Client* client : clients_.all()) {
        if (client->stalled) {
            if (!last || ranks_before(*last, *client)) last = client;
            continue;
        }
        const bool goes_on =
            client->turn() == Turn::kRunning || (client->turn() == Turn::kHoldingIdle && client->yield_asked);
        if ((goes_on && !client->stopped) || client->residency() == Residency::kPagingIn) return;
        if (client->on_device() && (client->refused || client->dropped)) return;   // about to go
        if (client->stopped && now_ - client->stopped_at < options_.deny_after) {  // it may continue, and free memory
            return look_again_at(client->stopped_at + options_.deny_after);
        }
        if (client->ready_index >= 0 && lanes_.at(client->lane).holder == kNoClient) return;
        if (client->lane != kNoLane && !client->mapped) return;
        if (client->wants()) another_wants = true;
        else if (client->on_device() && !client->stopped) another_is_between = true;
    }
    if (serve_another_newcomer()) return;
    // The missing part of the device may come back, such as memory of jobs that a new service does not know yet.
    const bool nobody_waits = !another_wants && stalled_ < 2;
    const bool may_wait = nobody_waits || another_is_between || ledger_.capacity() < ledger_.largest_capacity();
    if (may_wait && now_ - last->stalled_at < options_.deny_after) {
        return look_again_at(last->stalled_at + options_.deny_after);
    }
    unstall(*last);
    ++statistics_.denials;
    look_again_at(now_ + options_.review_every);  // others may have a place now
    act(action::Deny{last->facts.id, last->needed_persistent + last->needed_ephemeral, ledger_.capacity()});
}

void Engine::tell_waits() {
    for (Client* client : clients_.all()) {
        auto [reason, behind] = why_waits(*client);
        // Turns change too quickly to report each one; viewers ask why_waits().
        if (reason == WaitReason::kTurn || reason == WaitReason::kMapping) {
            reason = WaitReason::kNothing;
            behind = kNoClient;
        }
        if (reason == client->told && behind == client->told_behind) continue;
        if (client->turn() == Turn::kReady) client->count_wait(now_);
        client->told = reason;
        client->told_behind = behind;
        act(action::Wait{client->facts.id, reason, behind});
    }
}

}  // namespace salus
