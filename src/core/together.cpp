// Companies: who runs at once where that is measured, and the lanes for it. What is measured and decided is in overlap.h.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/engine.h"

namespace salus {

// Note [Measured turns]
// Where overlap is measured, lanes are memory only, and one turn is on at a time for all of them. It belongs to the client
// that the policy chose, to its company, or to the clients of a trial; all of one user.
// - Clients of a turn need lanes of their own. A client that shares its lane with another of them moves: into a lane that
//   none of them is in, else into a new one, if there is memory that nobody waits for. When somebody waits for memory, or
//   for room to start, such lanes are given up again, before anybody is paged out.
// - A turn ends as one, because of the policy, or because the stretch of a trial is over. Then the client with the longest
//   iterations is asked first, and the others when it is back: so nobody runs alone for long at the end, and the device does
//   not wait. What is urgent asks all of them.
// - The time of a turn is shared by its clients: each is charged its part. So a company has as many shares of the time as it
//   has members, and whoever takes turns alone is no worse off than without companies.
// - A lane for a company takes no memory that anybody could use: not what is kept for jobs that start, nor more than their
//   user may have; and none while somebody waits for memory, is to grow, or profiles.
// - A client that wants nothing keeps its grant while another of its turn runs.
// - A client that the policy calls more urgent than another does not run with it. Crews, interactive clients and newcomers
//   that profile take turns as ever, and what is measured meanwhile does not count.
namespace {

constexpr std::size_t kCompanyMost = 16;
/// The minimum turn of a company, in iterations of its slowest member alone.
constexpr std::int64_t kCompanyIterations = 8;
/// Lanes that only trials need stay open for so long: to open one takes time.
constexpr Duration kKeepLanes = seconds(30);
/// A stretch that was broken off earlier says nothing, unless it had so many iterations.
constexpr std::uint64_t kIterationsMeant = 10;

}  // namespace

bool Engine::measures_overlap() const { return options_.overlap && !policy_->info.exclusive && options_.lanes_max != 1; }

bool Engine::may_run_in_company(const Client& client) const {
    return client.profiled && !client.facts.interactive && client.crew == kNoJob && !client.refused && !client.dropped;
}

Engine::TurnPart* Engine::part_of(const Client& client) {
    const auto found = std::ranges::find(turn_.parts, client.facts.id, &TurnPart::client);
    return found == turn_.parts.end() ? nullptr : &*found;
}

/// The clients of the turn that is on which still hold it.
std::vector<Client*> Engine::turn_holders() {
    std::vector<Client*> holders;
    for (const TurnPart& part : turn_.parts) {
        Client* client = part.is_over ? nullptr : clients_.find(part.client);
        if (client && client->holds()) holders.push_back(client);
    }
    return holders;
}

/// The others that hold this turn.
std::vector<Client*> Engine::companions_of(const Client& client) {
    if (!part_of(client)) return {};
    std::vector<Client*> companions = turn_holders();
    std::erase(companions, &client);
    return companions;
}

bool Engine::companion_runs(const Client& client) {
    return std::ranges::any_of(companions_of(client),
                               [](const Client* other) { return is_live(*other) && other->turn() == Turn::kRunning; });
}

// ---------------------------------------------------------------------------------------------------------- who runs

void Engine::dispatch_measured() {
    for (const Client* client : clients_.all()) {
        if (may_run_in_company(*client)) {
            if (!overlap_.knows(client->facts.id)) expect_by_occupancy(*client);
            overlap_.add(client->facts.id, client->facts.user, now_);
        } else if (overlap_.knows(client->facts.id)) {
            leave_companies(clients_.at(client->facts.id));
        }
    }
    if (std::ranges::any_of(clients_.all(), profiles_now)) turn_.is_disturbed = true;
    if (running_lanes() == 0) {
        finish_turn();
        if (Client* first = first_in_turns()) begin_turn(*first);
        return;
    }
    stop_strangers();
    if (turn_.is_ending) {
        const auto is_asked = [](const Client* holder) { return is_live(*holder) && holder->yield_asked; };
        const std::vector<Client*> holders = turn_holders();
        if (std::ranges::none_of(holders, is_asked)) {  // it is stopped, say
            for (Client* holder : holders) ask_one(*holder);
        }
        return;
    }
    let_companions_in();
    Client* waiting = first_in_turns();
    // A member that is back waits for the rest of its turn. If nobody of it runs any more, a crew may have the device.
    if (!waiting || (part_of(*waiting) && !turn_holders().empty())) return;
    for (Lane& lane : lanes_.all()) {
        if (!lane.beside && lane.holder != kNoClient && is_live(clients_.at(lane.holder))) contend(lane, *waiting);
    }
}

/// A policy that goes by what jobs state of themselves believes it until it has been measured: as if earlier runs had shown
/// it.
void Engine::expect_by_occupancy(const Client& newcomer) {
    if (policy_->info.shares_lanes) return;
    for (const Client* other : clients_.all()) {
        if (other == &newcomer || other->facts.user != newcomer.facts.user || !overlap_.knows(other->facts.id)) continue;
        const double wanted = other->facts.occupancy + newcomer.facts.occupancy;
        const bool is_known = overlap_.recalls(other->facts.id, newcomer.facts.id);
        if (wanted < 2 && !is_known) overlap_.recall(other->facts.id, newcomer.facts.id, 2 / std::max(wanted, 1.0));
    }
}

/// It takes turns alone from now on.
void Engine::leave_companies(Client& client) {
    overlap_.remove(client.facts.id);
    if (client.holds() && !companions_of(client).empty()) ask_yield(client);
}

/// Clients that run although the turn is not theirs: from before a change of policy, or because they were stopped, or waited
/// for memory.
void Engine::stop_strangers() {
    for (const Lane& lane : lanes_.all()) {
        if (lane.beside || lane.holder == kNoClient) continue;
        Client& holder = clients_.at(lane.holder);
        const TurnPart* part = part_of(holder);
        if (!is_live(holder) || (part && !part->is_over) || holder.crew != kNoJob) continue;
        if (turn_.parts.empty()) {  // one may go on
            turn_.plan = {{holder.facts.id}, {}, false};
            enter_turn(holder);
        } else {
            ask_one(holder);
        }
        turn_.is_disturbed = true;
    }
}

/// Those that could run at once with it, in order of their ids.
std::vector<ClientId> Engine::could_run_with(const Client& first) const {
    std::vector<ClientId> ready;
    for (const Client* client : clients_.all()) {
        if (client->ready_index < 0 || client->facts.user != first.facts.user) continue;
        const Lane& lane = *lanes_.find(client->lane);
        if (lane.beside || lane.holder != kNoClient || !may_run_in_company(*client)) continue;
        if (policy_->urgent(first.facts, client->facts) || policy_->urgent(client->facts, first.facts)) continue;
        ready.push_back(client->facts.id);
    }
    std::ranges::sort(ready);
    return ready;
}

/// Whether all of them are in different lanes.
bool Engine::have_own_lanes(const Overlap::Set& members) const {
    std::set<LaneId> lanes;
    return std::ranges::all_of(members, [&](ClientId id) { return lanes.insert(clients_.at(id).lane).second; });
}

/// REQUIRES: nobody runs in turns.
void Engine::begin_turn(Client& first) {
    const std::vector<ClientId> ready = could_run_with(first);
    const std::size_t most = options_.lanes_max > 0 ? options_.lanes_max : kCompanyMost;
    Overlap::Turn plan = overlap_.next(first.facts.id, ready, most, now_);
    if (!plan.is_trial) std::erase_if(plan.members, [&](ClientId id) { return !std::ranges::binary_search(ready, id); });
    if (plan.members.empty()) plan.members = {first.facts.id};
    if (!have_own_lanes(plan.members)) {
        lanes_wanted_ = plan.members;
        memory_changed_ = true;
        plan = {{first.facts.id}, {}, false};
    }
    if (plan.is_trial && plan.members.size() > 1) {
        lanes_tried_at_[first.facts.user] = now_;
        look_again_at(now_ + kKeepLanes);
    }
    turn_.plan = plan;
    turn_.begun_at = now_;
    for (const ClientId id : plan.members) enter_turn(clients_.at(id));
    for (const ClientId id : plan.members) grant(lanes_.at(clients_.at(id).lane), clients_.at(id));
    last_turn_ = plan.members;
    turn_.look_at = now_ + (plan.is_trial ? std::max(plan.length, options_.min_turn) : Overlap::kLookEvery);
}

/// Members of the company that had something else to do when its turn began, or gave their grant back.
void Engine::let_companions_in() {
    if (turn_.plan.is_trial || turn_.parts.empty()) return;
    const std::vector<Client*> holders = turn_holders();
    if (holders.empty() || std::ranges::any_of(holders, [](const Client* c) { return c->yield_asked; })) return;
    for (const ClientId id : overlap_.company_of(holders.front()->facts.id)) {
        Client* client = clients_.find(id);
        if (!client || client->ready_index < 0 || lanes_.at(client->lane).holder != kNoClient) continue;
        std::erase_if(turn_.parts, [&](const TurnPart& part) { return part.client == id; });
        turn_.is_disturbed = true;
        enter_turn(*client);
        grant(lanes_.at(client->lane), *client);
        if (turn_.is_ending) return;  // others wait for its lane, and the minimum turn is over
        if (turn_.look_at == kNever) turn_.look_at = now_ + Overlap::kLookEvery;
    }
}

void Engine::enter_turn(const Client& client) {
    turn_.parts.push_back({client.facts.id, now_, client.steps_done(), turn_.dead, gates_.closed_in_total(now_)});
}

/// Before and after a client of the turn begins or stops to run: how the time is shared, and whether anybody runs at all.
void Engine::settle_turn_time() {
    bool anybody = false;
    for (Client* holder : turn_holders()) {
        charge_time(*holder);
        anybody = anybody || holder->turn() == Turn::kRunning;
    }
    if (turn_.dead_since != kNever) turn_.dead += now_ - turn_.dead_since;
    turn_.dead_since = anybody ? kNever : now_;
}

/// Its part of the time that passes now.
double Engine::share_of_time(const Client& client) {
    if (!part_of(client)) return 1;
    const auto running = std::ranges::count_if(turn_holders(), [](const Client* c) { return c->turn() == Turn::kRunning; });
    return running > 1 ? 1.0 / static_cast<double>(running) : 1;
}

// --------------------------------------------------------------------------------------------------------- its end

Duration Engine::least_turn_of(const Client& holder) {
    if (!part_of(holder)) return options_.min_turn;
    Duration least = std::max(options_.min_turn, turn_.plan.length);
    if (turn_.plan.members.size() < 2 || turn_.plan.is_trial) return least;
    Duration company;
    for (const ClientId id : turn_.plan.members) company = std::max(company, overlap_.alone(id) * kCompanyIterations);
    return std::max(least, std::min(company, Overlap::kStretchMost));  // others wait meanwhile
}

/// The holder is to give its turn back because its time is over; those that run with it, too.
void Engine::end_turn_of(Client& holder) {
    if (!measures_overlap() || !part_of(holder)) return ask_yield(holder);
    if (holder.lane != kNoLane) lanes_.at(holder.lane).yield_at = kNever;  // it is over, whoever is asked first
    if (turn_.is_ending) return;
    turn_.is_ending = true;
    turn_.look_at = kNever;
    Client* slowest = nullptr;
    for (Client* member : turn_holders()) {
        if (member->lane != kNoLane) lanes_.at(member->lane).yield_at = kNever;
        if (!slowest || overlap_.alone(member->facts.id) > overlap_.alone(slowest->facts.id)) slowest = member;
    }
    if (slowest) ask_one(*slowest);
}

/// It holds no turn any more.
void Engine::leave_turn(const Client& client) {
    TurnPart* part = part_of(client);
    if (!part || part->is_over) return;
    part->is_over = true;
    part->did = done_since(*part, client);
    if (!turn_.is_ending) return;
    for (Client* other : turn_holders()) ask_one(*other);
}

Overlap::Part Engine::done_since(const TurnPart& part, const Client& client) const {
    const Duration dead = turn_.dead + (turn_.dead_since == kNever ? Duration{} : now_ - turn_.dead_since) - part.dead;
    const Duration closed = gates_.closed_in_total(now_) - part.closed;
    return {part.client, now_ - part.from - dead - closed, client.steps_done() - part.steps};
}

/// Reports the turn, if it says something, and forgets it.
void Engine::finish_turn() {
    const MeasuredTurn turn = std::exchange(turn_, {});
    if (turn.parts.empty()) return;
    const auto says_nothing = [&](const TurnPart& part) {
        const bool is_short = part.did.time < turn.plan.length / 2 && part.did.iterations < kIterationsMeant;
        const bool is_rough = turn.plan.members.size() > 1 && !turn.plan.is_trial && part.did.iterations < kIterationsMeant;
        return !part.is_over || is_short || is_rough;
    };
    const bool is_whole = !turn.is_disturbed && turn.parts.size() == turn.plan.members.size();
    if (!is_whole || std::ranges::any_of(turn.parts, says_nothing)) {
        if (turn.plan.is_trial) overlap_.broke_off();
        return;
    }
    std::vector<Overlap::Part> parts;
    for (const TurnPart& part : turn.parts) parts.push_back(part.did);
    overlap_.ended(turn.plan, parts, now_ - turn.begun_at, now_);
}

/// The stretch of a trial is over, or a company has run for a while.
void Engine::look_at_turn() {
    turn_.look_at = kNever;
    const std::vector<Client*> holders = turn_holders();
    if (holders.empty()) return;
    // A policy that is not time-sliced would never let others be tried.
    const bool others_wait = turn_.plan.members.size() == 1 && std::ranges::any_of(clients_.all(), [&](const Client* c) {
                                 return c->ready_index >= 0 && !is_beside(*c);
                             });
    if (turn_.plan.is_trial || others_wait) return end_turn_of(*holders.front());
    std::vector<Overlap::Part> parts;
    for (const Client* holder : holders) parts.push_back(done_since(*part_of(*holder), *holder));
    if (!turn_.is_disturbed && !overlap_.look(parts, now_)) return end_turn_of(*holders.front());
    turn_.look_at = now_ + Overlap::kLookEvery;
    turn_.is_disturbed = false;
    turn_.parts.clear();
    for (const Client* holder : holders) enter_turn(*holder);
    turn_.plan.members.clear();
    for (const Client* holder : holders) turn_.plan.members.push_back(holder->facts.id);
    std::ranges::sort(turn_.plan.members);
}

// ------------------------------------------------------------------------------------------------------------- lanes

bool Engine::is_kept_out_by_limit(UserId user) const {
    return starts_.anybody_waits_for(WaitReason::kUserMemory, options_.context, now_, user) ||
           std::ranges::any_of(clients_.all(), [&](const Client* client) {
               return client->facts.user == user && waits_for_memory(*client) && is_over_limit(*client);
           });
}

/// Whether somebody waits for memory that lanes of this user take.
bool Engine::anybody_waits_for_memory(UserId user) const {
    return reserved_for_ != kNoClient || is_kept_out_by_limit(user) ||
           starts_.anybody_waits_for(WaitReason::kMemory, options_.context, now_) ||
           std::ranges::any_of(clients_.all(), [&](const Client* client) {
               const bool waits = waits_for_memory(*client) && !is_over_limit(*client);
               return waits || client->stalled || (!client->profiled && client->wants());
           });
}

/// What lanes for a company of this user may take: not what is meant for jobs that start, nor more than a user may have.
Bytes Engine::spare_memory(UserId user) const {
    const Bytes free = ledger_.free() - starts_.set_aside(options_.context, now_);
    const Bytes limit = limits_of(user).memory;
    if (limit == Bytes{}) return free;
    Bytes used;
    for (const Client* client : clients_.all()) {
        if (client->facts.user == user) used += client->reserved();
    }
    for (const Lane& lane : lanes_.all()) {
        if (lane.user == user) used += lane.charge;
    }
    return std::min(free, limit - used);
}

/// A job does not start, or a client is not let in: then companies have no lanes of their own.
void Engine::fold_for_who_waits() {
    const Bytes one_more = ledger_.free() + ledger_.coming() + Bytes{1};
    if (starts_.anybody_waits_for(WaitReason::kMemory, options_.context, now_)) fold_lanes(one_more);
    std::set<UserId> users;
    for (const Lane& lane : lanes_.all()) users.insert(lane.user);
    for (const UserId user : users) {
        if (is_kept_out_by_limit(user)) fold_lanes(one_more, user);
    }
}

/// Those that are to run at once move to different lanes, if there is room.
void Engine::separate_lanes() {
    const Overlap::Set members = std::exchange(lanes_wanted_, {});
    const Client* first = members.empty() ? nullptr : clients_.find(members.front());
    if (!first) return;
    if (anybody_waits_for_memory(first->facts.user)) return overlap_.has_no_room(members, now_);
    std::set<LaneId> taken;
    std::vector<Client*> moving;
    for (const bool holds : {true, false}) {
        for (const ClientId id : members) {
            Client* client = clients_.find(id);
            if (!client || client->lane == kNoLane) return;
            if (client->holds() == holds && !taken.insert(client->lane).second) moving.push_back(client);
        }
    }
    for (Client* client : moving) {
        const std::optional<LaneId> lane = client->holds() ? std::nullopt : find_other_lane(*client, taken);
        if (!lane) return overlap_.has_no_room(members, now_);
        taken.insert(*lane);
        leave_lane(*client);
        enter_lane(*client, *lane);
    }
}

/// A lane for turns that is none of these; a new one if necessary.
std::optional<LaneId> Engine::find_other_lane(const Client& client, const std::set<LaneId>& taken) {
    const Lane* best = nullptr;
    unsigned lanes = 0;
    for (const Lane& lane : lanes_.all()) {
        if (lane.beside || lane.user != client.facts.user || !lane.has_members()) continue;
        ++lanes;
        if (lane.blocked || taken.contains(lane.id) || lane.size < client.facts.ephemeral) continue;
        if (!best || lane.size < best->size) best = &lane;
    }
    if (best) return best->id;
    if (options_.lanes_max > 0 && lanes >= options_.lanes_max) return std::nullopt;
    if (client.facts.ephemeral > spare_memory(client.facts.user)) trim_lanes();
    if (client.facts.ephemeral > spare_memory(client.facts.user)) return std::nullopt;
    return prepare_lane(client, {Placement::Kind::kOpen, kNoLane, client.facts.ephemeral}, Way::kInTurns);
}

/// Room for the client, which may join a lane that is there.
bool Engine::fold_lanes_for(const Client& client) {
    Bytes widest;
    for (const Lane& lane : lanes_.all()) {
        if (lane.user == client.facts.user && !lane.beside && lane.has_members()) widest = std::max(widest, lane.size);
    }
    return fold_lanes(std::max(client.facts.persistent - client.reserved(), Bytes{}) +
                      std::max(client.facts.ephemeral - widest, Bytes{}));
}

/// Lanes whose members fit into another, until `amount` would be free or would be so soon.
std::vector<Engine::Fold> Engine::folds_for(Bytes amount, std::optional<UserId> user) const {
    std::vector<Fold> folds;
    if (!measures_overlap()) return folds;
    std::set<LaneId> kept;
    Bytes free = ledger_.free() + ledger_.coming();
    for (const Lane& lane : lanes_.all()) {
        if (free >= amount) break;
        if (lane.beside || lane.blocked || !lane.has_members() || kept.contains(lane.id)) continue;
        if (user && lane.user != *user) continue;
        if (lane.holder != kNoClient && !is_live(clients_.at(lane.holder))) continue;
        const auto into = std::ranges::find_if(lanes_.all(), [&](const Lane& other) {
            const bool is_folded = std::ranges::find(folds, other.id, &Fold::from) != folds.end();
            return other.id != lane.id && other.user == lane.user && !other.beside && !other.blocked &&
                   other.has_members() && !is_folded && other.size >= lane.required();
        });
        if (into == lanes_.all().end()) continue;
        folds.push_back({lane.id, into->id, lane.charge});
        kept.insert(into->id);
        free += lane.charge;
    }
    return folds;
}

/// Lanes that were opened for trials, and that no company needs, close when there was no trial for a while.
void Engine::close_spare_lanes() {
    std::map<UserId, std::vector<LaneId>> lanes;
    for (const Lane& lane : lanes_.all()) {
        if (!lane.beside && lane.has_members()) lanes[lane.user].push_back(lane.id);
    }
    for (auto& [user, own] : lanes) {
        std::size_t needed = 1;
        for (const Overlap::Set& company : overlap_.companies()) {
            if (clients_.at(company.front()).facts.user == user) needed = std::max(needed, company.size());
        }
        if (own.size() <= needed) continue;
        const Instant keep_until = lanes_tried_at_[user] + kKeepLanes;
        if (now_ < keep_until) {
            look_again_at(keep_until);
            continue;
        }
        std::vector<Fold> folds = folds_for(Bytes{std::numeric_limits<std::int64_t>::max()}, user);
        std::erase_if(folds, [&](const Fold& fold) { return lanes_.at(fold.from).holder != kNoClient; });
        folds.resize(std::min(folds.size(), own.size() - needed));
        fold(folds);
        if (folds.empty()) look_again_at(now_ + options_.review_every);
    }
}

void Engine::fold(const std::vector<Fold>& folds) {
    for (const Fold& fold : folds) fold_lane(fold.from, fold.into);
    lanes_.close_empty();
}

/// Gives up lanes of companies; of one user, if one is given. False: that would not be enough, and nothing has changed.
bool Engine::fold_lanes(Bytes amount, std::optional<UserId> user) {
    const std::vector<Fold> folds = folds_for(amount, user);
    Bytes free = ledger_.free() + ledger_.coming();
    for (const Fold& fold : folds) free += fold.frees;
    if (folds.empty() || free < amount) return false;
    fold(folds);
    return true;
}

/// Before anybody is paged out. False: there are none.
bool Engine::fold_all_lanes() {
    const std::vector<Fold> folds = folds_for(Bytes{std::numeric_limits<std::int64_t>::max()}, {});
    fold(folds);
    return !folds.empty();
}

/// Its holder, if there is one, moves after its turn.
void Engine::fold_lane(LaneId from, LaneId into) {
    const std::vector<Mapping> mappings = lanes_.at(from).mappings;
    for (const Mapping& mapping : mappings) {
        if (!mapping.member) continue;
        Client& client = clients_.at(mapping.client);
        if (client.holds()) {
            ask_yield(client);
            boundary_awaited_ = true;
            continue;
        }
        leave_lane(client);
        enter_lane(client, into);
    }
}

}  // namespace salus
