#include "core/starts.h"

#include <algorithm>

#include "base/check.h"

namespace salus {
namespace {

/// Memory set aside for a job's first iterations.
constexpr Bytes kRoomToLearn = gibibytes(1);
/// After this many iterations, a client has allocated all of its P.
constexpr std::uint64_t kKnownAfter = 3;
/// ... and after this time on the device, for a client that shows no iterations.
constexpr Duration kKnownAfterTime = seconds(2);
/// How long memory is set aside for a process that has not attached; it may never do so.
constexpr Duration kAttachPatience = seconds(60);
/// After a restart of the service, jobs that waited give jobs that ran this long to come back.
constexpr Duration kReturnTime = milliseconds(500);

Bytes need_of(Bytes context, Bytes persistent) {
    return context + (persistent > Bytes{} ? persistent : Starts::kWeightsGuess);
}

}  // namespace

// Note [Room to start]
// A job's `need` is its context plus the P of an earlier run (or a guess). The first waiting job starts when
//
//   reserved  +  debts  +  set aside for others  +  room to learn  +  need   <=   C
//
// Set aside for others: for a job that was told to start but has no client yet, its whole need, for a minute; for a job
// whose client is new, the part that the client has not reserved yet. Room to learn: memory for profiling turns; lanes count
// as part of it, because they are lent to a newcomer. If nobody else is there, a job starts whatever the sum: it could not
// get more memory. Clients of an earlier service are there, too.
//
// Jobs start only at an Announce and at reviews, not as soon as the sum allows it, because a client that has left may still
// have its context. Before both, the shell asks the device what is in use.

Starts::Starts(const Clients& clients, const Lanes& lanes, const Ledger& ledger, const LimitsByUser& limits)
    : clients_(clients), lanes_(lanes), ledger_(ledger), limits_(limits) {}

Starts::Announced Starts::announce(const event::Announce& e, Instant now) {
    const auto [entry, is_new] = jobs_.try_emplace(e.job);
    AnnouncedJob& job = entry->second;
    if (is_new) job.announced_at = now;
    const bool started_before = !job.waits();
    job.persistent = e.persistent;
    job.user = e.user;
    if (e.waited) job.not_before = now + kReturnTime;
    if (e.runs || started_before) job.started_at = now;
    if (e.runs) return Announced::kRuns;
    return started_before ? Announced::kStartedBefore : Announced::kWaits;
}

void Starts::attached(JobId id, Instant now) {
    const auto job = jobs_.find(id);
    if (job != jobs_.end() && job->second.waits()) job->second.started_at = now;
}

void Starts::hold(JobId job, bool held) {
    if (held) held_.insert(job);
    else held_.erase(job);
}

std::optional<JobId> Starts::next(Bytes context, Instant now) const {
    const auto first = std::ranges::find_if(jobs_, [&](const auto& entry) {
        return entry.second.waits() && !held_.contains(entry.first) &&
               limit_of(entry.second, context, now) == WaitReason::kNothing;
    });
    if (first == jobs_.end()) return std::nullopt;
    if (context == Bytes{}) return first->first;
    if (now < first->second.not_before) return std::nullopt;
    const SetAside aside = set_aside_for_all(context, now);
    const bool alone = clients_.all().empty() && !aside.starting && !orphans_;
    const Bytes sum = taken_with(aside) + need_of(context, first->second.persistent);
    const bool has_room = sum <= ledger_.capacity() && all_could_come_back(aside.bytes + context);
    return alone || has_room ? std::optional(first->first) : std::nullopt;
}

Bytes Starts::taken(Bytes context, Instant now) const {
    const SetAside aside = context == Bytes{} ? SetAside{} : set_aside_for_all(context, now);
    if (clients_.all().empty() && !aside.starting && !orphans_) return ledger_.reserved();
    return context == Bytes{} ? ledger_.reserved() : taken_with(aside);
}

Bytes Starts::taken_with(const SetAside& aside) const {
    return ledger_.reserved() + ledger_.debts() + aside.bytes + std::max(kRoomToLearn - lanes_.total_charge(), Bytes{});
}

Starts::SetAside Starts::set_aside_for_all(Bytes context, Instant now) const {
    SetAside all;
    for (const auto& [id, job] : jobs_) {
        const SetAside aside = set_aside_for(id, job, context, now);
        all.bytes += aside.bytes;
        all.starting = all.starting || aside.starting;
    }
    return all;
}

/// See Note [The way back] in memory.cpp.
bool Starts::all_could_come_back(Bytes beside) const {
    const auto stays = [](const Client& client) {
        return client.pageable ? std::min(client.rest, client.reserved()) : client.reserved();
    };
    Bytes rests = beside;
    for (const Client* client : clients_.all()) rests += stays(*client);
    return std::ranges::all_of(clients_.all(), [&](const Client* client) {
        const bool is_out = client->residency() == Residency::kPaged || client->residency() == Residency::kPagingOut;
        const Bytes need = client->facts.persistent + client->facts.ephemeral - stays(*client);
        return !is_out || rests + need <= ledger_.capacity();
    });
}

Starts::SetAside Starts::set_aside_for(JobId id, const AnnouncedJob& job, Bytes context, Instant now) const {
    if (job.waits()) return {};
    const Bytes need = need_of(context, job.persistent);
    const Client* client = first_client_of(id);
    if (!client) return now - job.started_at < kAttachPatience ? SetAside{need, true} : SetAside{};
    const bool is_new =
        client->iterations_before + client->facts.iterations_done < kKnownAfter && client->facts.attained < kKnownAfterTime;
    return {is_new ? std::max(need - client->reserved() - client->debt(), Bytes{}) : Bytes{}, false};
}

WaitReason Starts::limit_of(const AnnouncedJob& job, Bytes context, Instant now) const {
    const Limits limits = limits_.of(job.user);
    if (limits == Limits{}) return WaitReason::kNothing;
    unsigned jobs = 0;
    Bytes used;
    for (const auto& [id, other] : jobs_) {
        if (other.user != job.user || other.waits()) continue;
        ++jobs;
        used += set_aside_for(id, other, context, now).bytes;
    }
    for (const Client* client : clients_.all()) {
        if (client->facts.user != job.user) continue;
        if (!jobs_.contains(client->job)) ++jobs;
        used += client->reserved() + client->debt();
    }
    if (limits.jobs > 0 && jobs >= limits.jobs) return WaitReason::kUserJobs;
    for (const Lane& lane : lanes_.all()) {
        if (lane.user == job.user) used += lane.charge;
    }
    const bool fits =
        limits.memory == Bytes{} || used == Bytes{} || used + need_of(context, job.persistent) <= limits.memory;
    return fits ? WaitReason::kNothing : WaitReason::kUserMemory;
}

WaitReason Starts::why_waits(JobId id, Bytes context, Instant now) const {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || !job->second.waits()) return WaitReason::kNothing;
    if (held_.contains(id)) return WaitReason::kPaused;
    const WaitReason limit = limit_of(job->second, context, now);
    return limit == WaitReason::kNothing ? WaitReason::kMemory : limit;
}

void Starts::start(JobId id, Instant now) {
    AnnouncedJob& job = jobs_.at(id);
    SALUS_CHECK(job.waits(), "a job starts once");
    job.started_at = now;
}

bool Starts::waits(JobId id) const {
    const auto job = jobs_.find(id);
    return job != jobs_.end() && job->second.waits();
}

Duration Starts::waited(JobId id, Instant now) const {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return {};
    return (job->second.waits() ? now : job->second.started_at) - job->second.announced_at;
}

bool Starts::anybody_waits() const {
    return std::ranges::any_of(jobs_,
                               [&](const auto& entry) { return entry.second.waits() && !held_.contains(entry.first); });
}

bool Starts::anybody_waits_for(WaitReason reason, Bytes context, Instant now, std::optional<UserId> user) const {
    return std::ranges::any_of(jobs_, [&](const auto& entry) {
        return (!user || entry.second.user == *user) && why_waits(entry.first, context, now) == reason;
    });
}

Bytes Starts::set_aside(Bytes context, Instant now) const {
    return context == Bytes{} ? Bytes{} : set_aside_for_all(context, now).bytes;
}

const Client* Starts::first_client_of(JobId job) const {
    const auto found = std::ranges::find_if(clients_.all(), [&](const Client* client) { return client->job == job; });
    return found == clients_.all().end() ? nullptr : *found;
}

}  // namespace salus
