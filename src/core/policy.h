// A policy: an order over clients, and a choice among those that could run now.
//
// Policies keep no state and see only facts, so they can be switched at run time and tested as tables. The engine trusts
// none of them: after a choice outside the candidates, or a rank that is not a number, it falls back to fifo.
#pragma once

#include <compare>
#include <span>
#include <string_view>

#include "base/time.h"
#include "core/types.h"

namespace salus {

/// Lower goes first. `user` decides, then `tier`, then `order`; of equals, the client goes first that attached first.
struct Rank {
    double user = 0;
    double tier = 0;
    double order = 0;

    constexpr auto operator<=>(const Rank&) const = default;
};

/// Facts that hold for all clients at the moment of a decision.
struct Situation {
    Instant now;
    Duration typical_service;  ///< mean device time of ended jobs: the estimate for a job that states no length
};

using Candidates = std::span<const ClientFacts* const>;

struct PolicyInfo {
    std::string_view name;
    std::string_view good_for;
    std::string_view bad_at;
    bool exclusive = false;        ///< one client at a time, even while it idles; other policies are work-conserving
    bool time_sliced = false;      ///< the lowest rank takes over after each minimum turn; otherwise only events preempt
    bool pages_by_rank = true;     ///< a waiter may page out residents that rank behind it
    bool shares_lanes = true;      ///< a newcomer may join a lane in use; otherwise it waits for a lane of its own
    bool starvation_free = false;  ///< every client that wants to run gets a turn in bounded time
};

class Policy {
public:
    explicit constexpr Policy(const PolicyInfo& about) : info(about) {}
    virtual ~Policy() = default;
    Policy(const Policy&) = delete;
    Policy& operator=(const Policy&) = delete;

    /// The policy's one order: for turns, for admission and, from the back, for paging.
    /// REQUIRES: finite, and the same answer for the same facts and situation.
    virtual Rank rank(const ClientFacts& client, const Situation& now) const = 0;

    /// Chooses who has the next turn. `candidates` is not empty. By default the client of lowest rank.
    virtual ClientId choose(Candidates candidates, const Situation& now) const;

    /// Whether `waiting` is so urgent that `holder` must yield before its minimum turn is over.
    virtual bool urgent(const ClientFacts& waiting, const ClientFacts& holder) const;

    /// Whether a newcomer's profiling turn may come before a turn of `other`.
    virtual bool profiles_before(const ClientFacts& newcomer, const ClientFacts& other) const;

    /// Whether one more lane should run beside the open lanes, which together use `share_in_use` of the device.
    virtual bool opens_lane(double share_in_use, double newcomer_share) const;

    const PolicyInfo info;
};

/// The candidate of lowest rank; REQUIRES: not empty.
const ClientFacts* lowest_rank(const Policy& policy, Candidates candidates, const Situation& now);

/// Whether `a` of rank `rank_a` goes before `b` of rank `rank_b`.
constexpr bool precedes(const Rank& rank_a, const ClientFacts& a, const Rank& rank_b, const ClientFacts& b) {
    return rank_a < rank_b || (rank_a == rank_b && a.sequence < b.sequence);
}

/// Estimated remaining time of a job, in seconds; never zero. From its stated length if it has one; otherwise as long again
/// as it has run (the best estimate for heavy-tailed lengths), and at least a typical job's time.
double estimate_remaining_s(const ClientFacts& client, const Situation& now);

}  // namespace salus
