#include "sim/forecast.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "policies/table.h"
#include "sim/simulation.h"

namespace salus::sim {
namespace {

// Note [What a forecast takes for granted]
// Nobody comes, and nobody changes anything. Every client attaches at once, in the order of today, with its P and T known
// and with what is left of its work. What policies remember of it (time attained, iterations done) is added to the facts
// that they see (ResumedPolicy). Iterations take as long as so far. That time was measured with hand-overs and the mapping
// of lanes in it, so both cost nothing here. What is only expected of a job that has hardly run, was stated or measured when
// the machine was another, or busy with other things; so it is corrected by how far expectations were off for the others. A
// job without a known length runs on for ever; the simulation ends with the last job that has one. Clients that take no
// turns (paused, unshared) keep the memory that they have.

/// Far beyond all plans, and yet within the simulator's time, even if everybody shares one device: three years.
constexpr double kForever_s = 1e8;
/// With so many turns at most, a forecast of days takes no longer than one of minutes: some 30 ms for each policy. What is
/// longer is made coarser: Note [Coarse forecasts].
constexpr double kTurnsMost = 10'000;
/// A job ends in so many times the time that all work takes, or others keep it from ending.
constexpr double kPatience = 10;

/// Fewer say little: the first ones may take far longer than the others.
constexpr std::uint64_t kIterationsEnough = 10;

/// An expectation that is further off says nothing about others.
constexpr double kSlowest = 0.01;

/// What a client did before the simulation begins.
struct Past {
    Duration attained;
    std::uint64_t iterations = 0;
};

/// A policy over clients that have run before.
class ResumedPolicy final : public Policy {
public:
    ResumedPolicy(const Policy& policy, std::span<const Past> pasts) : Policy(policy.info), policy_(policy), pasts_(pasts) {}

    Rank rank(const ClientFacts& client, const Situation& now) const override { return policy_.rank(whole(client), now); }
    ClientId choose(Candidates candidates, const Situation& now) const override {
        std::vector<ClientFacts> all;
        for (const ClientFacts* candidate : candidates) all.push_back(whole(*candidate));
        std::vector<const ClientFacts*> pointers;
        for (const ClientFacts& facts : all) pointers.push_back(&facts);
        return policy_.choose(pointers, now);
    }
    bool urgent(const ClientFacts& waiting, const ClientFacts& holder) const override {
        return policy_.urgent(whole(waiting), whole(holder));
    }
    bool profiles_before(const ClientFacts& newcomer, const ClientFacts& other) const override {
        return policy_.profiles_before(whole(newcomer), whole(other));
    }
    bool opens_lane(double share_in_use, double newcomer_share) const override {
        return policy_.opens_lane(share_in_use, newcomer_share);
    }

private:
    ClientFacts whole(ClientFacts facts) const {
        const Past& past = pasts_[index_of(facts.id)];
        facts.attained += past.attained;
        facts.iterations_done += past.iterations;
        if (facts.iterations_total > 0) facts.iterations_total += past.iterations;
        return facts;
    }

    const Policy& policy_;
    std::span<const Past> pasts_;
};

/// A row of the status as the simulator sees it.
struct Part {
    Outlook outlook = Outlook::kAside;
    std::size_t row = 0;
    SimulatedJob job = {};
    Past past = {};

    double whole_s() const { return static_cast<double>(job.iterations) * (job.iteration_time + job.think).seconds(); }
};

/// The mean time of an iteration, from two counts. The engine's has hand-overs in it, as it should, but also the part of
/// pauses of which the service hears late. The client's own has neither, but has the first iterations, which say little
/// about the others.
Duration iteration_time_of(const Activity& activity) {
    const auto iterations = static_cast<std::int64_t>(activity.iterations);
    const Duration by_client = iterations > 0 ? activity.busy / iterations : Duration{};
    if (activity.iteration_time.ns <= 0) return activity.iterations >= kIterationsEnough ? by_client : Duration{};
    const bool pauses = activity.idle.ns > 0 && by_client.ns > 0;
    return pauses ? std::min(activity.iteration_time, by_client) : activity.iteration_time;
}

/// Host time between iterations. What would hardly matter would only cost events.
Duration pause_of(const Activity& activity, Duration iteration_time, std::uint64_t done) {
    if (done == 0 || activity.idle.ns <= 0) return {};
    const Duration heard_late = std::max(activity.iteration_time - iteration_time, Duration{});
    const Duration pause = activity.idle / static_cast<std::int64_t>(done) + heard_late;
    return pause.ns > iteration_time.ns / 100 ? pause : Duration{};
}

/// How many times longer iterations took so far because clients ran beside each other in several lanes.
double crowd_of(const Status& status) {
    double held_s = 0;
    double longest_s = 0;
    for (const JobStatus& row : status.jobs) {
        if (!row.activity) continue;
        held_s += row.activity->occupancy * row.activity->attained.seconds();
        longest_s = std::max(longest_s, row.attached.seconds());
    }
    return longest_s > 0 ? std::max(held_s / longest_s, 1.0) : 1.0;
}

/// What is known of iterations in general.
struct Speed {
    double crowd = 1;
    std::optional<DeviceStatus::Pace> pace;

    Duration measured(Duration time) const { return seconds_of(time.seconds() / crowd); }
    /// The pace was measured in the crowd.
    Duration expected(Duration time) const { return pace ? measured(pace->of(time)) : time; }
};

/// An attached client.
void describe(const Activity& activity, Duration min_turn, const Speed& speed, Part& part) {
    const std::uint64_t done = activity.iterations - std::min(activity.iterations_before, activity.iterations);
    SimulatedJob& job = part.job;
    const bool is_expected = activity.iteration_time.ns > 0 && (activity.iteration_time_expected || done == 0);
    const Duration iteration_time = is_expected ? activity.iteration_time : iteration_time_of(activity);
    job.iteration_time = is_expected ? speed.expected(iteration_time) : speed.measured(iteration_time);
    const bool by_launches = activity.launches > 0;
    if (by_launches) job.iteration_time = std::max(min_turn, milliseconds(1));
    part.outlook = job.iteration_time.ns > 0 ? Outlook::kRunsOn : Outlook::kNew;
    const auto& length = activity.length;
    if (part.outlook == Outlook::kRunsOn && length && !by_launches && length->iterations >= activity.iterations) {
        part.outlook = length->is_past ? Outlook::kPast : Outlook::kStated;
        job.iterations = std::max<std::uint64_t>(length->iterations - activity.iterations, 1);
    }
    job.persistent = activity.persistent;
    job.ephemeral = activity.ephemeral;
    job.priority = activity.priority;
    job.weight = activity.weight > 0 ? activity.weight : 1;
    job.occupancy = activity.occupancy > 0 && activity.occupancy <= 1 ? activity.occupancy : 1;
    job.pageable = activity.pageable;
    job.interactive = activity.interactive;
    if (!by_launches && !is_expected) job.think = pause_of(activity, iteration_time, done);
    part.past = {activity.attained, done};
}

/// A job that has no client yet, by what an earlier run has shown.
void describe(const RunFigures& past, const Speed& speed, Part& part) {
    part.outlook = past.iteration_time.ns <= 0 ? Outlook::kNew : past.iterations > 0 ? Outlook::kPast : Outlook::kRunsOn;
    part.job.iteration_time = speed.expected(past.iteration_time);
    part.job.iterations = std::max<std::uint64_t>(past.iterations, 1);
    part.job.persistent = past.persistent;
    part.job.ephemeral = past.ephemeral;
    part.job.interactive = past.interactive;
}

/// One for each row that takes part, in the order in which policies have their clients.
std::vector<Part> parts_of(const Status& status, std::vector<Outlook>& outlooks) {
    std::vector<Part> parts;
    Speed speed{crowd_of(status), status.service.pace};
    if (speed.pace && !(speed.pace->ratio >= kSlowest && speed.pace->ratio <= 1 / kSlowest)) speed.pace.reset();
    for (std::size_t i = 0; i < status.jobs.size(); ++i) {
        const JobStatus& row = status.jobs[i];
        Part part{.row = i};
        part.job.name = row.name;
        part.job.user = row.user;
        if (takes_turns(row.state)) {
            part.outlook = Outlook::kNew;
            if (row.activity) describe(*row.activity, status.service.min_turn, speed, part);
            else if (row.past) describe(*row.past, speed, part);
        }
        if (has_length(part.outlook) && part.whole_s() > kForever_s) part.outlook = Outlook::kRunsOn;
        outlooks.push_back(part.outlook);
        if (!has_length(part.outlook) && part.outlook != Outlook::kRunsOn) continue;
        if (part.outlook == Outlook::kRunsOn) {
            part.job.runs_on = true;
            part.job.states_length = false;
            part.job.iterations =
                static_cast<std::uint64_t>(kForever_s / (part.job.iteration_time + part.job.think).seconds()) + 1;
        }
        parts.push_back(std::move(part));
    }
    const auto comes_before = [&](const Part& a, const Part& b) {
        const JobStatus& first = status.jobs[a.row];
        const JobStatus& second = status.jobs[b.row];
        if (first.activity.has_value() != second.activity.has_value()) return first.activity.has_value();
        return first.attached > second.attached;
    };
    std::stable_sort(parts.begin(), parts.end(), comes_before);
    return parts;
}

/// What is left of the device for those that take part.
Bytes capacity_of(const Status& status, std::span<const Outlook> outlooks) {
    Bytes left = status.service.capacity - status.service.held_by_orphans;
    for (std::size_t i = 0; i < status.jobs.size(); ++i) {
        const JobStatus& row = status.jobs[i];
        const bool stays = !status.service.paging || (row.activity && !row.activity->pageable);
        const bool out = row.state == JobState::kRefused || row.state == JobState::kPagedOut;
        if (outlooks[i] == Outlook::kAside && row.activity && stays && !out) left -= row.activity->persistent;
    }
    return std::max(left, Bytes{1});
}

/// How long everything takes, one after the other. Jobs that run on take as much as the others.
double work_of(std::span<const Part> parts) {
    double work_s = 0;
    std::size_t known = 0;
    for (const Part& part : parts) {
        if (!has_length(part.outlook)) continue;
        work_s += part.whole_s();
        ++known;
    }
    return known == 0 ? 0 : work_s * static_cast<double>(parts.size()) / static_cast<double>(known);
}

// Note [Coarse forecasts]
// Who has which share depends on how long turns, iterations and pauses are against each other. So all of them are made
// longer by the same factor, and a job has so many fewer iterations. Ends are then off by a turn or two of each job.

std::uint64_t factor_for(std::span<const Part> parts, Duration min_turn) {
    Duration iteration = Duration{kNever.ns};
    for (const Part& part : parts) iteration = std::min(iteration, part.job.iteration_time);
    const double turn_s = std::max(min_turn, parts.empty() ? min_turn : iteration).seconds();
    return static_cast<std::uint64_t>(work_of(parts) / (turn_s * kTurnsMost)) + 1;
}

void merge_iterations(SimulatedJob& job, std::uint64_t factor) {
    const std::uint64_t merged = std::max<std::uint64_t>(job.iterations / factor, 1);
    const double longer = static_cast<double>(job.iterations) / static_cast<double>(merged);
    job.iterations = merged;
    job.iteration_time = seconds_of(job.iteration_time.seconds() * longer);
    job.think = seconds_of(job.think.seconds() * longer);
}

SimulationOptions options_of(const Status& status, Bytes capacity, Duration min_turn, std::uint64_t factor, double work_s) {
    const ServiceStatus& service = status.service;
    SimulationOptions options;
    options.switch_cost = {};
    options.map_us_per_mib = 0;
    options.profiles_known = true;
    options.engine.capacity = capacity;
    options.engine.lanes_max = service.lanes_max;
    options.engine.paging = service.paging;
    options.engine.share_by_user = service.share_by_user;
    if (service.page_bytes_per_s > 0) options.engine.page_bytes_per_s = service.page_bytes_per_s;
    options.engine.min_turn = min_turn * static_cast<std::int64_t>(factor);
    options.engine.review_every = milliseconds(100) * static_cast<std::int64_t>(factor);
    options.until = seconds_of(std::min(work_s * kPatience, kForever_s) + 60);
    return options;
}

using Jobs = std::map<std::uint32_t, Forecast::Job>;

/// A job has one row for each of its clients. It has a length if all of them have, and ends with its last one.
Jobs jobs_of(const Status& status, std::span<const Outlook> outlooks, std::size_t policies) {
    Jobs jobs;
    for (std::size_t i = 0; i < status.jobs.size(); ++i) {
        const JobStatus& row = status.jobs[i];
        const auto [job, is_new] = jobs.try_emplace(row.job);
        const Outlook outlook = is_new ? outlooks[i] : std::max(job->second.outlook, outlooks[i]);
        job->second = {row.job, row.name, row.user, row.state, outlook, {}};
    }
    for (auto& [number, job] : jobs) {
        const auto none_yet = has_length(job.outlook) ? std::optional(Duration{}) : std::nullopt;
        job.left.assign(policies, none_yet);
    }
    return jobs;
}

Forecast::Summary summary_of(std::string_view policy, const Jobs& jobs, std::size_t column) {
    Forecast::Summary summary{std::string(policy), {}, {}};
    Duration sum, last;
    std::int64_t known = 0;
    for (const auto& [number, job] : jobs) {
        if (!has_length(job.outlook)) continue;
        if (!job.left[column]) return summary;
        ++known;
        sum += *job.left[column];
        last = std::max(last, *job.left[column]);
    }
    if (known == 0) return summary;
    summary.mean = sum / known;
    summary.last = last;
    return summary;
}

}  // namespace

std::string_view name_of(Outlook outlook) {
    switch (outlook) {
        case Outlook::kStated: return "stated";
        case Outlook::kPast: return "history";
        case Outlook::kRunsOn: return "runs-on";
        case Outlook::kNew: return "new";
        case Outlook::kAside: return "aside";
    }
    return "";
}

Forecast forecast(const Status& status, std::span<const Policy* const> policies) {
    Forecast out;
    out.policy = status.service.policy;
    std::vector<Outlook> outlooks;
    const std::vector<Part> parts = parts_of(status, outlooks);
    Jobs jobs = jobs_of(status, outlooks, policies.size());
    const Duration min_turn = std::max(status.service.min_turn, microseconds(100));
    const std::uint64_t factor = factor_for(parts, min_turn);
    const SimulationOptions options = options_of(status, capacity_of(status, outlooks), min_turn, factor, work_of(parts));
    std::vector<SimulatedJob> simulated;
    std::vector<Past> pasts;
    for (const Part& part : parts) {
        simulated.push_back(part.job);
        merge_iterations(simulated.back(), factor);
        pasts.push_back({part.past.attained, part.past.iterations / factor});
    }
    for (std::size_t p = 0; p < policies.size(); ++p) {
        const ResumedPolicy policy(*policies[p], pasts);
        const ResumedPolicy fallback(fallback_policy(), pasts);
        const SimulationResult result = Simulation(options, simulated, policy, fallback).run();
        for (std::size_t i = 0; i < parts.size(); ++i) {
            std::optional<Duration>& left = jobs.at(status.jobs[parts[i].row].job).left[p];
            const bool ends = result.jobs[i].outcome == Outcome::kDone;
            if (left) left = ends ? std::optional(std::max(*left, result.jobs[i].end - Instant{})) : std::nullopt;
        }
        out.policies.push_back(summary_of(policies[p]->info.name, jobs, p));
    }
    for (auto& [number, job] : jobs) out.jobs.push_back(std::move(job));
    return out;
}

}  // namespace salus::sim
