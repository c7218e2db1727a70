// Announced jobs: whose process may start, and the memory set aside for those that were told to start.
//
// On a GPU a process allocates a context and its weights before it asks for anything. If there is no room for them, it fails
// or shares nothing. So jobs start in the order of their numbers, each when there is room (Note [Room to start]).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "core/client.h"
#include "core/lanes.h"
#include "core/ledger.h"
#include "core/limits.h"
#include "core/types.h"

namespace salus {

class Starts {
public:
    /// Assumed P of a job, until one of its runs has shown it.
    static constexpr Bytes kWeightsGuess = mebibytes(128);

    /// All four must outlive it.
    Starts(const Clients& clients, const Lanes& lanes, const Ledger& ledger, const LimitsByUser& limits);

    enum class Announced : std::uint8_t { kWaits, kRuns, kStartedBefore };
    Announced announce(const event::Announce& e, Instant now);
    void withdraw(JobId job) {
        jobs_.erase(job);
        held_.erase(job);
    }
    /// A job that is held does not start. May come before it is announced.
    void hold(JobId job, bool held);
    /// A client of the job has attached, whether the job was told to start or not.
    void attached(JobId job, Instant now);

    /// Whether clients of an earlier service are there that have not attached again.
    void set_orphans(bool any) { orphans_ = any; }
    bool has_orphans() const { return orphans_; }

    /// The first waiting job, if there is room for its process. `context` is the memory that each process takes; 0: none.
    std::optional<JobId> next(Bytes context, Instant now) const;
    /// REQUIRES: it waits.
    void start(JobId job, Instant now);

    bool waits(JobId job) const;
    /// Memory that a newcomer cannot have now: reserved, set aside, and room to learn. 0 if nobody is there.
    Bytes taken(Bytes context, Instant now) const;
    /// The time from its announcement until it started, or until now; 0 if it was not announced.
    Duration waited(JobId job, Instant now) const;
    /// Why it waits; kNothing if it does not.
    WaitReason why_waits(JobId job, Bytes context, Instant now) const;
    /// Those that are held do not count.
    bool anybody_waits() const;
    /// Somebody waits for this reason; of this user, if one is given.
    bool anybody_waits_for(WaitReason reason, Bytes context, Instant now, std::optional<UserId> user = {}) const;
    /// The memory that is kept for jobs that have been told to start.
    Bytes set_aside(Bytes context, Instant now) const;
    /// When to look at the waiting jobs again; kNever if none waits.
    Instant review_at() const { return review_at_; }
    void review_after(Duration time, Instant now) { review_at_ = anybody_waits() ? now + time : kNever; }

private:
    struct AnnouncedJob {
        UserId user{};
        Bytes persistent;             ///< P of an earlier run; 0: unknown
        Instant announced_at;         ///< first
        Instant not_before;           ///< the job does not start earlier, even if there is room
        Instant started_at = kNever;  ///< kNever: it waits

        bool waits() const { return started_at == kNever; }
    };

    const Client* first_client_of(JobId job) const;
    /// The limit of its user that keeps the job waiting; kNothing: none.
    WaitReason limit_of(const AnnouncedJob& job, Bytes context, Instant now) const;
    struct SetAside {
        Bytes bytes;
        bool starting = false;  ///< it has no client yet
    };
    /// For all; `starting`: for at least one.
    SetAside set_aside_for_all(Bytes context, Instant now) const;
    Bytes taken_with(const SetAside& aside) const;
    bool all_could_come_back(Bytes beside) const;
    SetAside set_aside_for(JobId id, const AnnouncedJob& job, Bytes context, Instant now) const;

    const Clients& clients_;
    const Lanes& lanes_;
    const Ledger& ledger_;
    std::map<JobId, AnnouncedJob> jobs_;
    std::set<JobId> held_;
    const LimitsByUser& limits_;
    Instant review_at_ = kNever;
    bool orphans_ = false;
};

}  // namespace salus
