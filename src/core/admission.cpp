// Admission: how clients enter the device, in the policy's order, by five steps.
#include <algorithm>

#include "base/check.h"
#include "core/engine.h"

namespace salus {

// Note [The five steps]
// 1. open a lane, 2. join the best fit, 3. grow the smallest that makes it fit (all in Lanes::place), 4. page out residents
// that rank behind, 5. wait. Growing a lane needs no boundary: it adds memory at the end, which no running client uses.
// While memory is being freed for one waiter (kUnderWay), waiters behind it are not considered: they would take it.

/// Before a client can attach, its process needs room.
void Engine::start_announced() {
    while (const std::optional<JobId> job = starts_.next(options_.context, now_)) {
        starts_.start(*job, now_);
        act(action::Start{*job});
    }
    starts_.review_after(options_.review_every, now_);
}

// Note [Limits of a user]
// A user's clients and lanes together may reserve so much, and so many of their announced jobs may run at once: the same for
// all users (EngineOptions), except for those of whom SetUserLimits says otherwise. A client of a job that was not announced
// counts as a job. At the limit, a newcomer is not let in, nor one that was paged out, and a job does not start; nothing
// that is there is taken away. So what newcomers bring with them, and growth, can exceed the limit, and the user's next
// client waits. One that exceeds the limit alone is refused, as one that exceeds the device. Clients at the limit keep
// nobody else waiting: they get no reservation, and no exclusive policy waits for them. Root has no limits.

/// The most that it could ever get.
Bytes Engine::most_for(const Client& client) const {
    const Bytes device = ledger_.largest_capacity(), limit = limits_.most_memory(client.facts.user);
    return limit > Bytes{} ? std::min(device, limit) : device;
}

bool Engine::is_over_limit(const Client& client) const {
    const Bytes limit = limits_of(client.facts.user).memory;
    if (limit == Bytes{} || has_entered(client)) return false;
    Bytes used;
    for (const Client* other : clients_.all()) {
        const bool counts = other != &client && other->facts.user == client.facts.user && has_entered(*other);
        if (counts) used += other->reserved();
    }
    Bytes widest;
    for (const Lane& lane : lanes_.all()) {
        if (lane.user != client.facts.user) continue;
        used += lane.charge;
        widest = std::max(widest, lane.size);
    }
    const Bytes need = client.facts.persistent + std::max(client.facts.ephemeral - widest, Bytes{});
    return used > Bytes{} && used + std::max(need, Bytes{1}) > limit;
}

std::vector<Client*> Engine::by_rank(std::vector<Client*> clients) {
    std::vector<std::pair<Rank, Client*>> ranked;
    ranked.reserve(clients.size());
    for (Client* client : clients) ranked.emplace_back(checked_rank(*client), client);
    std::sort(ranked.begin(), ranked.end(),
              [](const auto& a, const auto& b) { return precedes(a.first, a.second->facts, b.first, b.second->facts); });
    for (std::size_t i = 0; i < clients.size(); ++i) clients[i] = ranked[i].second;
    return clients;
}

void Engine::refuse_if_impossible(Client& client) {
    const Bytes need = client.facts.persistent + client.facts.ephemeral;
    if (need > most_for(client)) refuse(client, need);
}

void Engine::refuse(Client& client, Bytes need) {
    if (client.refused) return;
    client.refused = true;
    update_ready(client);
    ++statistics_.refusals;
    act(action::Refuse{client.facts.id, need, most_for(client)});
}

/// Clients on the device without a lane count even if they want nothing now: once they have a lane, they no longer keep
/// others out.
bool Engine::waits_for_memory(const Client& client) const {
    if (client.lane != kNoLane || client.accompanies || client.suspended || client.refused || client.dropped) return false;
    if (client.residency() == Residency::kResident) return client.profiled;
    if (client.residency() == Residency::kPaged) return client.wants();
    return client.residency() == Residency::kAbsent && client.wants() && client.profiled;
}

/// The clients whose state keeps others from the device.
Engine::Barred Engine::entry_barred() const {
    if (ledger_.in_debt()) return Barred::kAll;
    Barred barred = Barred::kNobody;
    for (const Client* client : clients_.all()) {
        if (!stands_its_ground(*client)) continue;
        if (fits_beside_rests(*client)) return Barred::kThoseThatCannotBePaged;
        barred = Barred::kNewcomersThatCannotBePaged;  // it waits for the end of clients that are paged out
    }
    return barred;
}

/// Whether it must wait until clients that stand their ground have left. It comes after those, whatever its rank.
bool Engine::is_kept_out(const Client& client) const {
    if (!client.on_device()) return !may_be_paged(client);
    return waits_for_memory(client) && !fits_without(client, {});
}

/// Whether it is kept out, or an exclusive policy lets it in only after one that is.
bool Engine::is_kept_out_in_order(const Client& client) {
    if (is_kept_out(client)) return true;
    if (has_entered(client) || stands_its_ground(client) || client.facts.interactive) return false;
    return std::ranges::any_of(clients_.all(),
                               [&](const Client* other) { return is_kept_out(*other) && enters_before(*other, client); });
}

/// Memory that it brought with it does not count: the policy has not let it in.
bool Engine::has_entered(const Client& client) {
    const bool brought_memory = !client.profiled && client.profile_turns == 0;
    return client.on_device() && !brought_memory;
}

/// Whether an exclusive policy, which lets one client in at a time, keeps `later` waiting for `earlier`.
bool Engine::enters_before(const Client& earlier, const Client& later) {
    if (&earlier == &later || earlier.is_aside() || earlier.refused || earlier.dropped) return false;
    if (are_mates(earlier, later) || is_beside(earlier) || is_over_limit(earlier)) return false;
    if (!fits_beside_rests(earlier)) return false;
    const Client* first = &later;  // a crew comes in with the first of it
    for (const Client* mate : mates_of(later)) {
        if (mate->on_device() && ranks_before(*mate, *first)) first = mate;
    }
    const bool present = earlier.lane != kNoLane || earlier.on_device() || earlier.wants();
    return present && ranks_before(earlier, *first);
}

/// Whether the order lets it onto the device, regardless of memory. An exclusive policy admits one client at a time.
bool Engine::may_enter(const Client& client, Barred barred) {
    if (has_entered(client)) return true;
    if (is_over_limit(client)) return false;
    if (!client.on_device()) {
        if (barred == Barred::kAll) return false;
        // A client that can be paged is in nobody's way if rank can page it out again.
        const bool in_the_way = !(may_be_paged(client) && policy_->info.pages_by_rank);
        const bool keeps_out = barred == Barred::kThoseThatCannotBePaged ||
                               (barred == Barred::kNewcomersThatCannotBePaged && client.residency() == Residency::kAbsent);
        if (keeps_out && !may_be_paged(client)) return false;
        if (reserved_for_ != kNoClient && reserved_for_ != client.facts.id && in_the_way) return false;
    }
    if (!policy_->info.exclusive || client.facts.interactive) return true;
    return std::ranges::none_of(clients_.all(), [&](const Client* other) {
        return enters_before(*other, client) && !(stands_its_ground(client) && is_kept_out_in_order(*other));
    });
}

void Engine::admit_waiters() {
    if (reserved_for_ != kNoClient) {
        const Client& client = clients_.at(reserved_for_);
        if (!waits_for_memory(client) || is_over_limit(client) || !fits_beside_rests(client)) reserved_for_ = kNoClient;
    }
    std::vector<Client*> waiters;
    for (Client* client : clients_.all()) {
        if (client->profiled && waits_for_memory(*client)) refuse_if_impossible(*client);
        if (waits_for_memory(*client) && !is_over_limit(*client)) waiters.push_back(client);
    }
    if (waiters.empty()) return;
    waiters = by_rank(std::move(waiters));
    std::stable_partition(waiters.begin(), waiters.end(), [&](const Client* client) { return stands_its_ground(*client); });
    std::vector<Client*> left_waiting;
    bool under_way = false;
    bool may_page = options_.paging;
    const Barred barred = entry_barred();
    for (Client* client : waiters) {
        if (!under_way && may_enter(*client, barred)) {
            const Admission result = try_admit(*client, may_page);
            if (result == Admission::kDone) continue;
            under_way = result == Admission::kUnderWay;
        }
        left_waiting.push_back(client);
    }
    if (left_waiting.empty()) return;
    if (!under_way) {
        reserve_for_oldest(left_waiting);
        squeeze_if_stuck(left_waiting);
    }
    look_again_at(now_ + options_.review_every);
    // If rank pages nobody out, a profiled client that does not fit is paged out itself to make room.
    if (policy_->info.pages_by_rank || under_way) return;
    for (Client* client : left_waiting) {
        if (may_evict(*client) && !client->holds()) page_out(*client);
    }
}

/// Clears `may_page` if this client could displace nobody: then the clients behind it cannot either.
Engine::Admission Engine::try_admit(Client& client, bool& may_page) {
    if (client.facts.interactive && client.profiled) {
        bool may_page_idle = may_page;
        const Admission beside = try_admit(client, Way::kBeside, may_page_idle);
        if (beside != Admission::kNo) return beside;
    }
    return try_admit(client, Way::kInTurns, may_page);
}

Engine::Admission Engine::try_admit(Client& client, Way way, bool& may_page) {
    std::optional<Placement> placement = find_place(client, way);
    if (!placement && fits_without(client, {}, way)) {
        trim_lanes();
        placement = find_place(client, way);
        if (!placement) return Admission::kUnderWay;
    }
    if (placement) {
        admit(client, *placement, way);
        return Admission::kDone;
    }
    if (fold_lanes_for(client)) return Admission::kUnderWay;
    if (!may_page) return Admission::kNo;
    const Displaceable displaceable = displaceable_by(client, way);
    may_page =
        stands_its_ground(client) || waits_for_an_end(client) || !displaceable.in_time.empty() || !displaceable.now.empty();
    const std::vector<Client*> victims = victims_for(client, displaceable.now, way);
    if (!victims.empty() && fold_all_lanes()) return Admission::kUnderWay;
    if (victims.empty()) {
        // It will soon be admitted. A client admitted before it now would also have to be given its stay.
        return victims_for(client, displaceable.in_time, way).empty() ? Admission::kNo : Admission::kUnderWay;
    }
    for (Client* victim : victims) {
        if (victim->page_refused) continue;  // it goes when it next wants to run; those that are out by then stay out
        if (victim->holds()) {
            ask_yield(*victim);
            boundary_awaited_ = true;
        } else {
            page_out(*victim);
        }
    }
    lanes_.close_empty();
    trim_lanes();
    return Admission::kUnderWay;
}

std::optional<Placement> Engine::find_place(const Client& client, Way way) const {
    const Bytes to_charge = std::max(client.facts.persistent - client.reserved(), Bytes{});
    if (!client.profiled) {  // paged out between its profiling turns: it needs its P back, but no lane yet
        return to_charge <= ledger_.free() ? std::optional(Placement{}) : std::nullopt;
    }
    const bool beside = way == Way::kBeside;
    return lanes_.place({.user = client.facts.user,
                         .persistent = to_charge,
                         .ephemeral = client.facts.ephemeral,
                         .may_open = beside || wants_lane(client),
                         .may_share = beside || shares_lanes() || client.crew != kNoJob,
                         .beside = beside},
                        ledger_.free());
}

void Engine::admit(Client& client, const Placement& placement, Way way) {
    if (client.residency() == Residency::kPaged) page_in(client);
    else level_with_admitted(client);
    // A client that brought memory with it is already resident, but has reserved none of it yet.
    if (client.reserved() < client.facts.persistent) set_reserved(client, client.facts.persistent);
    if (client.residency() == Residency::kAbsent) client.move_residency(Residency::kResident, now_);
    if (reserved_for_ == client.facts.id) reserved_for_ = kNoClient;
    if (!client.profiled) return;
    const LaneId lane = prepare_lane(client, placement, way);
    ++statistics_.admissions;
    act(action::Admit{client.facts.id, lane});
    enter_lane(client, lane);
}

LaneId Engine::prepare_lane(const Client& client, const Placement& placement, Way way) {
    if (placement.kind == Placement::Kind::kGrow) resize_lane(placement.lane, placement.size);
    if (placement.kind != Placement::Kind::kOpen) return placement.lane;
    ++statistics_.lanes_opened;
    return lanes_.open(client.facts.user, placement.size, way == Way::kBeside);
}

/// One more lane for clients that take turns.
bool Engine::wants_lane(const Client& client) const {
    double share_in_use = 0;
    unsigned open = 0;
    for (const Lane& lane : lanes_.all()) {
        if (lane.beside || (one_user_at_a_time() && lane.user != client.facts.user)) continue;
        double widest = 0;
        double together = 0;
        for (const Mapping& m : lane.mappings) {
            if (!m.member || m.client == client.facts.id) continue;
            const ClientFacts& member = clients_.at(m.client).facts;
            widest = std::max(widest, member.occupancy);
            together += member.device_share();
        }
        share_in_use += std::min(widest, together);  // its members take turns
        if (lane.has_members()) ++open;
    }
    if (open == 0) return true;
    if (measures_overlap()) return false;  // separate_lanes() opens more where that pays
    if (options_.lanes_max > 0) return open < options_.lanes_max;
    return !policy_->info.exclusive && policy_->opens_lane(share_in_use, client.facts.device_share());
}

/// Whether the newcomer fits once `removed` are paged out, all pending changes are done and all lanes are trimmed.
bool Engine::fits_without(const Client& newcomer, std::span<Client* const> removed, Way way) const {
    const auto is_removed = [&](const Client& c) { return std::find(removed.begin(), removed.end(), &c) != removed.end(); };
    Bytes total = ledger_.persistent() + std::max(newcomer.facts.persistent - newcomer.reserved(), Bytes{});
    for (const Client* client : removed) total -= client->movable();
    for (const Client* client : clients_.all()) {
        if (client->being_paged_out()) total -= client->movable();
    }
    const bool beside = way == Way::kBeside;
    const bool may_open = beside || wants_lane(newcomer);
    const bool may_share = beside || shares_lanes() || newcomer.crew != kNoJob;
    bool user_has_lane = false;
    Bytes least_extra = newcomer.facts.ephemeral;
    for (const Lane& lane : lanes_.all()) {
        Bytes stays;
        Bytes required;
        bool joinable = false;
        for (const Mapping& m : lane.mappings) {
            const Client& client = clients_.at(m.client);
            if (m.member && !is_removed(client)) {
                required = std::max(required, m.ephemeral);
                joinable = !lane.blocked && lane.user == newcomer.facts.user && lane.beside == beside;
            }
            if (client.stopped) stays = std::max(stays, m.mapped);
        }
        stays = std::max(stays, required);
        total += stays;
        user_has_lane = user_has_lane || joinable;
        if (joinable && may_share) least_extra = std::min(least_extra, std::max(newcomer.facts.ephemeral - stays, Bytes{}));
    }
    if (newcomer.profiled) total += least_extra;
    if (user_has_lane && !may_open && !may_share) return false;
    return total <= ledger_.capacity();
}

/// The minimum stay of a client on the device, long enough that paging takes a small share of it.
Duration Engine::stay_min(const Client& client) const {
    const double both_ways_s = 2.0 * static_cast<double>(client.reserved().count) / options_.page_bytes_per_s;
    return seconds_of(both_ways_s / options_.page_share_max);
}

/// Until then it is not paged out because of its rank. It came for a turn, and gets one unless that takes long: else those
/// that idle for moments keep it out for ever, because they let it in and are back before its lane is mapped.
Instant Engine::stays_until(const Client& resident) const {
    const bool had_turn = resident.facts.last_ran >= resident.resident_since || !resident.wants();
    return resident.resident_since + (had_turn ? stay_min(resident) : std::max(stay_min(resident), options_.deny_after));
}

/// The client refused to be paged out because it computes between two iterations; when it next wants to run, it can be paged
/// out. Others are paged out before that: else each of two such clients refuses whenever the other could go, and nobody ever
/// comes in.
bool Engine::is_back_soon(const Client& client) const {
    const bool computes = client.page_refused && client.turn() == Turn::kParked;
    if (!computes || !client.pageable || client.residency() != Residency::kResident || client.stopped) return false;
    return now_ - client.idle_since < options_.deny_after;  // else it keeps others waiting for too long
}

/// Residents that the waiter may have paged out, last rank first: those that have idled for long or wait for others to end
/// (Note [The way back]), whatever their rank, and those that rank behind it (under a time-sliced policy, after their
/// minimum stay). For a lane beside nobody is paged out but those that idle.
Engine::Displaceable Engine::displaceable_by(const Client& waiter, Way way) {
    std::vector<Client*> residents;
    for (Client* client : clients_.all()) {
        const bool can_go = may_evict(*client) || is_back_soon(*client);
        if (client == &waiter || !can_go || client->stalled || client->facts.id == profiling_) continue;
        if (profiles_now(client)) continue;  // for one iteration
        charge_time(*client);
        residents.push_back(client);
    }
    residents = by_rank(std::move(residents));
    std::reverse(residents.begin(), residents.end());

    Displaceable found;
    const bool by_force = way == Way::kInTurns && stands_its_ground(waiter);  // Note [Nobody deadlocks on memory]
    for (Client* resident : residents) {
        const bool idle = resident->turn() == Turn::kParked || resident->turn() == Turn::kHoldingIdle;
        const Instant idle_until = idle ? resident->idle_since + stay_min(*resident) : kNever;
        Instant stay_until = kNever;
        if (by_force || (way == Way::kInTurns && waits_for_an_end(*resident))) {
            stay_until = now_;
        } else if (way == Way::kInTurns && policy_->info.pages_by_rank && ranks_before(waiter, *resident)) {
            const bool at_once = !policy_->info.time_sliced || policy_->urgent(waiter.facts, resident->facts);
            const bool makes_use_of_it = resident->lane != kNoLane;
            stay_until = at_once || !makes_use_of_it ? now_ : stays_until(*resident);
            found.in_time.push_back(resident);
        }
        const Instant from = std::min(idle_until, stay_until);
        if (from <= now_) found.now.push_back(resident);
        else if (from < kNever) look_again_at(from);
    }
    return found;
}

/// Whom to page out for the waiter: last rank first, and no more than needed. Empty: paging cannot make it fit.
std::vector<Client*> Engine::victims_for(const Client& waiter, const std::vector<Client*>& displaceable, Way way) {
    std::vector<Client*> chosen;
    for (Client* client : displaceable) {
        chosen.push_back(client);
        if (fits_without(waiter, chosen, way)) break;
    }
    if (chosen.empty() || !fits_without(waiter, chosen, way)) return {};
    for (std::size_t i = chosen.size() - 1; i-- > 0;) {  // the last one chosen is needed
        Client* spared = chosen[i];
        chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
        if (!fits_without(waiter, chosen, way)) chosen.insert(chosen.begin() + static_cast<std::ptrdiff_t>(i), spared);
    }
    return chosen;
}

/// Clients that cannot be paged, and have all outgrown their lanes, would wait for each other for ever, and so would clients
/// that are paged out, if the others' rests have grown (Note [The way back]). The one that ranks last gets a lane of what is
/// left: if it really needs more, it asks, and is denied, as anybody who outgrows the device.
void Engine::squeeze_if_stuck(std::span<Client* const> left_waiting) {
    if (ledger_.coming() > Bytes{} || ledger_.capacity() < ledger_.largest_capacity()) return;
    const auto is_paged = [](const Client* client) { return client->residency() == Residency::kPaged; };
    const bool any_out = std::ranges::any_of(left_waiting, is_paged);
    for (const Client* client : clients_.all()) {
        const bool goes_on = client->turn() == Turn::kRunning || (client->holds() && client->yield_asked);
        if (client->stopped || client->dropped || client->refused || goes_on || client->could_run()) return;
        if (client->suspended && client->on_device()) return;  // until it is resumed
        if (client->residency() == Residency::kPagingIn || (client->lane != kNoLane && client->wants())) return;
        if (any_out && client->on_device() && !client->wants()) return;  // it may go on, end, or be paged out in time
    }
    Client* last = nullptr;
    for (Client* client : left_waiting) {
        const bool is_stuck = stands_its_ground(*client) || client->residency() == Residency::kPaged;
        if (is_stuck && (!last || ranks_before(*last, *client))) last = client;
    }
    if (!last) return;
    const bool is_out = last->residency() == Residency::kPaged;
    const Bytes comes_back = is_out ? last->facts.persistent - last->reserved() : Bytes{};
    const Bytes left = ledger_.free() - comes_back;
    if (last->facts.ephemeral <= left) return;
    const Instant due = last->waits_since + options_.deny_after;
    if (due > now_) return look_again_at(due);
    memory_changed_ = true;
    if (left < Bytes{}) return refuse(*last, ledger_.reserved() + comes_back + last->facts.ephemeral);
    last->facts.ephemeral = left;
}

/// Whether it fits when all others are paged out that can be, beside what stays of them and beside those that stand their
/// ground. Else it waits for the end of some, so it must not keep them from running.
bool Engine::fits_beside_rests(const Client& client) const {
    Bytes need = client.facts.persistent + client.facts.ephemeral;
    for (const Client* other : clients_.all()) {
        if (other == &client) continue;
        if (other->residency() == Residency::kPaged || stands_its_ground(*other)) need += other->reserved();
        else if (other->pageable) need += std::min(other->rest, other->reserved());
    }
    return need <= ledger_.capacity();
}

/// It is on the device, and others have to end before it can run. So it goes if somebody needs its memory, whatever the
/// rank.
bool Engine::waits_for_an_end(const Client& client) const {
    return client.residency() == Residency::kResident && waits_for_memory(client) && !fits_beside_rests(client);
}

/// After a while, the oldest waiter that nothing else helps gets a reservation, which nobody may bypass. A waiter that
/// stands its ground gets it at once.
void Engine::reserve_for_oldest(std::span<Client* const> left_waiting) {
    if (reserved_for_ != kNoClient || policy_->info.exclusive) return;
    std::vector<Client*> evictable;  // sooner or later: a client being paged in counts, one being paged out does not
    for (Client* client : clients_.all()) {
        const bool in = client->residency() == Residency::kResident || client->residency() == Residency::kPagingIn;
        if (may_be_paged(*client) && !client->stopped && in) evictable.push_back(client);
    }
    Client* oldest = nullptr;
    for (Client* client : left_waiting) {
        if (!fits_beside_rests(*client)) continue;
        const bool at_once = stands_its_ground(*client);
        // If rank pages residents out, a waiter is admitted when its rank allows, unless those in its way cannot be paged.
        if (!at_once && options_.paging && policy_->info.pages_by_rank && fits_without(*client, evictable)) continue;
        const Instant due = at_once ? now_ : client->waits_since + options_.reserve_after;
        if (due > now_) {
            look_again_at(due);
            continue;
        }
        const auto older = [](const Client& a, const Client& b) {
            return a.waits_since < b.waits_since || (a.waits_since == b.waits_since && a.facts.sequence < b.facts.sequence);
        };
        if (!oldest || older(*client, *oldest)) oldest = client;
    }
    if (!oldest) return;
    reserved_for_ = oldest->facts.id;
    ++statistics_.reservations;
}

}  // namespace salus
