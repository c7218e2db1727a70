// Jobs that were announced: whose process may start, and what is kept for those that were told to.
//
// On a GPU a process has a context and its weights before it asks for anything. One that finds no room for them fails, or
// shares nothing. So jobs start in the order of their numbers, each when there is room (Note [Room to start]).
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
#include "core/types.h"

namespace salus {

class Starts {
public:
    /// All three must outlive it.
    Starts(const Clients& clients, const Lanes& lanes, const Ledger& ledger);

    enum class Announced : std::uint8_t { kWaits, kRuns, kStartedBefore };
    Announced announce(const event::Announce& e, Instant now);
    void withdraw(JobId job) { jobs_.erase(job); }
    /// A client of it is there, whether the job was told to start or not.
    void attached(JobId job, Instant now);

    /// The first job that waits, if its process would find room. `context` is what each process takes; 0: nothing.
    std::optional<JobId> next(Bytes context, Instant now) const;
    /// REQUIRES: it waits.
    void start(JobId job, Instant now);

    bool waits(JobId job) const;
    bool anybody_waits() const;
    /// When those that wait are to be looked at again; kNever if nobody waits.
    Instant review_at() const { return review_at_; }
    void review_after(Duration time, Instant now) { review_at_ = anybody_waits() ? now + time : kNever; }

private:
    struct AnnouncedJob {
        Bytes persistent;             ///< what an earlier run kept; 0: not known
        Instant not_before;           ///< it does not start earlier, room or not
        Instant started_at = kNever;  ///< kNever: it waits

        bool waits() const { return started_at == kNever; }
    };

    const Client* first_client_of(JobId job) const;

    const Clients& clients_;
    const Lanes& lanes_;
    const Ledger& ledger_;
    std::map<JobId, AnnouncedJob> jobs_;
    Instant review_at_ = kNever;
};

}  // namespace salus
