// Events in: turns what clients and the command line do into events. Actions are in actions.cpp.
#include "shell/shell.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "wire/assignments.h"

namespace salus::shell {
namespace {

/// What a client did, for the log, as it says on its page.
std::string account_of(const Session& session) {
    const ControlPage& page = *session.page;
    const std::uint64_t lane = page.lane_bytes, missed = page.missed_bytes;
    std::string text = fmt::format("{} iterations", page.iterations.load());
    if (lane + missed > 0) {
        text += fmt::format(", {:.0f} % of its ephemeral bytes in the lane",
                            100 * static_cast<double>(lane) / static_cast<double>(lane + missed));
    }
    return text + fmt::format(", {} evacuations, {} page-outs", page.evacuations.load(), page.page_outs.load());
}

/// What is left of so many iterations; 0: not known. The client may have completed some under the previous service.
std::uint64_t left_of(std::uint64_t iterations, const Session& session) {
    return iterations > session.iterations_before ? iterations - session.iterations_before : 0;
}

/// The iterations left if the run is as long as an earlier one; 0: not known.
std::uint64_t past_length_left(const Session& session) {
    if (session.client_class.interactive) return 0;  // it ends when nobody asks it any more
    return left_of(session.past.iterations, session);
}

StayReason stay_reason_of(std::uint32_t said) {
    return said < kStayReasons ? static_cast<StayReason>(said) : StayReason::kUnknown;
}

/// Whether earlier runs of its command were interactive, and nothing else is known. A client that comes back knows itself.
bool class_is_past(const Session& session) {
    const bool unknown = session.client_class.reason == ClassReason::kUnknown;
    return unknown && session.past.interactive && session.iterations_before == 0;
}

}  // namespace

std::uint64_t busy_ns_of(const Session& session, Instant at) {
    const std::uint64_t busy = session.page->busy_ns.load(std::memory_order_relaxed);
    if (session.word().state != control::State::kRunning) return busy;
    const std::uint64_t begun = session.page->begun_ns.load(std::memory_order_relaxed);
    const auto until = static_cast<std::uint64_t>(at.ns);
    return begun < until ? busy + (until - begun) : busy;
}

namespace {

/// Its time inside iterations under this service.
Duration inside_of(const Session& session, Instant at) {
    const std::uint64_t busy = busy_ns_of(session, at);
    const auto most = static_cast<std::uint64_t>(std::max((at - session.attached_at).ns, std::int64_t{0}));
    return {static_cast<std::int64_t>(std::min(busy - std::min(session.busy_before_ns, busy), most))};
}

/// What its iterations took. Few of them say little: the first ones may take far longer.
std::optional<PaceWatch::Iterations> iterations_of(const Session& session) {
    constexpr std::int64_t kEnough = 10;
    const auto since = [](std::uint64_t before, std::uint64_t now) {
        return static_cast<std::int64_t>(std::min(now - std::min(before, now), std::uint64_t{1} << 62));
    };
    const std::int64_t done = since(session.iterations_before, session.page->iterations.load(std::memory_order_relaxed));
    const Duration expected = session.expected_iteration_time();
    if (done < kEnough || expected.ns <= 0) return std::nullopt;
    const std::int64_t busy_ns = since(session.busy_before_ns, session.page->busy_ns.load(std::memory_order_relaxed));
    return PaceWatch::Iterations{expected, Duration{busy_ns / done}};
}

}  // namespace

Histogram iteration_times_on(const ControlPage& page) {
    Histogram times{.least = ControlPage::kIterationTimesLeast};
    for (std::size_t i = 0; i < times.counts.size(); ++i)
        times.counts[i] = page.iterations_by_time[i].load(std::memory_order_relaxed);
    constexpr std::uint64_t kMost = 1ull << 62;
    times.sum = {static_cast<std::int64_t>(std::min(page.iteration_times_ns.load(std::memory_order_relaxed), kMost))};
    return times;
}

Shell::Shell(const Settings& settings, const Ports& ports)
    : ports_(ports),
      memory_(ports.memory),
      min_turn_is_fixed_(settings.min_turn_is_fixed),
      pages_(settings.pages),
      page_directory_(settings.page_directory),
      capacity_(settings.engine.capacity),
      context_guess_(settings.engine.context),
      engine_(settings.engine, *settings.policy, *settings.fallback),
      orphans_(ports.journal.read_roster()) {
    std::erase_if(orphans_, [this](const RosterEntry& entry) { return !ports_.processes.is_alive(entry.process); });
    if (orphans_.empty()) return;
    log(LogLevel::kInfo, "{} clients of the last service still run and hold {}", orphans_.size(),
        format_bytes(held_by(orphans_)));
    set_capacity();
    look_at_processes_at_ = now() + kLookAtProcessesEvery;
}

Session* Shell::find(ClientId id) {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
}

bool Shell::is_orphan(const ProcessId& process) const {
    return std::any_of(orphans_.begin(), orphans_.end(), [&](const RosterEntry& entry) { return entry.process == process; });
}

ClientId Shell::lowest_free_id() const {
    std::uint32_t id = 0;
    while (sessions_.contains(ClientId{id})) ++id;
    return ClientId{id};
}

// ----------------------------------------------------------------------------------------------------- to the engine

/// All events reach the engine through here, in order, and are recorded.
void Shell::feed(const Event& event) {
    outbox_.push_back(event);
    if (delivering_) return;
    delivering_ = true;
    while (!outbox_.empty()) {
        const Event next = outbox_.front();
        outbox_.pop_front();
        deliver(next);
    }
    delivering_ = false;
}

void Shell::deliver(const Event& event) {
    const Instant at = now();
    const std::span<const Action> made = engine_.handle(event, at);
    const std::vector<Action> actions(made.begin(), made.end());
    tidy_lanes();  // first: the actions may need the memory that this frees
    for (const Action& action : actions) {
        std::visit([this](const auto& a) { perform(a); }, action);
    }
    wake_granted();
    tell_of_others();
    if (classes_changed_) arm();
    look_for_idle_later();
    ports_.journal.record(event, at, actions);
}

/// What a program that asks the driver for free memory is to hear depends on it.
void Shell::tell_of_others() {
    const Bytes reserved = engine_.reserved();
    const bool same = reserved == reserved_shown_ && sessions_.size() == sessions_shown_;
    reserved_shown_ = reserved;
    sessions_shown_ = sessions_.size();
    if (same) return;
    for (const auto& [id, session] : sessions_) show_others(*session);
}

void Shell::show_others(Session& session) const {
    const Client* client = engine_.find(session.id);
    const Bytes others = engine_.reserved() - (client ? client->reserved() : Bytes{});
    session.page->others.store(sessions_.size() - 1, std::memory_order_relaxed);
    session.page->others_hold.store(static_cast<std::uint64_t>(std::max(others, Bytes{}).count), std::memory_order_relaxed);
}

/// Gates cost something, and so do marks. There are none unless a client beside and batch clients are here together.
void Shell::arm() {
    classes_changed_ = false;
    if (!memory_.has_gates()) return;
    std::size_t interactive = 0, batch = 0;
    for (const auto& [id, session] : sessions_) {
        if (!session->disconnected) ++(session->client_class.interactive ? interactive : batch);
    }
    for (const auto& [id, session] : sessions_) {
        if (session->disconnected) continue;
        const bool answers = session->client_class.interactive;
        if (answers) session->page->gates.open();
        const Arming arming{!answers && interactive > 0, answers && batch > 0};
        if (std::exchange(session->arming, arming) == arming) continue;
        if (!arming.gates) session->page->gates.open();
        send(id, wire::Arm{arming.gates, arming.requests});
    }
}

/// The word says that the grant is back.
void Shell::turn_is_over(Session& session) {
    if (session.asks) withdraw_need(session);  // a thread still asks, and nobody else would answer
    session.need = {};
    tell_progress(session);
    // Its statement decides where it goes, and its context has grown as it ran for the first time.
    if (const Client* client = engine_.find(session.id); client && !client->profiled) look_for_more(&session);
    const Bytes persistent = demand_of(session);
    const Bytes ephemeral{static_cast<std::int64_t>(session.page->wanted_ephemeral.load(std::memory_order_relaxed))};
    if (persistent != session.persistent_told || ephemeral != session.ephemeral_told) {
        session.persistent_told = persistent;
        session.ephemeral_told = ephemeral;
        feed(event::Demand{session.id, persistent, ephemeral, session.occupancy});
    }
    if (session.word().want) {
        session.waiting_since = now();
        feed(event::Boundary{session.id, 0});
    } else {
        feed(event::Idle{session.id, 0});
    }
}

void Shell::tell_need(const Session& session) {
    feed(event::Need{session.id,
                     Bytes{static_cast<std::int64_t>(session.need.persistent)} + session.overhead,
                     {static_cast<std::int64_t>(session.need.ephemeral)}});
}

// ------------------------------------------------------------------------------------------------------------- jobs

bool Shell::announce(const Announcement& a) {
    runners_.erase(a.job);  // if the job may start at once, the caller tells the runner
    look_at_usage();        // a client that has left may still have its context
    tell_progress_of_holders();
    // The figure comes from what a client once wrote on its page.
    const Bytes persistent = in_range(static_cast<std::uint64_t>(a.persistent.count)) ? a.persistent : Bytes{};
    feed(event::Announce{a.job, persistent, a.runs, a.waited, UserId{a.uid}});
    runners_[a.job] = a.runner;
    return !engine_.starts().waits(a.job);
}

void Shell::withdraw(JobId job) {
    if (runners_.erase(job) > 0) feed(event::Withdraw{job});
}

// ---------------------------------------------------------------------------------------------------------- clients

Result<Session*> Shell::attach(std::unique_ptr<Session> session, const wire::Attach& attach) {
    const bool sensible = attach.weight >= wire::kWeightMin && attach.weight <= wire::kWeightMax &&
                          attach.occupancy >= 1e-6 && attach.occupancy <= 1 && in_range(attach.persistent) &&
                          in_range(attach.ephemeral) && in_range(attach.left) &&
                          attach.iterations_total <= std::uint64_t{1} << 50 && in_range(attach.iteration_time_ns);
    if (!sensible) return Error{"an impossible figure"};
    SALUS_CHECK(session->id != kNoClient && !sessions_.contains(session->id), "a client attaches with a free id");
    session->job = attach.job;
    session->name = std::string(attach.name.view());
    session->attached_at = session->told_at = now();
    session->iterations_told = session->iterations_before = session->page->iterations;
    session->launches_told = session->page->launches;
    session->busy_told_ns = session->busy_before_ns = session->page->busy_ns;
    session->iteration_times_before = iteration_times_on(*session->page);
    session->requests.begin(session->page->gates);
    may_await_requests_ = true;
    session->occupancy = attach.occupancy;
    Session& added = *session;
    sessions_[added.id] = std::move(session);
    ports_.journal.name_client(added.id, added.job, added.name);
    look_at_usage();  // it may have a context; else that exists when it first wants a turn

    event::Attach e;
    e.client = added.id;
    e.user = UserId{added.uid};
    e.job = JobId{added.job};
    e.iterations_before = added.iterations_before;
    const UserSettings& said = added.said;
    e.priority = said.priority.value_or(attach.priority);
    e.weight = said.weight.value_or(attach.weight);
    e.occupancy = attach.occupancy;
    e.pageable = pages_ && !(attach.flags & wire::Attach::kUnpageable);
    if (!e.pageable) added.stays_because = pages_ ? stay_reason_of(attach.stays_because) : StayReason::kOff;
    e.iterations_total = said.iterations ? left_of(*said.iterations, added) : attach.iterations_total;
    e.iteration_time = {static_cast<std::int64_t>(attach.iteration_time_ns)};
    const bool interactive = (attach.flags & wire::Attach::kInteractive) != 0;
    if (said.interactive) added.client_class = {*said.interactive, ClassReason::kSaid};
    else if (attach.flags & wire::Attach::kClassSaid) added.client_class = {interactive, ClassReason::kSaid};
    else if (interactive) added.client_class = {true, ClassReason::kWaits};
    else if (class_is_past(added)) added.client_class = {true, ClassReason::kHistory};
    e.interactive = added.client_class.interactive;
    if (e.iterations_total == 0 && !said.iterations) {
        e.iterations_total = past_length_left(added);
        added.length_is_past = e.iterations_total > 0;
    }
    added.stated_iteration = e.iteration_time;
    if (e.iteration_time == Duration{}) e.iteration_time = added.past.iteration_time;
    e.profiled = (attach.flags & wire::Attach::kProfiled) != 0;
    if (e.profiled) {
        e.persistent = added.persistent_told = Bytes{static_cast<std::int64_t>(attach.persistent)} + added.overhead;
        e.ephemeral = added.ephemeral_told = {static_cast<std::int64_t>(attach.ephemeral)};
    }
    wire::Welcome welcome{static_cast<std::uint32_t>(added.id),
                          static_cast<std::uint64_t>(capacity_.count),
                          wire::Text<16>(memory_.name()),
                          {}};
    welcome.gpu = wire::Text<64>(memory_.identity());
    welcome.pages = pages_ ? 1 : 0;
    welcome.page_directory = wire::Text<256>(page_directory_);
    show_others(added);  // before the client may look
    send(added.id, welcome);
    classes_changed_ = true;
    feed(e);
    if (said.paused) set_inert(added, &Session::paused, true);
    if (said.suspended) suspend(added, true);
    if (attach.crew != 0) feed(event::JoinCrew{added.id, JobId{attach.crew}});
    std::erase_if(orphans_, [&](const RosterEntry& o) { return o.process == added.process; });
    set_capacity();
    const bool resident = (attach.flags & wire::Attach::kResident) != 0;
    if (!resident) added.left = {static_cast<std::int64_t>(attach.left)};
    const Bytes managed = resident ? Bytes{static_cast<std::int64_t>(attach.persistent)} : added.left;
    if (resident || managed + added.overhead > Bytes{}) feed(event::Observe{added.id, added.overhead + managed});
    tell_rest(added);
    roster_changed_ = true;
    log(LogLevel::kInfo, "client {} ({}, pid {}, job {}) attached", index_of(added.id), added.name, added.process.pid,
        added.job);
    notified(added);  // it may have been waiting already
    return &added;
}

bool Shell::complain(const Session& session, std::string_view why) {
    ports_.journal.log_of_peer(LogLevel::kWarning, fmt::format("client {} ({}, pid {}) is dropped: {}", index_of(session.id),
                                                               session.name, session.process.pid, why));
    return false;
}

bool Shell::message(Session& session, const wire::Message& message) {
    const ClientId id = session.id;
    tell_progress_of_holders();
    if (const auto* m = std::get_if<wire::Acknowledge>(&message)) {
        feed(event::Acknowledge{id, LaneId{m->lane}, m->version});
        roster_changed_ = true;
    } else if (const auto* out = std::get_if<wire::PagedOut>(&message)) {
        if (!in_range(out->left)) return complain(session, "an impossible figure");
        session.left = {static_cast<std::int64_t>(out->left)};
        look_for_more(&session);
        note_page_rate(id, Residency::kPagingOut, out->moved, out->ns);
        session.rest_told = session.overhead + session.left;
        feed(event::PagedOut{id, session.rest_told});
    } else if (const auto* in = std::get_if<wire::PagedIn>(&message)) {
        note_page_rate(id, Residency::kPagingIn, in->moved, in->ns);
        feed(event::PagedIn{id});
    } else if (const auto* u = std::get_if<wire::Unpageable>(&message)) {
        if (u->because != 0) session.stays_because = stay_reason_of(u->because);
        feed(event::Unpageable{id, u->for_good != 0});
    } else if (const auto* o = std::get_if<wire::Observe>(&message)) {
        if (!in_range(o->persistent)) return complain(session, "an impossible figure");
        feed(event::Observe{id, Bytes{static_cast<std::int64_t>(o->persistent)} + session.overhead});
    } else if (const auto* n = std::get_if<wire::Need>(&message)) {
        if (!in_range(n->persistent) || !in_range(n->ephemeral)) return complain(session, "an impossible figure");
        look_at_holders();
        session.need = *n;
        session.asks = true;
        const Client* client = engine_.find(id);
        if (!client || !client->holds()) {  // the iteration that a thread asked for has ended meanwhile
            withdraw_need(session);
            return true;
        }
        tell_need(session);
    } else if (const auto* c = std::get_if<wire::Class>(&message)) {
        const auto reason = static_cast<ClassReason>(std::min<std::uint16_t>(c->reason, 255));
        const bool found = reason >= ClassReason::kTrains && reason <= ClassReason::kWaits;
        set_class(session, {c->interactive != 0, found ? reason : ClassReason::kUnknown});
    } else if (const auto* j = std::get_if<wire::JoinCrew>(&message)) {
        feed(event::JoinCrew{id, JobId{j->crew}});
    } else if (std::holds_alternative<wire::Leave>(message)) {
        if (const Client* client = engine_.find(id); client && client->holds()) tell_progress(session);
        log(LogLevel::kInfo, "client {} ({}, pid {}) left after {}", index_of(id), session.name, session.process.pid,
            account_of(session));
        tell_departure_(session);
        feed(event::Leave{id, session.page->iterations - session.iterations_told});
        if (engine_.find(id)) feed(event::Die{id});  // its figures make no sense
        remove(session);
        return false;
    } else {
        return complain(session, "a message that clients do not send");
    }
    const Session* still_there = find(id);
    return still_there && !still_there->disconnected;
}

void Shell::notified(Session& session) {
    if (session.arming.requests && engine_.find(session.id)) look_at_requests(session);
    const Client* client = engine_.find(session.id);
    const control::Word word = session.word();
    if (!client || word.state != control::State::kFree) return;
    if (client->holds()) return turn_is_over(session);
    if (!word.want || client->turn() != Turn::kParked) return;
    if (!std::exchange(session.has_wanted, true)) look_for_more(&session);
    look_at_holders();
    session.waiting_since = now();
    feed(event::Want{session.id});
}

void Shell::disconnected(Session& session) {
    if (session.disconnected) return;
    session.disconnected = true;
    // It may run on, and have nobody any more who would open its gate if we did not.
    session.arming = {};
    session.page->gates.open();
    classes_changed_ = true;
    ports_.connections.hang_up(session.connection);
    look_at_processes_at_ = std::min(look_at_processes_at_, now() + milliseconds(10));
}

void Shell::died(Session& session) {
    log(LogLevel::kInfo, "client {} ({}, pid {}) is gone after {}", index_of(session.id), session.name, session.process.pid,
        account_of(session));
    tell_departure_(session);
    if (const Client* client = engine_.find(session.id)) {
        renew_lane_of(*client, session);
        feed(event::Die{session.id});
    }
    remove(session);
}

/// A killed client may have left work on the device that goes on after its process: under MPS, or if its children keep its
/// context.
void Shell::renew_lane_of(const Client& client, const Session& session) {
    const LaneId lane = client.lane;
    if (client.crew != kNoJob) return;  // it has nothing in the lane
    if (!client.holds() || lane == kNoLane || session.page->quiet.load(std::memory_order_relaxed) != 0) return;
    if (!memory_.renew(lane)) return;
    lanes_[lane] = Bytes{};
    feed(event::RenewLane{lane});
}

void Shell::remove(Session& session) {
    inside_gone_ += inside_of(session, now());
    if (const auto iterations = iterations_of(session)) paces_.add(*iterations);
    session.page->gates.open();  // a client that detaches may go on
    sessions_.erase(session.id);
    inside_.look(now(), time_inside(now()));  // nothing wakes us for the time after
    roster_changed_ = classes_changed_ = true;
    tell_of_others();
    arm();
}

void Shell::expect(Session& session, const RunFigures& past) {
    session.past = past;
    const Client* client = engine_.find(session.id);
    if (client && class_is_past(session)) set_class(session, {true, ClassReason::kHistory});
    const std::uint64_t left = past_length_left(session);
    if (!client || client->facts.iterations_total > 0 || left == 0 || session.said.iterations) return;
    adjust(session, client->facts.priority, client->facts.weight, left);
    session.length_is_past = true;
}

void Shell::recall(const Session& session, const Session& other, double rate) {
    if (!engine_.measures_overlap() || session.id == other.id || !(rate > 0 && rate <= 1e3)) return;
    feed(event::Recall{session.id, other.id, rate});
}

/// It was wrong: the client is one of unknown length.
void Shell::forget_past_length(Session& session) {
    const Client* client = engine_.find(session.id);
    if (!client || !std::exchange(session.length_is_past, false)) return;
    feed(event::Adjust{session.id, client->facts.priority, client->facts.weight, /*iterations_total=*/0});
}

RunFigures Shell::figures_of(const Session& session) const {
    const ControlPage& page = *session.page;
    RunFigures figures;
    figures.iterations = page.iterations;
    figures.persistent = {static_cast<std::int64_t>(page.wanted_persistent.load())};
    figures.ephemeral = {static_cast<std::int64_t>(page.wanted_ephemeral.load())};
    figures.interactive = session.client_class.interactive;
    if (figures.iterations == 0) return figures;
    // The engine's figure leaves out the first iterations, but the engine may not have heard of all later ones.
    const Client* client = engine_.find(session.id);
    const bool told = client && session.iterations_told == figures.iterations && client->facts.iteration_time.ns > 0;
    figures.iteration_time =
        told ? client->facts.iteration_time : Duration{static_cast<std::int64_t>(page.busy_ns.load() / figures.iterations)};
    return figures;
}

Duration Shell::time_inside(Instant at) const {
    Duration total = inside_gone_;
    for (const auto& [id, session] : sessions_) total += inside_of(*session, at);
    return total;
}

std::optional<double> Shell::share_inside(Instant at) const { return inside_.share(at, time_inside(at)); }

std::optional<PaceWatch::Median> Shell::pace() const {
    std::vector<PaceWatch::Iterations> present;
    for (const auto& [id, session] : sessions_) {
        if (const auto iterations = iterations_of(*session)) present.push_back(*iterations);
    }
    return paces_.median(present);
}

RunUse Shell::use_of(const Session& session) const {
    const Client* client = engine_.find(session.id);
    const Instant at = now();
    return {static_cast<double>(busy_ns_of(session, at)) * 1e-9, client ? engine_.memory_time_gib_s(*client, at) : 0};
}

// ------------------------------------------------------------------------------------------------------ command line

void Shell::set_policy(const Policy& policy) {
    look_at_holders();
    log(LogLevel::kInfo, "policy {}, was {}", policy.info.name, engine_.policy().info.name);
    feed(event::SetPolicy{&policy});
}

void Shell::limit_user(UserId user, Limits limits) {
    if (user == kRoot || engine_.limits_of(user) == limits) return;
    look_at_holders();
    feed(event::SetUserLimits{user, limits.jobs, limits.memory});
}

void Shell::pause(Session& session, bool paused) {
    if (session.paused == paused) return;
    tell_progress_of_holders();
    set_inert(session, &Session::paused, paused);
}

void Shell::suspend(Session& session, bool suspended) {
    if (std::exchange(session.suspended, suspended) == suspended) return;
    look_at_holders();
    if (!engine_.find(session.id)) return;
    if (suspended) feed(event::Suspend{session.id});
    else feed(event::Resume{session.id});
}

void Shell::hold(JobId job, bool held) { feed(event::Hold{job, held}); }

void Shell::page_idle(Session& session) {
    look_at_holders();
    if (engine_.find(session.id)) feed(event::PageIdle{session.id});
}

void Shell::adjust(Session& session, int priority, double weight, std::uint64_t iterations_total) {
    look_at_holders();
    const Client* client = engine_.find(session.id);
    if (client && client->facts.iterations_total != iterations_total) session.length_is_past = false;
    feed(event::Adjust{session.id, priority, weight, iterations_total});
}

void Shell::apply(Session& session, const UserSettings& said) {
    session.said = said;
    const Client* known = engine_.find(session.id);
    if (!known) return;
    const ClientFacts facts = known->facts;
    adjust(session, said.priority.value_or(facts.priority), said.weight.value_or(facts.weight),
           said.iterations ? left_of(*said.iterations, session) : facts.iterations_total);
    if (said.interactive) set_class(session, {*said.interactive, ClassReason::kSaid});
    suspend(session, said.suspended);  // first: if it was paused, it must not run now
    pause(session, said.paused);
}

void Shell::reconfigure(const Settings& settings) {
    look_at_holders();
    const EngineOptions& wanted = settings.engine;
    const EngineOptions& now = engine_.options();
    if (wanted.lanes_max != now.lanes_max || wanted.paging != now.paging || wanted.rehome_after != now.rehome_after ||
        wanted.page_idle_after != now.page_idle_after)
        feed(event::SetLimits{wanted.lanes_max, wanted.paging, wanted.rehome_after, wanted.page_idle_after});
    const bool was_fixed = std::exchange(min_turn_is_fixed_, settings.min_turn_is_fixed);
    if ((was_fixed || min_turn_is_fixed_) && wanted.min_turn != now.min_turn) feed(event::SetMinTurn{wanted.min_turn});
    set_min_turn();
    capacity_ = wanted.capacity;
    set_capacity();
}

void Shell::set_class(Session& session, ClientClass found) {
    if (session.client_class.reason == ClassReason::kSaid && found.reason != ClassReason::kSaid) return;
    const bool changes = session.client_class.interactive != found.interactive;
    session.client_class = found;
    if (!changes) return;
    classes_changed_ = true;
    log(LogLevel::kInfo, "client {} ({}, pid {}) is {}: {}", index_of(session.id), session.name, session.process.pid,
        name_of_class(found.interactive), text_of(found.reason));
    feed(event::SetClass{session.id, found.interactive});
    if (found.interactive) forget_past_length(session);
}

// ---------------------------------------------------------------------------------------------------------- restarts

void Shell::keep_roster() {
    if (!roster_changed_) return;
    roster_changed_ = false;
    std::vector<RosterEntry> entries = orphans_;
    for (const auto& [id, session] : sessions_) {
        const Client* client = engine_.find(id);
        if (!client) continue;
        const Lane* lane = client->lane == kNoLane ? nullptr : engine_.lanes().find(client->lane);
        entries.push_back(
            {session->process, static_cast<std::uint32_t>(client->lane), lane ? lane->charge : Bytes{}, client->reserved()});
    }
    if (entries == roster_ || !ports_.journal.write_roster(entries)) return;
    roster_ = entries;
}

void Shell::look_at_orphans() {
    if (orphans_.empty()) return;
    const std::size_t before = orphans_.size();
    std::erase_if(orphans_, [this](const RosterEntry& entry) { return !ports_.processes.is_alive(entry.process); });
    if (orphans_.size() == before) return;
    set_capacity();
    roster_changed_ = true;
}

}  // namespace salus::shell
