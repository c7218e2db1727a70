// What simulated clients do: their threads begin and end iterations, their helpers answer the service. They know of the
// service only what is on their pages and in messages.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/simulation.h"

namespace salus::sim {
namespace {

namespace request = attachment::request;

/// How long an orphaned client waits before it looks again.
constexpr Duration kPause = milliseconds(20);

std::uint64_t count_of(Bytes bytes) { return static_cast<std::uint64_t>(bytes.count); }
Bytes bytes_of(std::uint64_t count) { return {static_cast<std::int64_t>(count)}; }
std::uint64_t ns_of(Instant at) { return static_cast<std::uint64_t>(at.ns); }

/// The request takes lane memory that is in use. The client may use more than it has stated, and cannot give it up in
/// mid-iteration.
bool takes_what_is_in_use(const SimulatedClient& c) {
    const auto* map = std::get_if<request::MapLane>(&c.doing);
    return map && c.phase == Phase::kRunning && LaneId{map->lane} == c.lane && bytes_of(map->size) < c.ephemeral;
}

}  // namespace

// ----------------------------------------------------------------------------------------------------- come and go

void Simulation::arrive(ClientId id) {
    const SimulatedJob& job = jobs_[index_of(id)];
    SimulatedClient& c = at(id);
    c.phase = Phase::kOnHost;
    c.persistent = job.persistent;
    c.ephemeral = job.ephemeral;
    c.context = job.context;
    c.stays = !job.pageable;
    c.fixed = job.fixed;
    c.interactive = job.interactive;
    c.in_crew = job.crew != 0 && !job.joins_late;
    result_.jobs[index_of(id)].arrival = now();
    static_now_ += job.persistent + job.ephemeral;
    result_.static_peak = std::max(result_.static_peak, static_now_);

    c.orphaned = true;
    reattach(id);
    c.asked_at = now() + job.startup;
    if (c.here()) schedule(Pending::Kind::kBegin, id, job.requests_per_s > 0 ? pause_of(id) : job.startup);
}

/// What the client says about itself when it attaches, also again after the service was gone. As in the library.
wire::Attach Simulation::introduction_of(ClientId id) const {
    const SimulatedJob& job = jobs_[index_of(id)];
    const SimulatedClient& c = client(id);
    wire::Attach attach;
    if (options_.announces) attach.job = static_cast<std::uint32_t>(job_of(id));
    attach.priority = job.priority;
    attach.weight = job.weight;
    attach.occupancy = occupancy(id);
    if (c.stays) attach.flags |= wire::Attach::kUnpageable;
    if (c.interactive) attach.flags |= wire::Attach::kInteractive;
    attach.iterations_total = job.states_length ? job.iterations : 0;
    if (c.in_crew) attach.crew = job.crew;
    if (options_.profiles_known || job.has_no_adaptor()) {
        const auto stated = [&](Bytes true_size) {
            return static_cast<std::uint64_t>(static_cast<double>(true_size.count) * job.stated_share);
        };
        attach.flags |= wire::Attach::kProfiled;
        attach.persistent = stated(job.persistent);
        attach.ephemeral = stated(job.ephemeral);
        attach.iteration_time_ns = static_cast<std::uint64_t>(job.iteration_time.ns);
    }
    if (const std::uint64_t done = c.page->iterations; done > 1) {  // its profile is still valid
        attach.flags |= wire::Attach::kProfiled;
        attach.persistent = c.page->wanted_persistent;
        attach.ephemeral = c.page->wanted_ephemeral;
        attach.iteration_time_ns = c.page->busy_ns / done;
        if (attach.iterations_total > done) attach.iterations_total -= done;
    } else if (c.has_run && !c.paged) {
        attach.persistent = count_of(c.persistent);
    }
    if (c.has_run && !c.paged && attach.persistent > 0) attach.flags |= wire::Attach::kResident;
    attach.left = count_of(c.left());
    return attach;
}

void Simulation::attach(ClientId id) {
    SimulatedClient& c = at(id);
    const wire::Attach introduction = introduction_of(id);
    c.room = bytes_of(introduction.persistent);
    if (introduction.flags & wire::Attach::kProfiled) {
        c.page->wanted_persistent = introduction.persistent;
        c.page->wanted_ephemeral = introduction.ephemeral;
    }
    c.orphaned = false;
    c.persistent_on_device = c.has_run && !c.paged;
    if (c.has_run) c.unasked = c.persistent;  // it had that before it attached
    auto session = std::make_unique<shell::Session>();
    session->id = id;
    session->process = World::process_of(id);
    session->uid = static_cast<unsigned>(jobs_[index_of(id)].user);
    session->connection = world_.connect(id);
    session->page = c.page;
    session->said.suspended = c.suspended;
    with_shell([&] {
        limit_user(id);
        SALUS_CHECK(shell_->attach(std::move(session), introduction).ok(), "simulated clients state sensible figures");
        for (const RecalledPair& pair : options_.recalled) {
            const shell::Session* const a = shell_->find(pair.a);
            const shell::Session* const b = shell_->find(pair.b);
            if ((pair.a == id || pair.b == id) && a && b) shell_->recall(*a, *b, pair.rate);
        }
    });
}

/// The client's connection is closed. It finishes an iteration in progress without asking anybody, then leaves its lane.
void Simulation::lose_service(ClientId id) {
    SimulatedClient& c = at(id);
    if (std::exchange(c.orphaned, true)) return;  // it had no service
    c.notifies = false;
    if (!c.has_run) c.persistent_on_device = false;
    if (c.refused) return die(id, Outcome::kRefused);
    schedule(Pending::Kind::kEndAttachment, id, Duration{});
}

void Simulation::end_attachment(ClientId id) {
    SimulatedClient& c = at(id);
    const auto again = [&](Duration after) { schedule(Pending::Kind::kEndAttachment, id, after); };
    if (!c.orphaned || c.stopped) return;  // it has found a service; or continue_process() resumes this
    disarm(id);
    if (c.helper_busy) return again(kPause);
    if (c.phase == Phase::kStalled) run_leg(id, Duration{});
    if (!c.turn.withdraw()) {
        if (c.runs()) cut_leg(id);
        if (c.word().state != control::State::kRevoked) return again(kPause);
        c.turn.acknowledge();
        return again(draw(options_.answer_delay_max));
    }
    c.mapped.reset();
    c.requests.forget_lane();
    reattach(id);
}

void Simulation::reattach(ClientId id) {
    if (!client(id).orphaned || client(id).stopped) return;
    if (shell_) attach(id);
    else schedule(Pending::Kind::kReattach, id, kPause);
}

/// From now on, several threads use the client's memory.
void Simulation::never_page(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.stopped || c.stays || std::holds_alternative<request::PageOut>(c.doing)) return;
    c.stays = true;
    say(id, wire::Unpageable{1});
}

/// From now on, its behaviour shows the other class.
void Simulation::change_class(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.stopped) return;
    c.interactive = !c.interactive;
    const ClassReason reason = c.interactive ? ClassReason::kWaits : ClassReason::kNoPauses;
    say(id, wire::Class{static_cast<std::uint16_t>(c.interactive), static_cast<std::uint16_t>(reason)});
}

/// From now on, it waits for others of its crew on the device.
void Simulation::join_crew(ClientId id) {
    SimulatedClient& c = at(id);
    const std::uint32_t crew = jobs_[index_of(id)].crew;
    if (c.stopped || crew == 0 || std::exchange(c.in_crew, true)) return;
    say(id, wire::JoinCrew{crew});
}

/// The client has run all its iterations.
void Simulation::leave(ClientId id) {
    say(id, wire::Leave{});
    finish(id, Outcome::kDone);
}

/// The client's process ends, whatever it is doing. The kernel tells the service.
void Simulation::die(ClientId id, Outcome outcome) {
    finish(id, outcome);
    schedule(Pending::Kind::kExited, id, draw(options_.notice_delay_max));
    if (options_.notice_delay_max.ns == 0 || random_.chance(0.5)) return at(id).outbox.clear();
    // The service may still receive its messages, and may see the connection closed before the end of the process.
    schedule(Pending::Kind::kClosed, id, draw(options_.notice_delay_max));
}

void Simulation::finish(ClientId id, Outcome outcome) {
    SimulatedClient& c = at(id);
    if (c.runs()) stop_running(id);
    if (c.here()) static_now_ -= jobs_[index_of(id)].persistent + jobs_[index_of(id)].ephemeral;
    c.phase = Phase::kGone;
    c.stopped = c.persistent_on_device = false;
    c.mapped.reset();
    c.inbox.clear();
    JobResult& job = result_.jobs[index_of(id)];
    job.outcome = outcome;
    job.end = now();
    job.iterations = c.iterations;
    result_.end = std::max(result_.end, now());
    ++ended_;
    if (!jobs_[index_of(id)].runs_on) --awaited_;
    end_runner(id);
}

/// By its user: of a job that waits to start, too.
void Simulation::suspend(ClientId id, bool suspended) {
    SimulatedClient& c = at(id);
    if (c.phase == Phase::kNotArrived || c.phase == Phase::kGone) return;
    if (std::exchange(c.suspended, suspended) == suspended || !shell_) return;
    with_shell([&] {
        if (options_.announces && runner_of(id).connected) shell_->hold(job_of(id), suspended);
        if (shell::Session* session = session_of(id)) shell_->suspend(*session, suspended);
    });
}

void Simulation::stop_process(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.stopped) return;
    if (c.runs()) stop_running(id);
    c.stopped = c.resumed = true;
    look_after_processes();
}

void Simulation::continue_process(ClientId id) {
    SimulatedClient& c = at(id);
    if (!c.stopped) return;
    c.stopped = false;
    c.resumed = true;
    look_at_gate(id);
    look_after_processes();
    if (c.phase == Phase::kRunning) resume_running(id);
    if (c.helper_overdue) helper_is_done(id);
    help(id);
    if (!c.here()) return;
    if (c.orphaned) schedule(Pending::Kind::kEndAttachment, id, Duration{});
    if (c.want_is_due) begin(id);
    else look_at_word(id);
}

// ------------------------------------------------------------------------------------------------------------- turns

/// The client's thread calls begin(), and waits in there until the word lets it in.
void Simulation::begin(ClientId id) {
    SimulatedClient& c = at(id);
    c.want_is_due = c.stopped;
    if (c.stopped) return;
    if (c.refused) return die(id, Outcome::kRefused);
    c.phase = Phase::kWaiting;
    const attachment::TurnSteps::Begun begun = c.turn.begin(ns_of(now()));
    if (begun.notify) notify(id);
    if (!begun.entry) return;
    request_begins(id);
    if (*begun.entry == attachment::TurnSteps::Entry::kJoined) {
        unheard_.push_back({id, now() + shell::Shell::kLookEvery});
        return start_leg(id, Duration{});
    }
    c.persistent_on_device = c.has_run = true;
    c.paged = false;
    c.room = bytes_of(c.page->allowed_private);
    start_leg(id, c.handover ? options_.switch_cost : Duration{});
}

/// The client was woken, or continues after it was stopped.
void Simulation::look_at_word(ClientId id) {
    const SimulatedClient& c = client(id);
    if (c.phase == Phase::kWaiting && !c.stopped && c.word().state == control::State::kGranted) begin(id);
}

bool Simulation::has_what_it_needs(const SimulatedClient& c) const {
    if (c.lane == kNoLane) return c.persistent + c.ephemeral <= c.room;
    return c.persistent <= c.room && c.ephemeral <= c.mapped_size(c.lane);
}

void Simulation::grow_if_due(ClientId id) {
    const SimulatedJob& job = jobs_[index_of(id)];
    SimulatedClient& c = at(id);
    while (c.growths < job.growth.size() && job.growth[c.growths].from <= c.iterations) {
        const Growth& growth = job.growth[c.growths++];
        c.ephemeral = std::max(c.ephemeral, growth.ephemeral);
        if (growth.persistent <= c.persistent) continue;
        const Bytes more = growth.persistent - c.persistent;
        c.persistent = growth.persistent;
        if (growth.asks || c.lane == kNoLane) continue;  // a profiling turn sees and counts all of it
        c.unasked += more;
        c.room += more;
        say(id, wire::Observe{count_of(c.persistent)});
    }
}

/// The client is inside an iteration. It runs, unless it now needs more memory than it has.
void Simulation::start_leg(ClientId id, Duration overhead) {
    SimulatedClient& c = at(id);
    grow_if_due(id);
    if (has_what_it_needs(c) || c.orphaned) return run_leg(id, overhead);
    c.phase = Phase::kStalled;
    c.resumed = true;
    const Bytes in_lane = c.lane == kNoLane ? Bytes{} : c.ephemeral;
    say(id, c.asking.ask(count_of(c.persistent + c.ephemeral - in_lane), count_of(in_lane)));
}

void Simulation::go_on_if_given(ClientId id) {
    const SimulatedClient& c = client(id);
    if (c.phase != Phase::kStalled) return;
    using Answer = attachment::Asking::Outcome;
    if (c.asking.outcome() == Answer::kDenied) return die(id, Outcome::kDenied);
    if (c.asking.outcome() == Answer::kGiven && has_what_it_needs(c)) run_leg(id, Duration{});
}

void Simulation::end_leg(ClientId id) {
    SimulatedClient& c = at(id);
    stop_running(id);
    c.iterations += c.leg;
    result_.iterations += c.leg;
    if (jobs_[index_of(id)].answers()) result_.latencies.push_back(now() - c.asked_at);
    c.phase = Phase::kOnHost;
    request_ends(id);
    SALUS_CHECK(c.turn.leave().last, "one thread is inside, and comes out");
    c.page->wanted_persistent = count_of(c.persistent);
    c.page->wanted_ephemeral = count_of(c.ephemeral);
    publish(id, c.leg - c.published + (goes_wrong(Fault::kCountsTwice) ? 1 : 0));
    if (c.helper_overdue) helper_is_done(id);
    settle(id, /*drained=*/!options_.asynchronous);
}

void Simulation::settle(ClientId id, bool drained) {
    SimulatedClient& c = at(id);
    if (goes_wrong(Fault::kKeepsGrant)) {
        control::Word word = c.word();
        word.yield = false;
        c.page->word = control::pack(word);
    }
    const bool clean = !(options_.unclean_share > 0 && random_.chance(options_.unclean_share));
    const attachment::TurnSteps::Settled settled = c.turn.settle(clean, drained);
    if (settled.must_drain) {
        c.phase = Phase::kDraining;
        c.drain_keeps_open.emplace(&c.page->gates);
        heed_gates();
        return schedule(Pending::Kind::kDrained, id, draw(options_.answer_delay_max));
    }
    c.phase = Phase::kOnHost;
    c.drain_keeps_open.reset();
    if (settled.notify) {
        c.room = c.persistent;
        notify(id);
    } else {
        unheard_.push_back({id, now() + shell::Shell::kLookEvery});
    }
    after_boundary(id);
}

void Simulation::after_boundary(ClientId id) {
    const SimulatedJob& job = jobs_[index_of(id)];
    if (client(id).iterations == job.iterations || is_over()) return leave(id);
    if (job.think.ns > 0 || job.requests_per_s > 0) return schedule(Pending::Kind::kBegin, id, pause_of(id));
    if (options_.notice_delay_max.ns > 0 && random_.chance(0.5)) {  // so the service may hear of the boundary first
        return schedule(Pending::Kind::kBegin, id, draw(options_.notice_delay_max));
    }
    begin(id);
}

/// Until the client's thread begins its next iteration, which somebody asks for.
Duration Simulation::pause_of(ClientId id) {
    const SimulatedJob& job = jobs_[index_of(id)];
    SimulatedClient& c = at(id);
    if (job.requests_per_s > 0) {
        c.asked_at = c.asked_at + seconds_of(random_.exponential(1 / job.requests_per_s));
        return std::max(c.asked_at - now(), Duration{});
    }
    const Duration pause = job.random_think ? seconds_of(random_.exponential(job.think.seconds())) : job.think;
    c.asked_at = now() + pause;
    return pause;
}

// --------------------------------------------------------------------------------------------------------- messages

void Simulation::notify(ClientId id) {
    if (goes_wrong(Fault::kLosesNotice) || std::exchange(at(id).notifies, true)) return;
    schedule(Pending::Kind::kNotice, id, draw(options_.notice_delay_max));
}

void Simulation::say(ClientId id, const wire::Message& message) {
    SimulatedClient& c = at(id);
    if (!c.connected) return;
    if (std::holds_alternative<wire::Acknowledge>(message) && goes_wrong(Fault::kLosesAcknowledge)) return;
    if (std::holds_alternative<wire::PagedIn>(message) && goes_wrong(Fault::kLosesPagedIn)) return;
    c.outbox.push_back(message);
    c.outbox_until = std::max(c.outbox_until, now() + draw(options_.notice_delay_max));
    schedule(Pending::Kind::kMessage, id, c.outbox_until - now());
}

/// The client's helper reads its messages, unless it is busy or the process is stopped.
void Simulation::help(ClientId id) {
    for (;;) {
        SimulatedClient& c = at(id);
        if (!c.here() || c.stopped || c.helper_busy || c.inbox.empty()) return;
        const wire::Message message = c.inbox.front();
        c.inbox.pop_front();
        serve(id, message);
    }
}

void Simulation::serve(ClientId id, const wire::Message& message) {
    SimulatedClient& c = at(id);
    if (const auto* answer = std::get_if<wire::NeedAnswer>(&message)) {
        c.asking.on(*answer);
        // The client has what it asked for, even if its context was seen to grow meanwhile.
        const Bytes asked = c.persistent + (c.lane == kNoLane ? c.ephemeral : Bytes{});
        if (c.asking.outcome() == attachment::Asking::Outcome::kGiven)
            c.room = std::max(bytes_of(answer->persistent), asked);
        return go_on_if_given(id);
    }
    if (std::holds_alternative<wire::Refuse>(message)) {
        c.refused = true;
        if (c.phase == Phase::kWaiting || c.phase == Phase::kOnHost) die(id, Outcome::kRefused);
        return;
    }
    if (const auto* arm = std::get_if<wire::Arm>(&message)) {
        c.puts_gates = arm->gates != 0;
        c.marks_requests = arm->requests != 0;
        return;
    }
    const attachment::Requests::Step step = c.requests.on(message, {.word = c.word(),
                                                                    .parked = c.phase == Phase::kWaiting,
                                                                    .stays = c.stays,
                                                                    .may_go_idle = jobs_[index_of(id)].pages_idle});
    if (step.say) say(id, *step.say);
    if (std::holds_alternative<std::monostate>(step.todo)) return;
    c.doing = step.todo;
    c.helper_busy = true;
    const Duration time = time_for(id, step.todo);
    if (time.ns == 0) return helper_is_done(id);
    c.helper_keeps_open.emplace(&c.page->gates);
    heed_gates();
    schedule(Pending::Kind::kHelperDone, id, time);
}

Duration Simulation::time_for(ClientId id, const attachment::Request& todo) {
    SimulatedClient& c = at(id);
    if (std::holds_alternative<request::TakePieces>(todo)) return {};
    Duration time = draw(options_.answer_delay_max);
    if (const auto* map = std::get_if<request::MapLane>(&todo)) {
        const Bytes more = std::max(bytes_of(map->size) - c.mapped_size(LaneId{map->lane}), Bytes{});
        time += microseconds(static_cast<std::int64_t>(options_.map_us_per_mib * more.mib()));
    } else if (std::holds_alternative<request::PageOut>(todo)) {
        time += transfer_time(std::max(c.persistent - c.fixed, Bytes{}));
    }
    // After a restart of the service, the client may be paged out without the service knowing.
    const bool needs_memory =
        std::holds_alternative<request::PageIn>(todo) || std::holds_alternative<request::MapLane>(todo);
    if (needs_memory && std::exchange(c.paged, false)) {
        c.persistent_on_device = true;
        time += transfer_time(std::max(c.persistent - c.fixed, Bytes{}));
    }
    return time;
}

/// One link makes one transfer at a time, in parallel to running clients.
Duration Simulation::transfer_time(Bytes bytes) {
    link_free_ = std::max(link_free_, now()) +
                 seconds_of(static_cast<double>(bytes.count) / (options_.engine.page_bytes_per_s * options_.page_speed));
    return link_free_ - now();
}

void Simulation::helper_is_done(ClientId id) {
    SimulatedClient& c = at(id);
    const bool at_boundary = takes_what_is_in_use(c);
    c.helper_overdue = c.stopped || at_boundary;
    if (at_boundary && !c.stopped) cut_leg(id);
    if (c.helper_overdue) return;
    const attachment::Request done = std::exchange(c.doing, {});
    c.helper_keeps_open.reset();
    expect_look_at_requests();
    const bool fails = std::holds_alternative<request::PageOut>(done) && options_.page_failure_share > 0 &&
                       random_.chance(options_.page_failure_share);
    c.helper_busy = false;
    if (const auto* take = std::get_if<request::TakePieces>(&done)) {
        if (take->first == 0) c.mapped.reset();  // the lane has new memory
    } else if (const auto* map = std::get_if<request::MapLane>(&done)) {
        const Bytes before = c.mapped_size(LaneId{map->lane});
        const bool keeps = bytes_of(map->size) < before && goes_wrong(Fault::kAcknowledgesEarly);
        c.mapped = {LaneId{map->lane}, keeps ? before : bytes_of(map->size)};
    } else if (std::holds_alternative<request::UnmapLane>(done)) {
        c.mapped.reset();
    } else if (std::holds_alternative<request::Drain>(done)) {
        if (c.turn.acknowledge()) notify(id);
    } else if (std::holds_alternative<request::PageOut>(done)) {
        c.persistent_on_device = fails;
        c.paged = !fails;
        c.stays = fails;
    } else {
        SALUS_CHECK(std::holds_alternative<request::PageIn>(done), "the service asks for nothing that cannot be done");
    }
    const Bytes moved = std::max(c.persistent - c.fixed, Bytes{});
    attachment::Outcome outcome{.ok = !fails, .left = count_of(c.left())};
    if (options_.tells_usage) {
        outcome.moved = count_of(moved);
        outcome.ns = static_cast<std::uint64_t>(1e9 * static_cast<double>(moved.count) /
                                                (options_.engine.page_bytes_per_s * options_.page_speed));
    }
    if (const auto answer = attachment::Requests::answer(done, outcome)) say(id, *answer);
    go_on_if_given(id);
    help(id);
}

}  // namespace salus::sim
