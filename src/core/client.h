// One client as the engine sees it, and the two states that it moves through.
//
// Its turn, and what moves it:
//
//             Want               Grant                 Idle (not asked to yield)
//   kParked -------> kReady ---------------> kRunning ---------------------------> kHoldingIdle
//    ^  ^  ^           |                      |     ^              Want               |    |
//    |  |  +-- Idle ---+                      |     +---------------------------------+    |
//    |  +--- the grant comes back ------------+                                            |
//    +------ the grant comes back ---------------------------------------------------------+
//
// A grant comes back by Boundary (the client then moves on to kReady, because it wants to continue), or by Idle. Leave and
// Die park the client before it is removed.
//
// Its memory, and what moves it:
//
//             admit, profile, Observe             PageOut               PagedOut           PageIn
//   kAbsent -------------------------> kResident ---------> kPagingOut ---------> kPaged ---------> kPagingIn
//                                       ^     ^                  |                                      |
//                                       |     +--- Unpageable ---+                                      |
//                                       +------------------ PagedIn ------------------------------------+
//
// A client is admitted when it has a lane. It may be resident without one: between its profiling turns, and while its lane
// is lent to a client that needs room in mid-iteration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "core/types.h"

namespace salus {

enum class Turn : std::uint8_t { kParked, kReady, kRunning, kHoldingIdle };
enum class Residency : std::uint8_t { kAbsent, kResident, kPagingOut, kPaged, kPagingIn };

/// Whether the diagrams above have this arrow.
bool may_move(Turn from, Turn to);
bool may_move(Residency from, Residency to);

struct Account;

struct Client {
    ClientFacts facts;
    Account* account = nullptr;  ///< facts.account

    JobId job = kNoJob;
    JobId crew = kNoJob;                  ///< Note [Crews] in crews.cpp
    std::uint64_t iterations_before = 0;  ///< done under an earlier service
    std::uint64_t launches = 0;           ///< where overlap is measured, and it shows no iterations
    LaneId lane = kNoLane;
    bool profiled = false;  ///< P and T are known
    bool pageable = true;
    bool page_refused = false;        ///< it cannot be paged just now
    bool paged_while_parked = false;  ///< it did not want to run when it was last asked to page out
    bool stopped = false;
    bool suspended = false;       ///< Note [Out by request] in memory.cpp
    bool goes_when_idle = false;  ///< it is to be paged out as soon as it wants nothing, until it wants to run
    bool refused = false;
    bool dropped = false;
    bool yield_asked = false;
    bool mapped = false;          ///< it has its lane mapped, as far as its T reaches
    bool demand_changed = false;  ///< facts.persistent or .ephemeral differ from what is reserved
    bool stalled = false;         ///< waits in mid-iteration for memory that it asked for
    bool accompanies = false;     ///< it holds its crew's turn, but no lane
    unsigned times_let_in = 0;    ///< into a turn of its crew that was being taken back
    unsigned profile_turns = 0;
    unsigned profile_iterations = 0;
    Duration profile_time;               ///< time of these iterations
    bool iteration_time_stated = false;  ///< by the client or by an earlier run, not measured in this one

    std::uint32_t requests = 0;    ///< in flight
    Instant answered_at = kNever;  ///< when the last one ended
    bool asks_again_soon = false;  ///< its last request began within Gates::kHold after the one before

    Bytes rest;  ///< the part of its P that stays on the device when it is paged out

    Bytes needed_persistent;  ///< while stalled
    Bytes needed_ephemeral;

    Instant charged_until;  ///< the turn's time is charged up to here
    Instant granted_at;
    Instant waits_since;  ///< when it began to want to run without a lane
    Instant resident_since;
    Instant idle_since;
    Instant stopped_at;
    Instant stalled_at;
    Instant let_in_until = kNever;  ///< then it is asked to yield as the others of its crew were
    Instant accrued_at;             ///< memory time is counted up to here ...
    double memory_time_gib_s = 0;   ///< ... without the T of a turn that is on
    std::int32_t ready_index = -1;  ///< in its lane's ready list
    WaitReason told = WaitReason::kNothing;
    ClientId told_behind = kNoClient;

    // For viewers only.
    Instant asked_back_at;             ///< if yield_asked
    Instant paging_since;              ///< if it is being paged
    Instant first_wanted_at = kNever;  ///< a turn
    bool has_run = false;              ///< it has had one
    Waits waited{};                    ///< up to wait_counted_until, and what it waited in mid-iteration
    Instant wait_counted_until;

    /// The time that it has waited so far, for each reason.
    Waits waits(Instant now) const;
    /// The reason changes, or the wait ends. REQUIRES: it is ready.
    void count_wait(Instant now);

    Turn turn() const { return turn_; }
    Residency residency() const { return residency_; }
    bool holds() const { return turn_ == Turn::kRunning || turn_ == Turn::kHoldingIdle; }
    bool wants() const { return turn_ == Turn::kReady && !stopped && !suspended && !refused && !dropped; }
    /// It keeps nobody waiting: it is stopped, or suspended and past its boundary.
    bool is_aside() const { return stopped || (suspended && !holds()); }
    bool idles() const { return turn_ == Turn::kParked || turn_ == Turn::kHoldingIdle; }
    /// It needs only a grant, and is on its lane's ready list.
    bool could_run() const { return wants() && profiled && mapped && residency_ == Residency::kResident; }
    bool on_device() const { return residency_ != Residency::kAbsent && residency_ != Residency::kPaged; }
    /// Its memory will be free soon. The memory of a stopped client may never be.
    bool being_paged_out() const { return residency_ == Residency::kPagingOut && !stopped; }

    /// What its pace is measured by: iterations, or launches where they are all that it shows.
    std::uint64_t steps_done() const { return facts.iterations_done + launches; }

    Bytes reserved() const { return reserved_; }  ///< its P in equation (2)
    Bytes observed() const { return observed_; }  ///< private memory that it was observed to use
    /// The part of observed() beyond reserved().
    Bytes debt() const { return observed_ > reserved_ ? observed_ - reserved_ : Bytes{}; }

    /// The part of reserved() that a page-out moves.
    Bytes movable() const { return std::max(reserved_ - rest, Bytes{}); }
    /// What that frees on the device.
    Bytes frees() const { return std::max(std::max(reserved_, observed_) - rest, Bytes{}); }

    /// A page-out would free nothing.
    bool all_stays() const {
        return residency_ == Residency::kResident && lane == kNoLane && rest > Bytes{} && frees() == Bytes{};
    }

    /// The only ways to change the two states. They record the time of a transition where it is needed.
    /// REQUIRES: may_move(turn(), to), may_move(residency(), to).
    void move_turn(Turn to, Instant now);
    void move_residency(Residency to, Instant now);

private:
    friend class Ledger;  // it changes the two amounts, and its sums with them

    Turn turn_ = Turn::kParked;
    Residency residency_ = Residency::kAbsent;
    Bytes reserved_;
    Bytes observed_;
};

/// The clients that are attached.
class Clients {
public:
    /// REQUIRES: the id is not in use.
    Client& add(ClientId id);
    void remove(ClientId id);

    /// In order of attachment.
    std::span<Client* const> all() { return all_; }
    std::span<const Client* const> all() const { return all_; }
    /// REQUIRES: it is attached.
    Client& at(ClientId id) { return *by_id_[index_of(id)]; }
    const Client& at(ClientId id) const { return *by_id_[index_of(id)]; }
    /// nullptr if it is not.
    Client* find(ClientId id) { return index_of(id) < by_id_.size() ? by_id_[index_of(id)].get() : nullptr; }
    const Client* find(ClientId id) const { return index_of(id) < by_id_.size() ? by_id_[index_of(id)].get() : nullptr; }

private:
    std::vector<std::unique_ptr<Client>> by_id_;
    std::vector<Client*> all_;
};

}  // namespace salus
