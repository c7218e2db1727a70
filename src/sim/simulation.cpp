// Time passes here: the next thing happens, the shell hears of it, and the shell's messages reach the clients.
#include "sim/simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/saboteur.h"

namespace salus::sim {
namespace {

Statistics operator+(Statistics sum, const Statistics& more) {
    sum.turns += more.turns;
    sum.switches += more.switches;
    sum.yields_asked += more.yields_asked;
    sum.revokes += more.revokes;
    sum.admissions += more.admissions;
    sum.refusals += more.refusals;
    sum.denials += more.denials;
    sum.page_outs += more.page_outs;
    sum.page_ins += more.page_ins;
    sum.paged += more.paged;
    sum.profiling_turns += more.profiling_turns;
    sum.lanes_opened += more.lanes_opened;
    sum.lane_resizes += more.lane_resizes;
    sum.rehomings += more.rehomings;
    sum.reservations += more.reservations;
    sum.fallbacks += more.fallbacks;
    sum.gate_closings += more.gate_closings;
    sum.reserved_peak = std::max(sum.reserved_peak, more.reserved_peak);
    return sum;
}

}  // namespace

Simulation::Simulation(const SimulationOptions& options, std::span<const SimulatedJob> jobs, const Policy& policy,
                       const Policy& fallback)
    : options_(options),
      jobs_(jobs),
      first_policy_(&policy),
      fallback_(fallback),
      random_(options.seed),
      world_(options.engine.capacity, options.asynchronous, jobs.size(),
             [this](const Event& event, Instant at, std::span<const Action> actions) { recorded(event, at, actions); }),
      policy_(&policy) {
    result_.jobs.resize(jobs.size());
    awaited_ = static_cast<std::size_t>(std::ranges::count(jobs, false, &SimulatedJob::runs_on));
    if (options_.tells_usage) world_.set_others(Bytes{});
    if (options_.slice.ns > 0) sliced_.emplace(options_.slice, options_.switch_cost);
    start_service();
}

void Simulation::start_service() {
    ++services_;
    first_policy_ = policy_;
    const shell::Settings settings{options_.engine, policy_, &fallback_, options_.min_turn_is_fixed};
    shell_ = std::make_unique<shell::Shell>(settings, world_.ports());
    for (const Recorded& early : std::exchange(early_, {})) recorded(early.event, now(), early.actions);
}

/// As the service does before a job of the user is announced or attaches.
void Simulation::limit_user(ClientId id) {
    const UserId user = jobs_[index_of(id)].user;
    if (const auto set = user_limits_.find(user); set != user_limits_.end()) shell_->limit_user(user, set->second);
}

/// Clients notice at once. The roster is written first, as the service does whenever it has nothing else to do.
void Simulation::kill_service(Duration down_for) {
    if (!shell_) return;
    shell_->quiet();
    policy_ = &engine().policy();
    earlier_ = earlier_ + engine().statistics();
    shell_.reset();
    world_.cut_connections();
    unheard_.clear();
    look_at_requests_ = kNever;
    lose_service_of_runners();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (clients()[i].here()) lose_service(ClientId(i));
    }
    schedule(Pending::Kind::kServiceStarts, ClientId{}, down_for);
}

bool Simulation::anybody_is_orphaned() const {
    return std::any_of(clients().begin(), clients().end(), [](const SimulatedClient& c) { return c.here() && c.orphaned; });
}

SimulationResult Simulation::run(const std::function<void(double)>& progress) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        schedule(options_.announces ? Pending::Kind::kAnnounce : Pending::Kind::kArrive, ClientId(i), jobs_[i].arrival);
    }
    std::uint64_t rounds = 0;
    while (!everybody_is_gone()) {
        if (progress && (++rounds & 0xfff) == 0) {
            progress(static_cast<double>(ended_) / static_cast<double>(jobs_.size()));
        }
        if (options_.events_max > 0 && result_.events > options_.events_max) break;
        if (options_.until.ns > 0 && now() >= Instant{} + options_.until) break;
        if (!step()) break;
    }
    result_.finished = everybody_is_gone();
    result_.statistics = shell_ ? earlier_ + engine().statistics() : earlier_;
    return result_;
}

bool Simulation::everybody_is_gone() const {
    if (awaited_ == 0 && ended_ < jobs_.size()) return true;  // the others run on
    if (ended_ < jobs_.size() || !shell_ || !shell_->sessions().empty() || !without_runner_.empty()) return false;
    return std::none_of(world_.runners.begin(), world_.runners.end(), [](const auto& runner) { return runner.connected; });
}

/// False: nothing will ever happen again.
bool Simulation::step() {
    const auto& disturbances = options_.disturbances;
    const bool more_to_come = next_disturbance_ < disturbances.size();
    if (more_to_come && disturbances[next_disturbance_].at_event <= result_.events) {
        disturb(disturbances[next_disturbance_++]);
        return true;
    }
    const Instant finish = next_finish();
    const Instant change = sliced_ ? sliced_->next_change() : kNever;
    const Instant pending = queue_.empty() ? kNever : queue_.top().at;
    const Instant tick_at = shell_ ? std::min({shell_->due(), next_poll(), std::max(look_at_requests_, now())}) : kNever;
    const Instant next = std::min({finish, change, pending, tick_at});
    // The shell may look at stopped processes forever.
    constexpr std::size_t kIdleTicksMost = 50;
    const bool only_looks = finish == kNever && change == kNever && pending == kNever && idle_ticks_ > kIdleTicksMost &&
                            engine().deadline() == kNever;
    if (next == kNever || only_looks) {
        // Nothing happens by itself, but a disturbance that was due after more events may still help.
        if (!more_to_come) return false;
        disturb(disturbances[next_disturbance_++]);
        return true;
    }
    world_.pass_time_until(next);
    if (next == finish) {
        end_leg(*std::find_if(runners_.begin(), runners_.end(), [&](ClientId id) { return client(id).finish == finish; }));
    } else if (next == change) {
        update_rates();
    } else if (next == pending) {
        const Pending due = queue_.top();
        queue_.pop();
        happen(due);
    } else {
        tick();
    }
    return true;
}

void Simulation::schedule(Pending::Kind kind, ClientId id, Duration after) {
    queue_.push({now() + after, next_order_++, kind, id});
}

Duration Simulation::draw(Duration most) { return most.ns > 0 ? Duration{random_.integer(0, most.ns)} : Duration{}; }

bool Simulation::goes_wrong(Fault fault) { return options_.fault == fault && random_.chance(1.0 / 16); }

void Simulation::grant_twice(const action::Grant& grant) {
    for (const Client* other : engine().clients()) {
        const SimulatedClient& c = client(other->facts.id);
        const auto granted = control::grant(c.word());
        if (other->lane == grant.lane && grant.lane != kNoLane && granted)
            return c.page->word.store(control::pack(*granted));
    }
}

/// Breaks the engine as a bug in handling this event would.
void Simulation::sabotage(const Event& event) {
    Saboteur saboteur(engine());
    const auto* acknowledge = std::get_if<event::Acknowledge>(&event);
    if (acknowledge && goes_wrong(Fault::kForgetsMemory)) saboteur.forget_half_of(acknowledge->client);
    const auto* out = std::get_if<event::PagedOut>(&event);
    if (out && goes_wrong(Fault::kForgetsRest)) saboteur.forget_rest_of(out->client);
    const auto* want = std::get_if<event::Want>(&event);
    if (want && goes_wrong(Fault::kForgetsWish)) saboteur.forget_wish_of(want->client);
    if (acknowledge && goes_wrong(Fault::kForgetsClass)) saboteur.set_beside(acknowledge->client, false);
    const auto* set_class = std::get_if<event::SetClass>(&event);
    if (set_class && !set_class->interactive && goes_wrong(Fault::kStaysBeside))
        saboteur.set_beside(set_class->client, true);
    const auto* requests = std::get_if<event::Requests>(&event);
    if (requests && goes_wrong(Fault::kForgetsBudget)) saboteur.forget_budget();
    if (want && goes_wrong(Fault::kForgetsCrew)) saboteur.forget_crew_of(want->client);
    const auto* suspend = std::get_if<event::Suspend>(&event);
    if (suspend && goes_wrong(Fault::kForgetsSuspension)) saboteur.forget_suspension_of(suspend->client);
    if (suspend && goes_wrong(Fault::kKeepsSuspended)) saboteur.refuse_to_page(suspend->client);
    const auto* hold = std::get_if<event::Hold>(&event);
    if (hold && goes_wrong(Fault::kStartsHeld)) saboteur.forget_hold_of(hold->job);
    if (want && goes_wrong(Fault::kForgetsUsers)) saboteur.forget_users();
    if (want && goes_wrong(Fault::kDecidesByNoise)) saboteur.decide_by_noise();
    if (want && goes_wrong(Fault::kMixesCrews)) saboteur.put_into_crew(want->client);
}

void Simulation::happen(const Pending& pending) {
    const ClientId id = pending.client;
    SimulatedClient& c = at(id);
    using Kind = Pending::Kind;
    switch (pending.kind) {
        case Kind::kNotice:
            c.notifies = false;
            if (shell::Session* session = session_of(id)) with_shell([&] { shell_->notified(*session); });
            return;
        case Kind::kMessage: return hear_message(id);
        case Kind::kServiceStarts: return start_service();
        case Kind::kAnnounce: return announce(id);
        case Kind::kRunnerGone: return runner_is_gone(id);
        case Kind::kClosed:
            if (shell::Session* session = session_of(id)) with_shell([&] { shell_->disconnected(*session); });
            return;
        case Kind::kExited:
            if (shell::Session* session = session_of(id)) with_shell([&] { shell_->died(*session); });
            return;
        default: break;
    }
    if (c.phase == Phase::kGone) return;
    switch (pending.kind) {
        case Kind::kArrive: return arrive(id);
        case Kind::kBegin: return begin(id);
        case Kind::kWake: return look_at_word(id);
        case Kind::kDrained: return settle(id, /*drained=*/true);
        case Kind::kRequestDone: return request_is_done(id);
        case Kind::kGateHolds: return gate_holds(id);
        case Kind::kLookAtGate: return look_at_gate(id);
        case Kind::kHelperDone: return helper_is_done(id);
        case Kind::kEndAttachment: return end_attachment(id);
        case Kind::kReattach: return reattach(id);
        default: return;
    }
}

void Simulation::disturb(const Disturbance& d) {
    using Kind = Disturbance::Kind;
    idle_ticks_ = 0;
    switch (d.kind) {
        case Kind::kServiceDies: return kill_service(d.time);
        case Kind::kNoLaneMemory: return world_.set_has_lane_memory(false);
        case Kind::kLaneMemory: return world_.set_has_lane_memory(true);
        case Kind::kCapacity:
            world_.set_others(options_.engine.capacity - d.capacity);
            if (shell_) with_shell([&] { shell_->look_at_usage(); });
            return;
        case Kind::kPolicy:
            policy_ = d.policy;
            if (shell_) with_shell([&] { shell_->set_policy(*d.policy); });
            return;
        case Kind::kSuspend: return suspend(d.client, true);
        case Kind::kBringBack: return suspend(d.client, false);
        case Kind::kPageIdle:
            if (shell::Session* session = session_of(d.client)) with_shell([&] { shell_->page_idle(*session); });
            return;
        case Kind::kLimits:
            options_.engine.lanes_max = d.lanes_max;
            options_.engine.paging = d.paging;
            options_.engine.rehome_after = d.time;
            options_.engine.page_idle_after = d.page_idle_after;
            if (shell_)
                with_shell([&] { shell_->reconfigure({options_.engine, policy_, &fallback_, options_.min_turn_is_fixed}); });
            return;
        case Kind::kUserLimits:
            user_limits_[jobs_[index_of(d.client)].user] = {d.jobs_max, d.capacity};
            if (shell_) with_shell([&] { limit_user(d.client); });
            return;
        default: break;
    }
    SimulatedClient& c = at(d.client);
    if (d.kind == Kind::kKillRunner) return kill_runner(d.client);
    if (d.kind == Kind::kKill && c.phase == Phase::kAnnounced) return finish(d.client, Outcome::kKilled);
    if (!c.here()) return;
    switch (d.kind) {
        case Kind::kKill: return die(d.client, Outcome::kKilled);
        case Kind::kStop: return stop_process(d.client);
        case Kind::kContinue: return continue_process(d.client);
        case Kind::kNeverPage: return never_page(d.client);
        case Kind::kClass: return change_class(d.client);
        case Kind::kCrew: return join_crew(d.client);
        case Kind::kContext: c.context += d.capacity; return;
        case Kind::kTurnCost: c.page->turn_cost_ns = static_cast<std::uint64_t>(d.time.ns); return;
        default: break;
    }
    shell::Session* session = session_of(d.client);
    if (!session) return;
    if (d.kind == Kind::kAdjust) {
        const Client* known = engine().find(d.client);
        with_shell([&] { shell_->adjust(*session, d.priority, d.weight, known->facts.iterations_total); });
    } else {
        with_shell([&] { shell_->pause(*session, d.kind == Kind::kPause); });
    }
}

// ------------------------------------------------------------------------------------------------------- the service

void Simulation::take_in_news() {
    while (world_.has_news()) {
        for (const World::Mail& mail : world_.take_mail()) {
            if (mail.to_runner) {
                start_job(mail.to);
                continue;
            }
            at(mail.to).inbox.push_back(mail.message);
            help(mail.to);
        }
        for (const ClientId id : world_.take_woken()) {
            if (goes_wrong(Fault::kLosesWake)) continue;
            if (options_.notice_delay_max.ns == 0) look_at_word(id);
            else schedule(Pending::Kind::kWake, id, draw(options_.notice_delay_max));
        }
    }
    for (const ClientId id : runners_) {
        if (const SimulatedClient& c = client(id); c.leg > c.published + 1 && c.word().yield) cut_leg(id);
    }
}

/// The shell has fed an event and performed its actions; clients have not received anything of it yet.
void Simulation::recorded(const Event& event, Instant when, std::span<const Action> actions) {
    if (!shell_) return early_.push_back({event, {actions.begin(), actions.end()}});
    ++result_.events;
    idle_ticks_ = 0;
    if (const auto* goes_on = std::get_if<event::Continue>(&event)) at(goes_on->client).resumed = true;
    for (const Action& action : actions) {
        if (const auto* grant = std::get_if<action::Grant>(&action)) {
            at(grant->client).lane = grant->lane;
            at(grant->client).handover = grant->handover;
            at(grant->client).resumed = false;
            if (grant->lane == kNoLane) at(grant->client).persistent_on_device = true;
            if (goes_wrong(Fault::kGrantsTwice)) grant_twice(*grant);
        } else if (const auto* admit = std::get_if<action::Admit>(&action)) {
            at(admit->client).persistent_on_device = true;
        } else {
            SALUS_CHECK(!std::holds_alternative<action::Drop>(action), "simulated clients keep to the protocol");
        }
        if (options_.fault != Fault::kNone) sabotage_gates(action);
    }
    if (options_.fault != Fault::kNone) sabotage(event);
    note_memory();
    for (Observer* observer : observers_) observer->after_event(event, when, actions, *this);
}

void Simulation::publish_memory() {
    for (SimulatedClient& c : world_.clients) c.page->private_bytes = static_cast<std::uint64_t>(c.private_use().count);
}

/// A profiling client reserves all free memory; here we count what it uses.
void Simulation::note_memory() {
    Bytes in_use = engine().reserved();
    const Client* profiler = engine().profiling() == kNoClient ? nullptr : engine().find(engine().profiling());
    if (profiler && profiler->holds()) {
        const SimulatedClient& c = client(engine().profiling());
        in_use += std::min(c.context + c.persistent + c.ephemeral, profiler->reserved()) - profiler->reserved();
    }
    result_.memory_peak = std::max(result_.memory_peak, in_use);
}

/// Null if the shell does not know the client, or no longer.
shell::Session* Simulation::session_of(ClientId id) {
    shell::Session* session = shell_ ? shell_->find(id) : nullptr;
    return session && session->connection == client(id).connection ? session : nullptr;
}

void Simulation::hear_message(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.outbox.empty()) return;  // the client died, and its messages were lost
    const wire::Message message = c.outbox.front();
    c.outbox.pop_front();
    shell::Session* session = session_of(id);
    if (!session || session->disconnected) return;
    if (std::holds_alternative<wire::Leave>(message)) {
        if (const Client* known = engine().find(id))
            result_.jobs[index_of(id)].memory_time_gib_s = engine().memory_time_gib_s(*known, now());
    }
    with_shell([&] {
        if (shell_->message(*session, message)) return;
        if (shell::Session* left = session_of(id)) shell_->disconnected(*left);
    });
}

// ------------------------------------------------------------------------------------------------------------- looks

void Simulation::tick() {
    ++idle_ticks_;
    look_at_requests_ = kNever;
    with_shell([&] { shell_->tick(); });
    forget_what_is_known();
}

/// The service polls; the simulator knows when there is something to see.
Instant Simulation::next_poll() const {
    if (unheard_.empty() || !shell_->polls()) return kNever;
    Instant first = kNever;
    for (const Unheard& unheard : unheard_) first = std::min(first, unheard.look_at);
    return std::max(first, now());
}

void Simulation::forget_what_is_known() {
    std::erase_if(unheard_, [&](Unheard& unheard) {
        const Client* known = engine().find(unheard.client);
        if (!known || !known->holds()) return true;
        const bool idles = client(unheard.client).word().state == control::State::kIdle;
        if (idles == (known->turn() == Turn::kHoldingIdle)) return true;
        if (unheard.look_at <= now()) unheard.look_at = now() + shell::Shell::kLookEvery;
        return false;
    });
}

/// The service looks at processes ten times a second while somebody waits. The simulator skips this if there is nothing to
/// see.
void Simulation::look_after_processes() {
    if (!shell_) return;
    const bool matters = std::any_of(world_.clients.begin(), world_.clients.end(), [&](const SimulatedClient& c) {
        return c.here() && (c.stopped || c.phase == Phase::kStalled);
    });
    const bool known = std::any_of(shell_->sessions().begin(), shell_->sessions().end(),
                                   [](const auto& entry) { return entry.second->inert() || entry.second->disconnected; });
    if (matters || known || shell_->held_by_orphans() > Bytes{}) shell_->quiet();
}

}  // namespace salus::sim
