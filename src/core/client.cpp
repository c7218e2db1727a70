#include "core/client.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace salus {
namespace {

template <typename State>
using Move = std::pair<State, State>;

// The arrows of the diagrams in client.h.
constexpr Move<Turn> kTurnMoves[] = {
    {Turn::kParked, Turn::kReady},         // Want; Boundary, once the grant is back
    {Turn::kReady, Turn::kRunning},        // Grant
    {Turn::kReady, Turn::kParked},         // Idle
    {Turn::kRunning, Turn::kHoldingIdle},  // Idle
    {Turn::kRunning, Turn::kParked},       // the grant comes back
    {Turn::kHoldingIdle, Turn::kRunning},  // Want
    {Turn::kHoldingIdle, Turn::kParked},   // the grant comes back
};
constexpr Move<Residency> kResidencyMoves[] = {
    {Residency::kAbsent, Residency::kResident},     // admit, profile, Observe
    {Residency::kResident, Residency::kPagingOut},  // PageOut
    {Residency::kPagingOut, Residency::kPaged},     // PagedOut
    {Residency::kPagingOut, Residency::kResident},  // Unpageable
    {Residency::kPaged, Residency::kPagingIn},      // PageIn
    {Residency::kPagingIn, Residency::kResident},   // PagedIn
};

}  // namespace

bool may_move(Turn from, Turn to) {
    return std::find(std::begin(kTurnMoves), std::end(kTurnMoves), Move<Turn>{from, to}) != std::end(kTurnMoves);
}

bool may_move(Residency from, Residency to) {
    return std::find(std::begin(kResidencyMoves), std::end(kResidencyMoves), Move<Residency>{from, to}) !=
           std::end(kResidencyMoves);
}

void Client::move_turn(Turn to, Instant now) {
    SALUS_CHECK(may_move(turn_, to), "a turn does not move this way");
    const bool wanted = turn_ == Turn::kReady || turn_ == Turn::kRunning;
    if (turn_ == Turn::kReady) count_wait(now);
    if (to == Turn::kReady) {
        waits_since = wait_counted_until = now;
        first_wanted_at = std::min(first_wanted_at, now);
    }
    if (to == Turn::kRunning) charged_until = now;
    if (to == Turn::kRunning && turn_ == Turn::kReady) granted_at = now;
    if ((to == Turn::kParked || to == Turn::kHoldingIdle) && wanted) idle_since = now;
    turn_ = to;
}

void Client::move_residency(Residency to, Instant now) {
    SALUS_CHECK(may_move(residency_, to), "memory does not move this way");
    const bool was_there = residency_ == Residency::kPagingOut;  // and stays: it could not be paged
    if (to == Residency::kResident && !was_there) resident_since = now;
    if (to == Residency::kPagingOut || to == Residency::kPagingIn) paging_since = now;
    residency_ = to;
}

Waits Client::waits(Instant now) const {
    Waits all = waited;
    // A wait for a turn is not told: Engine::tell_waits().
    const WaitReason reason = told == WaitReason::kNothing ? WaitReason::kTurn : told;
    if (turn_ == Turn::kReady) wait_for(all, reason) += now - wait_counted_until;
    if (stalled) wait_for(all, WaitReason::kMemory) += now - stalled_at;
    return all;
}

void Client::count_wait(Instant now) {
    waited = waits(now);
    wait_counted_until = now;
}

Client& Clients::add(ClientId id) {
    SALUS_CHECK(index_of(id) < 1'000'000, "ids are small");
    if (index_of(id) >= by_id_.size()) by_id_.resize(index_of(id) + 1);
    std::unique_ptr<Client>& place = by_id_[index_of(id)];
    SALUS_CHECK(!place, "this id is in use");
    place = std::make_unique<Client>();
    place->facts.id = id;
    all_.push_back(place.get());
    return *place;
}

void Clients::remove(ClientId id) {
    std::erase(all_, &at(id));
    by_id_[index_of(id)].reset();
}

}  // namespace salus
