// Announced jobs: whose process may start, and the memory set aside for those that were told to start.
//
// On a GPU a process allocates a context and its weights before it asks for anything. If there is no room for them, it fails
// or shares nothing. So jobs start in the order of their numbers, each when there is room (Note [Room to start]).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

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
    /// All four must outlive it.
    Starts(const Clients& clients, const Lanes& lanes, const Ledger& ledger, const LimitsByUser& limits);

    enum class Announced : std::uint8_t { kWaits, kRuns, kStartedBefore };
    Announced announce(const event::Announce& e, Instant now);
    void withdraw(JobId job) { jobs_.erase(job); }
    /// A client of the job has attached, whether the job was told to start or not.
    void attached(JobId job, Instant now);

    /// The first waiting job, if there is room for its process. `context` is the memory that each process takes; 0: none.
    std::optional<JobId> next(Bytes context, Instant now) const;
    /// REQUIRES: it waits.
    void start(JobId job, Instant now);

    bool waits(JobId job) const;
    /// The time from its announcement until it started, or until now; 0 if it was not announced.
    Duration waited(JobId job, Instant now) const;
    /// Why it waits; kNothing if it does not.
    WaitReason why_waits(JobId job, Bytes context, Instant now) const;
    bool anybody_waits() const;
    /// Somebody waits for memory of the device, and not because of a limit.
    bool anybody_lacks_memory(Bytes context, Instant now) const;
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
    SetAside set_aside_for(JobId id, const AnnouncedJob& job, Bytes context, Instant now) const;

    const Clients& clients_;
    const Lanes& lanes_;
    const Ledger& ledger_;
    std::map<JobId, AnnouncedJob> jobs_;
    const LimitsByUser& limits_;
    Instant review_at_ = kNever;
};

}  // namespace salus
