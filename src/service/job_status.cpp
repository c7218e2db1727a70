#include "service/job_status.h"

#include <algorithm>
#include <limits>

namespace salus::service {
namespace {

using shell::Session;
using shell::Shell;

/// A client may write any figure on its page.
constexpr std::int64_t within_reason(std::uint64_t figure) {
    return static_cast<std::int64_t>(std::min(figure, std::uint64_t{std::numeric_limits<std::int64_t>::max()}));
}
Bytes bytes_on_page(const std::atomic<std::uint64_t>& field) { return {within_reason(field.load())}; }

JobState state_of(const Client& client, const Session& session) {
    if (session.suspended) return JobState::kSuspended;
    if (session.paused) return JobState::kPaused;
    if (session.stopped) return JobState::kStopped;
    if (session.asleep) return JobState::kAsleep;
    if (client.refused) return JobState::kRefused;
    if (client.dropped || session.disconnected) return JobState::kLeaving;
    if (client.residency() == Residency::kPagingOut || client.residency() == Residency::kPagingIn) return JobState::kPaging;
    if (client.residency() == Residency::kPaged) return JobState::kPagedOut;
    if (client.stalled) return JobState::kGrowing;
    if (client.holds()) return session.word().state == control::State::kIdle ? JobState::kIdle : JobState::kRunning;
    return client.turn() == Turn::kReady ? JobState::kWaiting : JobState::kIdle;
}

Wait wait_of(const Shell& shell, const Client& client) {
    const auto [reason, behind] = shell.engine().explain_wait(client);
    Wait wait;
    wait.reason = reason;
    if (behind == kNoClient) return wait;
    const auto holder = shell.sessions().find(behind);
    wait.behind =
        holder == shell.sessions().end() ? Wait::Behind{"?"} : Wait::Behind{holder->second->name, holder->second->job};
    return wait;
}

/// Nothing if it is more than a century.
std::optional<Duration> time_of(double seconds) {
    constexpr double kCentury_s = 3.2e9;
    return seconds <= kCentury_s ? std::optional(seconds_of(seconds)) : std::nullopt;
}

std::optional<Duration> time_left(const Client& client, const Session& session, Instant at) {
    const std::uint64_t total = client.facts.iterations_total;
    const std::uint64_t iterations = session.page->iterations;
    const std::uint64_t done = iterations - std::min(session.iterations_before, iterations);
    if (total == 0) return std::nullopt;
    // A job that has run longer than its earlier run, or than it stated, may end at any time or go on for long.
    if (done > total) return std::nullopt;
    if (done == total) return session.length_is_past ? std::nullopt : std::optional(Duration{});
    const auto left = static_cast<double>(total - done);
    const Duration iteration =
        session.past.iteration_time.ns > 0 ? session.past.iteration_time : client.facts.iteration_time;
    // The first two iterations say little about the others.
    if (done > 2 || (done > 0 && iteration.ns == 0))
        return time_of(left * (at - session.attached_at).seconds() / static_cast<double>(done));
    return iteration.ns > 0 ? time_of(left * iteration.seconds()) : std::nullopt;
}

/// Adds the time of the current turn, of which the engine may not have heard: it hears of it only when somebody waits.
Duration attained_by(const Client& client, const Session& session, std::uint64_t busy_ns) {
    const std::uint64_t untold_ns = busy_ns - std::min(busy_ns, session.busy_told_ns);
    constexpr std::uint64_t kMost = 1ull << 62;
    return client.facts.attained + Duration{client.holds() ? within_reason(std::min(untold_ns, kMost)) : 0};
}

/// Its first iterations may take far longer than the others, so a few say less than an earlier run.
Duration iteration_time_of(const Client& client, const Session& session, bool& is_expected) {
    constexpr std::uint64_t kEnough = 10;
    const std::uint64_t done = client.facts.iterations_done;
    if (done >= kEnough + client.profile_iterations) return client.facts.iteration_time;
    is_expected = true;
    return session.expected_iteration_time();
}

/// The client may write any figure at any time.
IterationMemory iteration_memory_on(const ControlPage& page) {
    IterationMemory memory;
    const std::size_t steps = std::min<std::uint64_t>(page.curve_steps.load(std::memory_order_acquire), page.curve.size());
    for (std::size_t i = 0; i < steps; ++i) memory.most.push_back(bytes_on_page(page.curve[i]));
    memory.least = bytes_on_page(page.curve_least);
    constexpr std::uint64_t kLongest = 1ull << 50;
    memory.step = {within_reason(std::min(page.curve_step_ns.load(), kLongest))};
    return memory;
}

/// Nothing if it takes turns alone.
std::optional<Activity::Company> company_of(const Shell& shell, const Client& client) {
    if (!shell.engine().measures_overlap()) return std::nullopt;
    const Overlap& overlap = shell.engine().overlap();
    const Overlap::Set members = overlap.company_of(client.facts.id);
    if (members.size() < 2) return std::nullopt;
    Activity::Company company;
    for (const ClientId id : members) {
        const auto session = shell.sessions().find(id);
        if (id != client.facts.id && session != shell.sessions().end()) company.jobs.push_back(session->second->job);
    }
    if (const auto rate = overlap.rate_of(members)) {
        company.rate = rate->mean;
        company.error = rate->error;
    }
    return company;
}

Activity activity_of(const Shell& shell, const Client& client, const Session& session, Instant at) {
    const ControlPage& page = *session.page;
    const std::uint64_t busy_ns = shell::busy_ns_of(session, at);
    Activity activity;
    activity.wait = wait_of(shell, client);
    activity.lane = client.lane;
    activity.iterations = page.iterations;
    activity.iterations_before = session.iterations_before;
    const std::uint64_t total = client.facts.iterations_total;
    const bool outlived = session.length_is_past && activity.iterations > total + session.iterations_before;
    if (total > 0 && !outlived) activity.length = {total + session.iterations_before, session.length_is_past};
    activity.left = time_left(client, session, at);
    activity.busy = {within_reason(busy_ns)};
    activity.attained = attained_by(client, session, busy_ns);
    activity.iteration_time = iteration_time_of(client, session, activity.iteration_time_expected);
    activity.idle = client.facts.idle;
    if (session.waiting_since != kNever) activity.waiting_now = at - session.waiting_since;
    activity.waited = session.waited + activity.waiting_now;
    activity.waited_for = client.waits(at);
    activity.persistent = client.facts.persistent;
    activity.ephemeral = client.facts.ephemeral;
    activity.on_device = client.reserved();
    const bool came_back_out = client.residency() == Residency::kAbsent && session.iterations_before > 0;
    if (client.residency() == Residency::kPaged || came_back_out)
        activity.paged_out = std::max(client.facts.persistent - client.reserved(), Bytes{});
    activity.private_bytes = bytes_on_page(page.private_bytes);
    activity.lane_bytes = bytes_on_page(page.lane_bytes);
    activity.missed_bytes = bytes_on_page(page.missed_bytes);
    activity.lane_peak = bytes_on_page(page.lane_peak);
    if (page.launches == 0) activity.iteration_memory = iteration_memory_on(page);
    activity.evacuations = page.evacuations;
    activity.page_outs = page.page_outs;
    activity.boundaries_delayed = page.boundaries_delayed;
    activity.launches = page.launches;
    activity.interactive = client.facts.interactive;
    activity.class_reason = std::string(text_of(session.client_class.reason));
    const Lane* lane = client.lane == kNoLane ? nullptr : shell.engine().lanes().find(client.lane);
    activity.beside = lane && lane->beside;
    activity.company = company_of(shell, client);
    const shell::RequestWatch::Times times = session.requests.times();
    activity.requests = {times.requests, times.p50, times.p99};
    activity.priority = client.facts.priority;
    activity.weight = client.facts.weight;
    activity.occupancy = client.facts.occupancy;
    const bool moves = client.residency() == Residency::kPagingOut || client.residency() == Residency::kPagingIn;
    activity.suspending = session.suspended && (client.holds() || moves);
    activity.pageable = client.pageable;
    if (!client.pageable) activity.stays_because = text_of(session.stays_because);
    const auto place = [&](PagePlace p) { return bytes_on_page(page.paged_bytes[static_cast<std::size_t>(p)]); };
    activity.paged_pinned = place(PagePlace::kPinned);
    activity.paged_memory = place(PagePlace::kMemory);
    activity.paged_file = place(PagePlace::kFile);
    activity.memory_time_gib_s = shell.engine().memory_time_gib_s(client, at);
    return activity;
}

/// What was counted since `before`. A client may write any figures.
Histogram since(const Histogram& before, Histogram now) {
    for (std::size_t i = 0; i < Histogram::kPlaces; ++i) now.counts[i] -= std::min(before.counts[i], now.counts[i]);
    now.sum = std::max(now.sum - before.sum, Duration{});
    return now;
}

}  // namespace

JobTotals job_totals(const Shell& shell, const Session& session, Instant at) {
    const std::uint64_t iterations = session.page->iterations, busy_ns = shell::busy_ns_of(session, at);
    JobTotals totals;
    totals.job = session.job;
    totals.iterations = iterations - std::min(session.iterations_before, iterations);
    totals.busy = {within_reason(busy_ns - std::min(session.busy_before_ns, busy_ns))};
    totals.iteration_times = since(session.iteration_times_before, shell::iteration_times_on(*session.page));
    totals.request_times = session.requests.histogram();
    if (const Client* client = shell.engine().find(session.id)) totals.waited_for = client->waits(at);
    return totals;
}

JobStatus job_status(const Shell& shell, const Session& session, Instant at) {
    JobStatus row;
    row.job = session.job;
    row.client = session.id;
    row.name = session.name;
    row.pid = session.process.pid;
    row.user = UserId{session.uid};
    row.attached = at - session.attached_at;
    if (const Client* client = shell.engine().find(session.id)) {
        row.state = state_of(*client, session);
        row.activity = activity_of(shell, *client, session, at);
    }
    return row;
}

}  // namespace salus::service
