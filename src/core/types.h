// Events into the engine, actions out of it, and the facts that policies see.
//
// Words used below (the whole glossary is in ARCHITECTURE.md):
//   P     persistent memory: what a client keeps across boundaries
//   R     rest: the part of P that stays on the device while the client is paged out
//   T     ephemeral memory: what it needs inside an iteration
//   C     the device's capacity
//   L_l   the size of lane l
//
// The safety condition, which holds after every event:
//
//   (1)  for every lane l:     L_l  >=  max over its clients of T_i
//   (2)  sum over clients on the device of P_i  +  sum over clients that are paged out of R_i
//          +  sum over lanes of charge_l   <=   C
//   (3)  charge_l  =  max(L_l, the largest size at which any client still has l mapped)
//
// (3) means that old sizes stay charged until acknowledged. While a client profiles or grows in mid-iteration, P_i is the
// private memory it was given. If C itself falls (others use the device, too), or a client is observed to use more than it
// reserved, there is a debt: nobody is admitted until it is repaid, and the debt does not count as free memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"

namespace salus {

class Policy;

/// The facts about a client that a policy may use. The engine keeps all of them up to date under every policy.
struct ClientFacts {
    ClientId id = kNoClient;
    UserId user{};
    UserId account{};            ///< clients of one account share its time: their user; one for all if time is shared by job
    std::uint64_t sequence = 0;  ///< order of attachment; breaks ties
    int priority = 0;            ///< higher is more urgent
    double weight = 1.0;         ///< share under fair
    bool interactive = false;    ///< its class: it answers somebody who waits; else batch

    Duration attained;          ///< time held on the device so far
    double virtual_time_s = 0;  ///< attained / weight, raised to the others' level when it joins: Note [Virtual time]
    double user_time_s = 0;     ///< the same of its user, whose weight is 1; 0 if time is shared by job
    Instant last_ran{-1};       ///< when it last ran, as of the last charge; negative: never
    std::uint64_t iterations_done = 0;
    std::uint64_t iterations_total = 0;  ///< 0: not known
    Duration iteration_time;             ///< mean so far, or as stated; 0: not known

    Bytes persistent;
    Bytes ephemeral;
    double occupancy = 1.0;  ///< share of the device that it can use alone
    Duration idle;           ///< time in which it did not want to run

    /// The share of the device that it uses if it never waits: its occupancy, reduced by the time it spends on the host.
    double device_share() const {
        const auto whole = static_cast<double>((attained + idle).ns);
        return whole > 0 ? occupancy * static_cast<double>(attained.ns) / whole : occupancy;
    }
};

/// Events: what a shell tells the engine. Iteration counts are those since the client's last report.
namespace event {

/// A job has arrived. Its process starts when the engine says Start, because on a GPU it takes memory before it attaches. A
/// job that is announced again, by another runner or to a new service, keeps its place.
struct Announce {
    JobId job;
    Bytes persistent;     ///< P of an earlier run; 0: unknown
    bool runs = false;    ///< its process already runs, started under an earlier service: no Start
    bool waited = false;  ///< it already waited under an earlier service: jobs that ran there attach first
    UserId user{};
};
/// The job has ended: its runner and its clients are gone.
struct Withdraw {
    JobId job;
};
/// Its user has suspended the job: its process must not start. May come before the job is announced.
struct Hold {
    JobId job;
    bool held = true;  ///< false: it may start again
};
struct Attach {
    ClientId client;
    UserId user{};
    int priority = 0;
    double weight = 1.0;
    bool pageable = true;                ///< false: several threads use the device, so it is never paged
    std::uint64_t iterations_total = 0;  ///< 0: not known
    Duration iteration_time;             ///< from an earlier run; 0: not known
    bool profiled = false;               ///< true: the three figures below are valid; false: they must be learned
    Bytes persistent;
    Bytes ephemeral;
    double occupancy = 1.0;
    JobId job = kNoJob;                   ///< the job that it belongs to
    std::uint64_t iterations_before = 0;  ///< done under an earlier service
    bool interactive = false;
};
/// States or updates its memory needs; takes effect at its next boundary.
struct Demand {
    ClientId client;
    Bytes persistent;
    Bytes ephemeral;
    double occupancy = 1.0;
};
/// It is in mid-iteration and cannot continue without this much memory; it waits for ResizeLane, Room or Deny.
struct Need {
    ClientId client;
    Bytes persistent;
    Bytes ephemeral;
};
/// It was observed to use this much private memory, requested or not, even before its first turn.
struct Observe {
    ClientId client;
    Bytes persistent;
};
/// So much of its P would stay on the device if it were paged out, or has stayed: its context, and small blocks.
struct SetRest {
    ClientId client;
    Bytes rest;
};
/// It cannot be paged: for good, or until it next wants to run. May answer PageOut.
struct Unpageable {
    ClientId client;
    bool for_good = true;
};
/// Its progress in the current turn; `idle` is the time outside iterations since its last report.
struct Progress {
    ClientId client;
    std::uint64_t iterations = 0;
    Duration idle;
    std::uint64_t launches = 0;  ///< since its last report; of a client that shows no iterations, where overlap is measured
};
/// It wants to run (again).
struct Want {
    ClientId client;
};
/// It gave its grant back at a boundary and wants to continue.
struct Boundary {
    ClientId client;
    std::uint64_t iterations = 0;
};
/// It is at a boundary and does not want to run for now. It keeps its grant unless it was asked to yield.
struct Idle {
    ClientId client;
    std::uint64_t iterations = 0;
};
struct Acknowledge {
    ClientId client;
    LaneId lane;
    std::uint32_t version = 0;
};
struct PagedOut {
    ClientId client;
    Bytes rest;  ///< the part of its P that stayed
};
struct PagedIn {
    ClientId client;
};
/// It left properly, at a boundary.
struct Leave {
    ClientId client;
    std::uint64_t iterations = 0;
};
/// Its process is gone: nothing of it runs or is mapped any more.
struct Die {
    ClientId client;
};
/// Paused by its user, or stopped by a signal or a debugger, at any point.
struct Stop {
    ClientId client;
};
struct Continue {
    ClientId client;
};
/// Its user wants it off the device: Note [Out by request] in memory.cpp.
struct Suspend {
    ClientId client;
};
struct Resume {
    ClientId client;
};
/// If it idles, its P is to be paged out at once. It comes back when it next wants to run.
struct PageIdle {
    ClientId client;
};
struct Adjust {
    ClientId client;
    int priority = 0;
    double weight = 1.0;
    std::uint64_t iterations_total = 0;
};
/// From now on it takes turns together with the other clients of its user that named the same crew: Note [Crews] in
/// crews.cpp. It has no T.
struct JoinCrew {
    ClientId client;
    JobId crew = kNoJob;
};
/// Its class has changed.
struct SetClass {
    ClientId client;
    bool interactive = false;
};
/// Its requests, as far as they have come: calls whose answers somebody waits for.
struct Requests {
    ClientId client;
    std::uint32_t in_flight = 0;  ///< begun and not done, now
    std::uint32_t begun = 0;      ///< since its last report
};
/// What earlier runs have shown: how fast these two are at once, relative to taking turns.
struct Recall {
    ClientId client;
    ClientId other;
    double rate = 1;
};
struct SetPolicy {
    const Policy* policy = nullptr;
};
struct SetMinTurn {
    Duration min_turn;
};
/// How fast memory was seen to go to the host and to come back.
struct SetPageRate {
    double bytes_per_s = 0;
};
/// EngineOptions of these names.
struct SetLimits {
    unsigned lanes_max = 0;
    bool paging = true;
    Duration rehome_after;
    Duration page_idle_after = {};
};
/// What the jobs of this user may have together from now on: Note [Limits of a user] in admission.cpp.
struct SetUserLimits {
    UserId user{};
    unsigned jobs_max = 0;  ///< 0: any number
    Bytes memory_max;       ///< 0: no limit
};
struct SetCapacity {
    Bytes capacity;
    bool orphans = false;  ///< clients of an earlier service hold part of the rest, until they attach again or end
};
/// The memory that a process was observed to take on the device beside the memory that it manages.
struct SetContext {
    Bytes context;
};
/// The lane's memory was replaced, because work of its dying holder may continue in the old memory. The other members map
/// the new memory.
struct RenewLane {
    LaneId lane;
};
/// The engine's deadline() has come.
struct Timer {};

}  // namespace event

using Event = std::variant<event::Announce, event::Withdraw, event::Attach, event::Demand, event::Need, event::Observe,
                           event::Unpageable, event::SetRest, event::Progress, event::Want, event::Boundary, event::Idle,
                           event::Acknowledge, event::PagedOut, event::PagedIn, event::Leave, event::Die, event::Stop,
                           event::Continue, event::Hold, event::Suspend, event::Resume, event::PageIdle, event::Adjust,
                           event::JoinCrew, event::SetClass, event::Requests, event::Recall, event::SetPolicy,
                           event::SetMinTurn, event::SetPageRate, event::SetLimits, event::SetUserLimits, event::SetCapacity,
                           event::SetContext, event::RenewLane, event::Timer>;

/// Why a client that wants to run does not.
enum class WaitReason : std::uint8_t {
    kNothing,        ///< it runs, or wants nothing
    kTurn,           ///< its lane is in use by another
    kMemory,         ///< its P and T do not fit yet
    kReservation,    ///< the room is kept for a client that has waited longer
    kProfiling,      ///< another client's first iterations need the device to themselves
    kPaging,         ///< its P is being paged
    kMapping,        ///< its lane is being mapped
    kStoppedHolder,  ///< its lane is held by a client that is stopped
    kOrder,          ///< the policy lets another client go first
    kPaused,         ///< it is stopped itself, or suspended
    kRefused,        ///< it could never fit
    kUserMemory,     ///< its user has as much memory as a user may have
    kUserJobs,       ///< its user has as many jobs as a user may have
};
inline constexpr std::size_t kWaitReasons = 13;
std::string_view name_of(WaitReason reason);
/// Time waited, by reason.
using Waits = std::array<Duration, kWaitReasons>;
inline Duration& wait_for(Waits& waits, WaitReason reason) { return waits[static_cast<std::size_t>(reason)]; }

enum class PolicyFault : std::uint8_t {
    kNotACandidate,  ///< it chose a client that may not run
    kRankNotFinite,  ///< it ranked a client NaN or infinite
};
std::string_view name_of(PolicyFault fault);

enum class ProtocolFault : std::uint8_t {
    kUnknownClient,
    kNoGrant,   ///< reported a boundary or a need without a grant
    kNotAsked,  ///< acknowledged what it was not asked for
    kNonsense,  ///< an impossible figure
};
std::string_view name_of(ProtocolFault fault);

/// Actions: what the engine tells the shell to do, in order.
namespace action {

/// The job's process may start. Repeated if the job is announced again before a client of it has attached.
struct Start {
    JobId job;
};
struct Admit {
    ClientId client;
    LaneId lane;
};
/// It could never fit alone.
struct Refuse {
    ClientId client;
    Bytes need;
    Bytes capacity;
};
struct AssignLane {
    ClientId client;
    LaneId lane;
    Bytes size;
    std::uint32_t version = 0;
};
struct ResizeLane {
    ClientId client;
    LaneId lane;
    Bytes size;
    std::uint32_t version = 0;
};
struct CloseLane {
    ClientId client;
    LaneId lane;
    std::uint32_t version = 0;
};
/// kNoLane: a profiling turn, of one iteration, in private memory.
struct Grant {
    ClientId client;
    LaneId lane;
    bool handover = true;  ///< another client ran here last
};
/// Give the grant back at the next boundary.
struct Yield {
    ClientId client;
};
/// The client is idle: take its grant back without its main thread.
struct Revoke {
    ClientId client;
};
/// The total private memory that it may use from now on.
struct Room {
    ClientId client;
    Bytes persistent;
};
/// Its request for memory in mid-iteration is denied; the framework's own out-of-memory error follows.
struct Deny {
    ClientId client;
    Bytes need;
    Bytes capacity;
};
struct PageOut {
    ClientId client;
    Bytes persistent;
};
struct PageIn {
    ClientId client;
    Bytes persistent;
};
struct Wait {
    ClientId client;
    WaitReason reason{};
    ClientId behind = kNoClient;
};
/// The gates of all batch clients: Note [When gates are closed] in gates.h.
struct CloseGates {};
struct OpenGates {};
/// The policy misbehaved; the fallback takes over.
struct FallBack {
    PolicyFault fault{};
};
/// The client broke the protocol; the shell disconnects it and reports Die when its process is gone.
struct Drop {
    ClientId client;
    ProtocolFault fault{};
};

}  // namespace action

using Action =
    std::variant<action::Start, action::Admit, action::Refuse, action::AssignLane, action::ResizeLane, action::CloseLane,
                 action::Grant, action::Yield, action::Revoke, action::Room, action::Deny, action::PageOut, action::PageIn,
                 action::Wait, action::CloseGates, action::OpenGates, action::FallBack, action::Drop>;

}  // namespace salus
