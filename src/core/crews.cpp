// Crews: clients that take one turn together.
#include <algorithm>

#include "core/engine.h"

namespace salus {

// Note [Crews]
// Processes of one job that exchange memory, or are ranks under one launcher, wait for each other on the device. If they
// took separate turns, one could hold its turn while it waits, inside a launch, for a kernel of another that waits for its
// turn. So they form a crew and take one turn together. They have no T, so any number of them can run in one lane.
// - One of them, the leader, holds a lane. While it does, every other that wants to run accompanies it, at once. It needs no
//   lane for that, nor room that it does not use already.
// - The turn is taken back from all of them, and ends when the last has given it back. If the leader is not the last, one of
//   the others leads on.
// - While the turn is being taken back, a member that wants to run waits for the next one; but not for long, because one
//   that is still inside may wait for it. Then it is let in, until the leader has given back or as long again. The next time
//   it waits twice as long: else members whose work merely overlaps would keep the turn for ever. The longest wait is longer
//   than a client waits for its device, so that then only a member that is stuck in a launch makes others come in.
// - A member that is stopped leads nobody and keeps no lane. The shell counts a member as stopped if it does not give back
//   for long: whatever it waits for is not in its crew.
// - The crew's time is counted once: its members' virtual times are level whenever one of them begins or ends.
// A member beside the others (Note [Beside] in turns.cpp) waits for nobody, and is left alone.
namespace {

constexpr Duration kLetInAfter = milliseconds(25);
constexpr unsigned kDoublingsMost = 6;

}  // namespace

bool Engine::are_mates(const Client& a, const Client& b) {
    return &a != &b && a.crew != kNoJob && a.crew == b.crew && a.facts.user == b.facts.user;
}

/// The others of its crew that take turns.
std::vector<Client*> Engine::mates_of(const Client& client) {
    std::vector<Client*> mates;
    if (client.crew == kNoJob || is_beside(client)) return mates;
    for (Client* other : clients_.all()) {
        if (are_mates(client, *other) && !is_beside(*other)) mates.push_back(other);
    }
    return mates;
}

void Engine::on(const event::JoinCrew& e) {
    Client* client = known(e.client);
    if (!client) return;
    const bool changes = client->crew != kNoJob && client->crew != e.crew;
    if (!client->profiled || client->facts.ephemeral > Bytes{} || e.crew == kNoJob || changes)
        return drop(e.client, ProtocolFault::kNonsense);
    if (client->crew == kNoJob) ++in_crews_;
    client->crew = e.crew;
    level_crew(*client);
    memory_changed_ = true;
}

/// Who leads the turn of its crew; nullptr: nobody.
const Client* Engine::leader_of(const Client& client) const {
    if (client.crew == kNoJob || is_beside(client)) return nullptr;
    const auto found = std::ranges::find_if(clients_.all(), [&](const Client* other) {
        return are_mates(client, *other) && is_live(*other) && !other->accompanies && !is_beside(*other);
    });
    return found == clients_.all().end() ? nullptr : *found;
}

bool Engine::mate_runs(const Client& client) {
    return std::ranges::any_of(mates_of(client),
                               [](const Client* mate) { return is_live(*mate) && mate->turn() == Turn::kRunning; });
}

bool Engine::any_mate_is_live(const Client& client) {
    return std::ranges::any_of(mates_of(client), [](const Client* mate) { return is_live(*mate); });
}

/// All that it needs to run is there, but for the turn. One that is suspended only helps a turn to its end.
bool Engine::may_accompany(const Client& client) const {
    const bool helps =
        client.suspended && client.turn() == Turn::kReady && !client.stopped && !client.refused && !client.dropped;
    if (!(client.wants() || helps) || is_beside(client) || client.residency() != Residency::kResident) return false;
    return client.lane != kNoLane ? client.mapped : client.facts.persistent <= client.observed();
}

/// Members come in; those that were let in are asked to yield when their time is over.
void Engine::run_crews() {
    crews_at_ = kNever;
    for (Client* client : clients_.all()) {
        if (client->crew == kNoJob) continue;
        if (client->let_in_until <= now_) ask_one(*client);
        else if (may_accompany(*client)) come_in(*client);
        crews_at_ = std::min(crews_at_, client->let_in_until);
    }
}

/// ... if there is a turn of its crew to come into, and it has waited long enough if that is being taken back.
void Engine::come_in(Client& client) {
    const Client* leader = leader_of(client);
    if (!leader) return;
    if (!leader->yield_asked) {
        if (!client.suspended) accompany(client, *leader);
        return;
    }
    const Duration patience = kLetInAfter * (std::int64_t{1} << std::min(client.times_let_in, kDoublingsMost));
    if (const Instant due = client.waits_since + patience; due > now_) {
        crews_at_ = std::min(crews_at_, due);
        return;
    }
    ++client.times_let_in;
    accompany(client, *leader);
    client.let_in_until = now_ + patience;
}

void Engine::accompany(Client& client, const Client& leader) {
    client.accompanies = true;
    if (client.lane == kNoLane) act(action::Room{client.facts.id, std::max(client.reserved(), client.facts.persistent)});
    move_turn(client, Turn::kRunning);
    client.granted_at = leader.granted_at;
    level_crew(client);
    ++statistics_.turns;
    act(action::Grant{client.facts.id, client.lane, false});
}

/// REQUIRES: the leader was just granted its turn.
void Engine::bring_mates(Client& leader) {
    level_crew(leader);
    for (Client* mate : mates_of(leader)) {
        if (!mate->suspended && may_accompany(*mate)) accompany(*mate, leader);
    }
}

/// One has given its turn back, or is gone. The turn of its crew goes on while others hold it.
void Engine::pass_on(Client& left, bool taken_back) {
    left.let_in_until = kNever;
    level_crew(left);
    const bool ends = taken_back && !leader_of(left);  // else those that were let in stay for the leader
    Client* heir = nullptr;
    bool anybody = false;
    for (Client* mate : mates_of(left)) {
        if (!is_live(*mate)) continue;
        anybody = true;
        if (ends) ask_one(*mate);
        const bool has_lane = mate->lane != kNoLane && mate->mapped && lanes_.at(mate->lane).holder == kNoClient;
        if (mate->accompanies && has_lane && !heir) heir = mate;
    }
    if (!anybody) {
        left.times_let_in = 0;
        for (Client* mate : mates_of(left)) mate->times_let_in = 0;
        return;
    }
    for (Client* mate : mates_of(left)) {
        if (!is_live(*mate) || !mate->accompanies || leader_of(*mate)) continue;
        if (heir) return lead(*heir);
        ask_one(*mate);  // it has no lane in which others could ask it
    }
}

/// From now on it holds its lane. REQUIRES: the lane is free.
void Engine::lead(Client& heir) {
    Lane& lane = lanes_.at(heir.lane);
    lane.holder = lane.last_holder = last_granted_ = heir.facts.id;
    lane.yield_at = kNever;
    heir.accompanies = false;
    for (const ClientFacts* waiting : lane.ready) contend(lane, clients_.at(waiting->id));
}

/// It keeps its turn, which it cannot give back now, but not its lane. REQUIRES: it was asked to yield.
void Engine::step_aside(Client& stopped) {
    if (stopped.accompanies || stopped.lane == kNoLane || is_beside(stopped)) return;
    Lane& lane = lanes_.at(stopped.lane);
    lane.holder = kNoClient;
    lane.yield_at = kNever;
    stopped.accompanies = true;
    pass_on(stopped, /*taken_back=*/true);
}

/// Whoever ran longest counts for all on the device. One that is paged out has no part in its mates' turns, and if their
/// time were its own, it would never come before any of them.
void Engine::level_crew(Client& client) {
    std::vector<Client*> crew = mates_of(client);
    if (crew.empty()) return;
    crew.push_back(&client);
    std::erase_if(crew, [](const Client* member) { return !member->on_device(); });
    double furthest_s = 0;
    for (Client* member : crew) {
        charge_time(*member);
        furthest_s = std::max(furthest_s, member->facts.virtual_time_s);
    }
    for (Client* member : crew) member->facts.virtual_time_s = furthest_s;
}

}  // namespace salus
