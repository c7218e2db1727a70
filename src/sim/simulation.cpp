#include "sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace salus::sim {

using Phase = SimulatedClient::Phase;

namespace {

JobId job_of(ClientId id) { return JobId{static_cast<std::uint32_t>(index_of(id) + 1)}; }
ClientId client_of(JobId job) { return ClientId{static_cast<std::uint32_t>(job) - 1}; }

}  // namespace

Bytes SimulatedClient::mapped_size(LaneId id) const {
    const auto found = std::find_if(mapped.begin(), mapped.end(), [&](const Mapped& m) { return m.lane == id; });
    return found == mapped.end() ? Bytes{} : found->size;
}

Simulation::Simulation(const SimulationOptions& options, std::span<const Job> jobs, const Policy& policy,
                       const Policy& fallback)
    : options_(options),
      jobs_(jobs),
      first_policy_(policy),
      engine_(options.engine, policy, fallback),
      random_(options.seed),
      clients_(jobs.size()),
      deferred_(jobs.size()) {
    result_.jobs.resize(jobs.size());
}

SimulationResult Simulation::run(const std::function<void(double)>& progress) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        const auto kind = options_.announces ? Pending::Kind::kAnnounce : Pending::Kind::kArrive;
        schedule({.at = Instant{} + jobs_[i].arrival, .kind = kind, .client = ClientId(i)});
    }
    std::uint64_t rounds = 0;
    while (ended_ < jobs_.size()) {
        if (progress && (++rounds & 0xfff) == 0) {
            progress(static_cast<double>(ended_) / static_cast<double>(jobs_.size()));
        }
        if (options_.events_max > 0 && result_.events > options_.events_max) break;
        if (next_disturbance_ < options_.disturbances.size() &&
            options_.disturbances[next_disturbance_].at_event <= result_.events) {
            disturb(options_.disturbances[next_disturbance_++]);
            continue;
        }
        const Instant finish = next_finish();
        const Instant pending = queue_.empty() ? kNever : queue_.top().at;
        const Instant deadline = engine_.deadline();
        const Instant next = std::min({finish, pending, deadline});
        if (next == kNever) {
            // Nothing will ever happen again by itself, but what was to come after more events may still help.
            if (next_disturbance_ == options_.disturbances.size()) break;
            disturb(options_.disturbances[next_disturbance_++]);
            continue;
        }
        now_ = std::max(now_, next);
        if (next == finish) {
            const auto first = std::find_if(runners_.begin(), runners_.end(),
                                            [&](ClientId id) { return clients_[index_of(id)].finish == finish; });
            end_leg(*first);
        } else if (next == pending) {
            const Pending due = queue_.top();
            queue_.pop();
            happen(due);
        } else {
            send(event::Timer{});
        }
    }
    result_.finished = ended_ == jobs_.size();
    result_.statistics = engine_.statistics();
    return result_;
}

// ------------------------------------------------------------------------------------------------- talking to the engine

/// Delivers the event and all that it gives rise to, in order; never re-enters the engine.
void Simulation::send(const Event& event) {
    outbox_.push_back(event);
    if (delivering_) return;
    delivering_ = true;
    for (std::size_t i = 0; i < outbox_.size(); ++i) {
        const Event next = outbox_[i];
        const std::span<const Action> actions = engine_.handle(next, now_);
        ++result_.events;
        for (const Action& action : actions) {
            std::visit([this](const auto& a) { perform(a); }, action);
        }
        note_memory();
        for (Observer* observer : observers_) observer->after_event(next, now_, actions, *this);
        for (const auto& [id, outcome] : std::exchange(dying_, {})) kill(id, outcome);
    }
    outbox_.clear();
    delivering_ = false;
    for (const ClientId id : std::exchange(ended_jobs_, {})) withdraw(id);
}

/// A profiling client reserves all there is; what counts is what it uses.
void Simulation::note_memory() {
    Bytes in_use = engine_.reserved();
    const Client* profiler = engine_.profiling() == kNoClient ? nullptr : engine_.find(engine_.profiling());
    if (profiler && profiler->holds()) {
        const SimulatedClient& c = clients_[index_of(engine_.profiling())];
        in_use += std::min(c.persistent + c.ephemeral, profiler->reserved()) - profiler->reserved();
    }
    result_.memory_peak = std::max(result_.memory_peak, in_use);
}

void Simulation::perform(const action::Start& a) {
    schedule_answer({.kind = Pending::Kind::kArrive, .client = client_of(a.job)}, Duration{});
}

void Simulation::perform(const action::Admit& a) { clients_[index_of(a.client)].persistent_on_device = true; }

void Simulation::perform(const action::Grant& a) {
    SimulatedClient& c = clients_[index_of(a.client)];
    SALUS_CHECK(c.phase == Phase::kWaiting && !c.has_grant, "a grant goes to one that waits for it");
    c.has_grant = true;
    c.asked_to_yield = c.resumed = false;
    c.lane = a.lane;
    if (a.lane == kNoLane) c.persistent_on_device = true;
    start_leg(a.client, a.handover ? options_.switch_cost : Duration{});
}

void Simulation::perform(const action::Yield& a) {
    SimulatedClient& c = clients_[index_of(a.client)];
    c.asked_to_yield = true;
    if (c.phase == Phase::kRunning) cut_leg(a.client);
}

void Simulation::perform(const action::Revoke& a) {
    SimulatedClient& c = clients_[index_of(a.client)];
    SALUS_CHECK(c.grant_kept, "only an idle grant is revoked");
    c.has_grant = c.grant_kept = false;
    c.revoking = true;
    schedule_answer({.kind = Pending::Kind::kRevoked, .client = a.client}, Duration{});
}

void Simulation::perform(const action::Room& a) {
    SimulatedClient& c = clients_[index_of(a.client)];
    c.room = a.persistent;
    if (c.phase == Phase::kStalled && has_what_it_needs(c)) run_leg(a.client, Duration{});
}

void Simulation::perform(const action::Deny& a) { dying_.emplace_back(a.client, Outcome::kDenied); }

void Simulation::perform(const action::Refuse& a) { dying_.emplace_back(a.client, Outcome::kRefused); }

void Simulation::perform(const action::AssignLane& a) {
    schedule_answer(
        {.kind = Pending::Kind::kMapped, .client = a.client, .lane = a.lane, .size = a.size, .version = a.version},
        microseconds(static_cast<std::int64_t>(options_.map_us_per_mib * a.size.mib())));
}

void Simulation::perform(const action::ResizeLane& a) {
    const Bytes mapped = clients_[index_of(a.client)].mapped_size(a.lane);
    const double more_mib = std::max(a.size - mapped, Bytes{}).mib();
    schedule_answer(
        {.kind = Pending::Kind::kMapped, .client = a.client, .lane = a.lane, .size = a.size, .version = a.version},
        microseconds(static_cast<std::int64_t>(options_.map_us_per_mib * more_mib)));
}

void Simulation::perform(const action::CloseLane& a) {
    schedule_answer({.kind = Pending::Kind::kMapped, .client = a.client, .lane = a.lane, .size = {}, .version = a.version},
                    Duration{});
}

void Simulation::perform(const action::PageOut& a) { schedule_transfer(Pending::Kind::kPagedOut, a.client, a.persistent); }

void Simulation::perform(const action::PageIn& a) {
    clients_[index_of(a.client)].persistent_on_device = true;
    schedule_transfer(Pending::Kind::kPagedIn, a.client, a.persistent);
}

void Simulation::perform(const action::Drop& a) {
    SALUS_CHECK(a.client == kNoClient, "simulated clients keep to the protocol");
}

// ------------------------------------------------------------------------------------------------------- what happens

void Simulation::schedule(Pending pending) {
    pending.order = next_order_++;
    queue_.push(pending);
}

void Simulation::schedule_answer(Pending pending, Duration least) {
    SimulatedClient& c = clients_[index_of(pending.client)];
    Duration delay = least;
    if (options_.answer_delay_max.ns > 0) delay += {random_.integer(0, options_.answer_delay_max.ns)};
    c.answers_until = std::max(c.answers_until, now_ + delay);
    pending.at = c.answers_until;
    schedule(pending);
}

/// One link, one transfer at a time, beside whatever runs.
void Simulation::schedule_transfer(Pending::Kind kind, ClientId id, Bytes bytes) {
    link_free_ =
        std::max(link_free_, now_) + seconds_of(static_cast<double>(bytes.count) / options_.engine.page_bytes_per_s);
    schedule({.at = link_free_, .kind = kind, .client = id});
}

void Simulation::happen(const Pending& pending) {
    SimulatedClient& c = clients_[index_of(pending.client)];
    if (c.phase == Phase::kGone) return;
    using Kind = Pending::Kind;
    // It may use more of its lane than it has stated yet; then it answers at its boundary.
    const bool unmaps_in_use =
        pending.kind == Kind::kMapped && pending.lane == c.lane && c.phase == Phase::kRunning && pending.size < c.ephemeral;
    const bool is_answer = pending.kind != Kind::kAnnounce && pending.kind != Kind::kArrive && pending.kind != Kind::kWant;
    std::vector<Pending>& deferred = deferred_[index_of(pending.client)];
    if (pending.kind == Kind::kMapped) {  // what it was asked before about this lane no longer matters
        std::erase_if(deferred, [&](const Pending& p) { return p.kind == Kind::kMapped && p.lane == pending.lane; });
    }
    if (is_answer && (c.stopped || unmaps_in_use)) {
        if (unmaps_in_use) cut_leg(pending.client);
        return deferred.push_back(pending);
    }
    switch (pending.kind) {
        case Kind::kAnnounce: return announce(pending.client);
        case Kind::kArrive: return arrive(pending.client);
        case Kind::kWant: return want(pending.client);
        case Kind::kPagedOut: c.persistent_on_device = false; return send(event::PagedOut{pending.client});
        case Kind::kPagedIn: return send(event::PagedIn{pending.client});
        case Kind::kRevoked:
            c.revoking = false;
            send(event::Idle{pending.client, 0});
            if (c.want_is_due) want(pending.client);
            return;
        case Kind::kMapped: break;
    }
    std::erase_if(c.mapped, [&](const auto& m) { return m.lane == pending.lane; });
    if (pending.size > Bytes{}) c.mapped.push_back({pending.lane, pending.size});
    send(event::Acknowledge{pending.client, pending.lane, pending.version});
    if (c.phase == Phase::kStalled && has_what_it_needs(c)) run_leg(pending.client, Duration{});
}

/// What it could not answer in mid-iteration, or while stopped, it answers now.
void Simulation::answer_deferred(ClientId id) {
    std::vector<Pending> answers;
    answers.swap(deferred_[index_of(id)]);
    for (const Pending& answer : answers) happen(answer);
}

void Simulation::announce(ClientId id) {
    clients_[index_of(id)].phase = Phase::kAnnounced;
    send(event::Announce{job_of(id), options_.profiles_known ? jobs_[index_of(id)].persistent : Bytes{}});
}

/// Its runner goes after it: when the engine knows of all that have died.
void Simulation::withdraw(ClientId id) {
    if (delivering_) ended_jobs_.push_back(id);
    else if (options_.announces) send(event::Withdraw{job_of(id)});
}

void Simulation::arrive(ClientId id) {
    const Job& job = jobs_[index_of(id)];
    SimulatedClient& c = clients_[index_of(id)];
    c.phase = Phase::kOnHost;
    c.persistent = job.persistent;
    c.ephemeral = job.ephemeral;
    result_.jobs[index_of(id)].arrival = now_;
    static_now_ += job.persistent + job.ephemeral;
    result_.static_peak = std::max(result_.static_peak, static_now_);

    event::Attach attach;
    attach.client = id;
    attach.user = job.user;
    if (options_.announces) attach.job = job_of(id);
    attach.priority = job.priority;
    attach.weight = job.weight;
    attach.pageable = job.pageable;
    attach.iterations_total = job.states_length ? job.iterations : 0;
    if (options_.profiles_known) {
        const auto stated = [&](Bytes true_size) {
            return Bytes{static_cast<std::int64_t>(static_cast<double>(true_size.count) * job.stated_share)};
        };
        attach.profiled = true;
        attach.persistent = c.room = stated(job.persistent);
        attach.ephemeral = stated(job.ephemeral);
        attach.occupancy = occupancy(id);
        attach.iteration_time = job.iteration_time;
        c.demand_told = job.stated_share == 1.0;
    }
    send(attach);
    if (clients_[index_of(id)].phase != Phase::kGone) spend_on_host(id, job.startup);
}

void Simulation::spend_on_host(ClientId id, Duration time) {
    schedule({.at = now_ + time, .kind = Pending::Kind::kWant, .client = id});
}

void Simulation::want(ClientId id) {
    SimulatedClient& c = clients_[index_of(id)];
    c.want_is_due = c.stopped || c.revoking;
    if (c.want_is_due) return;
    c.phase = Phase::kWaiting;
    const bool kept = c.grant_kept;
    c.grant_kept = false;
    send(event::Want{id});
    if (kept) start_leg(id, Duration{});
}

void Simulation::disturb(const Disturbance& d) {
    using Kind = Disturbance::Kind;
    if (d.kind == Kind::kPolicy) return send(event::SetPolicy{d.policy});
    if (d.kind == Kind::kCapacity) {
        send(event::SetCapacity{d.capacity});
        if (engine_.options().context > Bytes{}) send(event::SetContext{mebibytes_of(d.capacity.mib() / 4)});
        return;
    }
    SimulatedClient& c = clients_[index_of(d.client)];
    if (c.phase == Phase::kGone || c.phase == Phase::kNotArrived) return;
    if (c.phase == Phase::kAnnounced && d.kind != Kind::kKill) return;
    if (d.kind == Kind::kKill) {
        // As on a device where work of the dead may go on.
        const Client* known = engine_.find(d.client);
        if (index_of(d.client) % 2 == 1 && known && known->holds() && known->lane != kNoLane) {
            send(event::RenewLane{known->lane});
        }
        return kill(d.client, Outcome::kKilled);
    }
    const bool stop = d.kind == Kind::kStop;
    if (c.stopped == stop) return;
    c.stopped = stop;
    c.resumed = true;
    if (stop) {
        if (c.phase == Phase::kRunning) stop_running(d.client);
        return send(event::Stop{d.client});
    }
    const bool was_running = c.phase == Phase::kRunning;
    send(event::Continue{d.client});
    answer_deferred(d.client);
    if (was_running) {
        update_rates();
        c.segment_start = now_;
        runners_.push_back(d.client);
        update_rates();
    } else if (c.want_is_due) {
        want(d.client);
    }
}

void Simulation::kill(ClientId id, Outcome outcome) {
    const bool attached = clients_[index_of(id)].phase != Phase::kAnnounced;
    finish(id, outcome);
    if (attached) send(event::Die{id});
    withdraw(id);
}

void Simulation::finish(ClientId id, Outcome outcome) {
    SimulatedClient& c = clients_[index_of(id)];
    if (c.phase == Phase::kRunning && !c.stopped) stop_running(id);
    if (c.phase != Phase::kAnnounced) static_now_ -= jobs_[index_of(id)].persistent + jobs_[index_of(id)].ephemeral;
    c.phase = Phase::kGone;
    c.has_grant = c.grant_kept = c.persistent_on_device = false;
    c.mapped.clear();
    deferred_[index_of(id)].clear();
    JobResult& job = result_.jobs[index_of(id)];
    job.outcome = outcome;
    job.end = now_;
    job.iterations = c.iterations;
    result_.end = std::max(result_.end, now_);
    ++ended_;
}

// ------------------------------------------------------------------------------------------------------------ running

double Simulation::occupancy(ClientId id) const { return options_.occupancy.value_or(jobs_[index_of(id)].occupancy); }

bool Simulation::has_what_it_needs(const SimulatedClient& c) const {
    if (c.lane == kNoLane) return c.persistent + c.ephemeral <= c.room;
    return c.persistent <= c.room && c.ephemeral <= c.mapped_size(c.lane);
}

void Simulation::grow_if_due(ClientId id) {
    const Job& job = jobs_[index_of(id)];
    SimulatedClient& c = clients_[index_of(id)];
    while (c.growths < job.growth.size() && job.growth[c.growths].from <= c.iterations) {
        const Growth& growth = job.growth[c.growths++];
        c.ephemeral = std::max(c.ephemeral, growth.ephemeral);
        c.demand_told = false;
        if (growth.persistent <= c.persistent) continue;
        const Bytes more = growth.persistent - c.persistent;
        c.persistent = growth.persistent;
        if (growth.asks) continue;
        c.unasked += more;
        c.room += more;
        send(event::Observe{id, c.persistent});
    }
}

/// It has the grant and begins to run, unless it turns out to need more memory than it has.
void Simulation::start_leg(ClientId id, Duration overhead) {
    SimulatedClient& c = clients_[index_of(id)];
    grow_if_due(id);
    if (has_what_it_needs(c)) return run_leg(id, overhead);
    c.phase = Phase::kStalled;
    c.resumed = true;
    send(event::Need{id, c.persistent, c.ephemeral});
}

void Simulation::run_leg(ClientId id, Duration overhead) {
    const Job& job = jobs_[index_of(id)];
    SimulatedClient& c = clients_[index_of(id)];
    c.leg = job.iterations - c.iterations;
    if (c.growths < job.growth.size()) c.leg = std::min(c.leg, job.growth[c.growths].from - c.iterations);
    if (job.think.ns > 0 || c.asked_to_yield) c.leg = 1;
    c.phase = Phase::kRunning;
    update_rates();
    c.work_ns = -static_cast<double>(overhead.ns);
    c.segment_start = now_;
    JobResult& result = result_.jobs[index_of(id)];
    if (result.first_run == kNever) result.first_run = now_;
    if (c.stopped) return;
    runners_.push_back(id);
    update_rates();
}

/// It is to stop at the end of the iteration it is in.
void Simulation::cut_leg(ClientId id) {
    update_rates();
    SimulatedClient& c = clients_[index_of(id)];
    const double begun = std::ceil(c.work_ns / static_cast<double>(jobs_[index_of(id)].iteration_time.ns) - 1e-6);
    c.leg = std::min(c.leg, begun < 1 ? 1 : static_cast<std::uint64_t>(begun));
    update_rates();
}

/// Brings everybody's work up to now, and their speed and finish in line with who runs.
void Simulation::update_rates() {
    double demand = 0;
    for (ClientId id : runners_) demand += occupancy(id);
    const double rate = demand > 1.0 ? 1.0 / demand : 1.0;
    const double elapsed_ns = static_cast<double>((now_ - rates_at_).ns);
    if (!runners_.empty()) result_.busy += now_ - rates_at_;
    rates_at_ = now_;
    for (ClientId id : runners_) {
        SimulatedClient& c = clients_[index_of(id)];
        c.work_ns += elapsed_ns * c.rate;
        c.rate = rate;
        const double left_ns =
            static_cast<double>(c.leg) * static_cast<double>(jobs_[index_of(id)].iteration_time.ns) - c.work_ns;
        c.finish = now_ + nanoseconds(static_cast<std::int64_t>(std::ceil(std::max(left_ns, 0.0) / rate)));
    }
}

Instant Simulation::next_finish() const {
    Instant first = kNever;
    for (ClientId id : runners_) first = std::min(first, clients_[index_of(id)].finish);
    return first;
}

void Simulation::stop_running(ClientId id) {
    update_rates();
    const SimulatedClient& c = clients_[index_of(id)];
    runners_.erase(std::find(runners_.begin(), runners_.end(), id));
    update_rates();
    for (Observer* observer : observers_) observer->ran({id, c.lane, c.segment_start, now_});
}

void Simulation::tell_demand(ClientId id) {
    SimulatedClient& c = clients_[index_of(id)];
    if (c.demand_told) return;
    c.demand_told = true;
    c.room = c.persistent;
    send(event::Demand{id, c.persistent, c.ephemeral, occupancy(id)});
}

void Simulation::end_leg(ClientId id) {
    const Job& job = jobs_[index_of(id)];
    SimulatedClient& c = clients_[index_of(id)];
    stop_running(id);
    c.iterations += c.leg;
    result_.iterations += c.leg;
    c.phase = Phase::kOnHost;
    const std::uint64_t iterations = c.iterations - std::exchange(c.reported, c.iterations);
    if (c.iterations == job.iterations) {
        result_.jobs[index_of(id)].memory_time_gib_s = engine_.memory_time_gib_s(*engine_.find(id), now_);
        finish(id, Outcome::kDone);
        send(event::Leave{id, iterations});
        return withdraw(id);
    }
    answer_deferred(id);
    if (c.asked_to_yield || job.think.ns > 0) tell_demand(id);
    if (c.lane == kNoLane) c.room = c.persistent;  // the room to profile in was for one iteration
    if (job.think.ns > 0) {
        c.grant_kept = !c.asked_to_yield;
        c.has_grant = c.grant_kept;
        c.asked_to_yield = false;
        send(event::Idle{id, iterations});
        const double mean_s = job.think.seconds();
        spend_on_host(id, job.random_think ? seconds_of(random_.exponential(mean_s)) : job.think);
    } else if (c.asked_to_yield) {
        c.asked_to_yield = c.has_grant = false;
        c.phase = Phase::kWaiting;
        send(event::Boundary{id, iterations});
    } else {  // it only grows, or had something to answer
        c.reported -= iterations;
        c.phase = Phase::kWaiting;
        start_leg(id, Duration{});
    }
}

}  // namespace salus::sim
