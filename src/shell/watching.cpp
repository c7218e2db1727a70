// Looking at clients: what they do without telling, and what is due. Note [Holders that do nothing].
#include "shell/shell.h"

#include <algorithm>
#include <utility>

namespace salus::shell {
namespace {

/// A client between two iterations keeps its grant at least this long: its next iteration may be about to begin.
constexpr Duration kIdleGrace = microseconds(200);
/// A holder that uses so little processor time for so long does nothing. See Note [Holders that do nothing].
constexpr Duration kAsleepAfter = milliseconds(200);
constexpr Duration kAsleepCpu = milliseconds(2);
/// A member of a crew is stuck if it keeps a turn that is wanted back for so long.
constexpr Duration kStuckAfter = seconds(5);

}  // namespace

// ---------------------------------------------------------------------------------------------------------- requests

void Shell::look_at_requests(Session& session) {
    if (!session.requests.look(session.page->gates, now())) return;
    requests_changed_at_ = now();
    may_await_requests_ = true;
    if (session.requests.begun() > 0) look_who_runs_again();
    feed(event::Requests{session.id, session.requests.in_flight(), session.requests.begun()});
}

/// Some requests never end: their process is stopped, or its device has failed.
Duration Shell::look_at_requests_every() const {
    if (engine_.gates().are_closed()) return kLookWhileClosed;
    return now() - requests_changed_at_ < kLookOftenFor ? kLookEvery : kLookSeldom;
}

bool Shell::awaits_requests() const {
    if (!may_await_requests_) return false;  // asked at each hand-over
    may_await_requests_ =
        std::ranges::any_of(sessions_, [](const auto& entry) { return entry.second->requests.in_flight() > 0; });
    return may_await_requests_;
}

void Shell::look_at_all_requests() {
    std::vector<ClientId> answering;
    for (const auto& [id, session] : sessions_) {
        if (session->requests.in_flight() > 0) answering.push_back(id);
    }
    for (const ClientId id : answering) {
        if (Session* session = find(id); session && engine_.find(id)) look_at_requests(*session);
    }
    look_who_runs_again();
    // A client may have opened its gate meanwhile, to wait for its own work.
    if (engine_.gates().are_closed()) close_gates();
}

/// A client that keeps its grant between iterations begins the next one without a word to us. Gates are closed only if a
/// batch client runs.
void Shell::look_who_runs_again() {
    if (engine_.gates().are_closed()) return;
    std::vector<ClientId> run;
    for (const auto& [id, session] : sessions_) {
        const Client* client = session->arming.gates ? engine_.find(id) : nullptr;
        if (client && client->turn() == Turn::kHoldingIdle && session->word().state == control::State::kRunning)
            run.push_back(id);
    }
    for (const ClientId id : run) feed(event::Want{id});
}
// ---------------------------------------------------------------------------------------------------------- holders

/// Tells the engine how far the client has come since it last heard, if there is news.
void Shell::tell_progress(Session& session) {
    const Instant at = now();
    const std::uint64_t iterations = session.page->iterations.load(std::memory_order_acquire);
    const std::uint64_t busy = busy_ns_of(session, at);
    const std::int64_t elapsed = (at - session.told_at).ns;
    const std::int64_t worked = std::clamp(static_cast<std::int64_t>(busy - session.busy_told_ns), std::int64_t{0}, elapsed);
    const Duration idle{elapsed - worked};
    const std::uint64_t launches =
        engine_.measures_overlap() ? session.page->launches.load(std::memory_order_relaxed) : session.launches_told;
    const bool any_news = iterations != session.iterations_told || launches != session.launches_told;
    if (!any_news && idle < kIdleGrace) return;
    const std::uint64_t news = iterations - session.iterations_told;
    session.iterations_told = iterations;
    session.busy_told_ns = busy;
    session.told_at = at;
    feed(event::Progress{session.id, news, idle, launches - std::exchange(session.launches_told, launches)});
    const Client* client = engine_.find(session.id);
    if (client && iterations > session.iterations_before + client->facts.iterations_total) forget_past_length(session);
}

void Shell::tell_progress_of_holders() {
    // Collect the holders first: progress may open and close lanes, and end turns.
    std::vector<ClientId> holders;
    for (const Lane& lane : engine_.lanes().all()) {
        if (lane.holder != kNoClient) holders.push_back(lane.holder);
    }
    for (const Client* client : engine_.clients()) {
        if (client->accompanies) holders.push_back(client->facts.id);
    }
    for (const ClientId id : holders) {
        const Client* client = engine_.find(id);
        Session* session = find(id);
        if (client && client->holds() && session) tell_progress(*session);
    }
}
bool Shell::anybody_waits() const {
    return std::any_of(engine_.clients().begin(), engine_.clients().end(),
                       [](const Client* c) { return c->wants() || c->stalled; });
}

/// Whether a holder has been between iterations for so long that another client may run.
bool Shell::rests(const Session& session) const {
    const std::uint64_t ended = session.page->ended_ns.load(std::memory_order_relaxed);
    return session.word().state == control::State::kIdle && ended <= static_cast<std::uint64_t>(now().ns - kIdleGrace.ns);
}

/// Whether the engine thinks that a holder runs while it rests, or the other way round.
bool Shell::any_holder_is_misjudged() const {
    return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        const Client* client = engine_.find(entry.first);
        if (!client) return false;
        if (client->turn() == Turn::kRunning) return rests(*entry.second);
        return client->turn() == Turn::kHoldingIdle && entry.second->word().state == control::State::kRunning;
    });
}

/// A holder for whose turn nobody waits does not report that it idles.
void Shell::look_for_idle_later() {
    constexpr Duration kSoonest = milliseconds(10), kLatest = seconds(1);
    const Duration after = engine_.options().page_idle_after;
    if (after == Duration{} || look_for_idle_at_ != kNever) return;
    const auto runs = [](const Client* client) { return client->turn() == Turn::kRunning; };
    if (std::ranges::any_of(engine_.clients(), runs))
        look_for_idle_at_ = now() + std::clamp(Duration{after.ns / 4}, kSoonest, kLatest);
}

/// Whether somebody waits for a holder that does not report its boundary. A holder that was asked to yield does report it; a
/// timer for it would cost more than the rest of a hand-over.
bool Shell::polls() const {
    return std::any_of(engine_.clients().begin(), engine_.clients().end(), [this](const Client* client) {
        if (!client->wants() && !client->stalled) return false;
        const Lane* lane = client->lane == kNoLane ? nullptr : engine_.lanes().find(client->lane);
        const Client* holder = lane && lane->holder != kNoClient ? engine_.find(lane->holder) : nullptr;
        return !holder || !holder->yield_asked;
    });
}

/// Tells the engine of boundaries that holders passed without reporting them, so that idle holders make way.
void Shell::look_at_holders() {
    tell_progress_of_holders();
    std::vector<Session*> holders;
    for (const auto& [id, session] : sessions_) {
        const Client* client = engine_.find(id);
        if (client && client->holds()) holders.push_back(session.get());
    }
    for (Session* session : holders) {
        const Client* client = engine_.find(session->id);
        if (!client || !client->holds()) continue;  // an earlier event may have ended its turn
        const control::State state = session->word().state;
        if (client->turn() == Turn::kRunning && rests(*session)) {
            feed(event::Idle{session->id, 0});
        } else if (state == control::State::kRunning && client->turn() == Turn::kHoldingIdle) {
            feed(event::Want{session->id});
        } else if (state == control::State::kFree) {
            turn_is_over(*session);
        }
    }
}

/// The engine does not distinguish the reasons for which a client does nothing.
void Shell::set_inert(Session& session, bool Session::*reason, bool value) {
    const bool before = session.inert();
    session.*reason = value;
    if (before == session.inert()) return;
    if (before) feed(event::Continue{session.id});
    else feed(event::Stop{session.id});
}

// Note [Holders that do nothing]
// A script may stop in mid-iteration: a forward pass without a step, then input() or sleep(). The other clients of its lane
// would wait as long. Such a holder uses no processor time, and none of its threads waits for a processor or a disk, as on a
// busy machine. (If a GPU works for it, the thread that waits for the GPU uses some time, or the wait is shorter than this.)
// We treat it like a stopped process: it keeps its lane, and the others move to another lane if there is room.
// A member of a crew may well wait for another member, and use processor time or none (Note [Crews] in core/crews.cpp). So
// it counts as stopped only if it keeps for long a turn that is wanted back: whatever it waits for, its crew has had the
// time.
void Shell::look_whether_asleep(Session& session) {
    const Instant at = now();
    const Client* client = engine_.find(session.id);
    const control::Word word = session.word();
    const bool inside = client && client->holds() && word.holds() && word.state != control::State::kIdle;
    const Duration cpu = inside ? ports_.processes.cpu_time_of(session.process.pid) : session.cpu_seen;
    // A client that could not clear its lane at the last boundary may compute for any time before it begins again.
    const bool kept = word.state == control::State::kGranted && word.kept;
    const bool moved = !kept && (cpu - session.cpu_seen > kAsleepCpu || cpu < session.cpu_seen);
    const bool is_due = inside && !kept && at - session.cpu_seen_at >= kAsleepAfter;
    if (!inside || moved || (is_due && ports_.processes.is_busy(session.process.pid))) {
        session.cpu_seen = cpu;
        session.cpu_seen_at = at;
    }
    const ControlPage& page = *session.page;
    const std::uint64_t iterations = page.iterations.load(std::memory_order_relaxed);
    const std::uint64_t usual = iterations > 0 ? page.busy_ns.load(std::memory_order_relaxed) / iterations : 0;
    const std::int64_t since = std::min(static_cast<std::int64_t>(page.begun_ns.load(std::memory_order_relaxed)), at.ns);
    const bool unusual = static_cast<std::uint64_t>(at.ns - since) / 4 > usual;
    const bool does_nothing = at - session.cpu_seen_at >= kAsleepAfter && (unusual || kept || session.asleep);
    if (!inside || !word.yield) session.wanted_back_at = kNever;
    else session.wanted_back_at = std::min(session.wanted_back_at, at);
    const bool is_stuck = session.wanted_back_at != kNever && at - session.wanted_back_at >= kStuckAfter;
    const bool asleep = inside && (client->crew != kNoJob ? is_stuck : does_nothing);
    if (asleep == session.asleep) return;
    log(LogLevel::kInfo, "client {} ({}, pid {}) {}", index_of(session.id), session.name, session.process.pid,
        asleep ? "does nothing in the middle of an iteration" : "continues its iteration");
    set_inert(session, &Session::asleep, asleep);
}
// ------------------------------------------------------------------------------------------------------ now and then

void Shell::tick() {
    if (awaits_requests()) look_at_all_requests();
    if (anybody_waits() && any_holder_is_misjudged()) look_at_holders();
    if (look_for_idle_at_ <= now()) {
        look_for_idle_at_ = kNever;
        if (any_holder_is_misjudged()) look_at_holders();
        look_for_idle_later();
    }
    if (engine_.deadline() <= now()) {
        if (engine_.starts().review_at() <= now()) look_at_usage();
        tell_progress_of_holders();
        feed(event::Timer{});
    }
    if (inside_.is_due(now())) inside_.look(now(), time_inside(now()));
    if (map_again_at_ <= now()) map_late_lanes();
    if (look_at_usage_at_ <= now()) look_at_usage();
    if (look_at_processes_at_ > now()) return;
    look_at_processes_at_ = kNever;
    look_at_orphans();
    std::vector<Session*> gone;
    for (const auto& [id, session] : sessions_) {
        const bool stopped = ports_.processes.is_stopped(session->process.pid);
        if (stopped != session->stopped) {
            log(LogLevel::kInfo, "client {} ({}, pid {}) {}", index_of(id), session->name, session->process.pid,
                stopped ? "is stopped" : "continues");
            set_inert(*session, &Session::stopped, stopped);
        }
        look_whether_asleep(*session);
        // It hung up and has no lane mapped (it called exec, or was dropped and let go): nothing of it is left.
        const bool left = session->page->left.load(std::memory_order_acquire) != 0;
        if (left || (session->disconnected && !memory_.is_mapped_in(session->process.pid))) gone.push_back(session.get());
    }
    for (Session* session : gone) died(*session);
}

Instant Shell::due() const {
    return std::min({engine_.deadline(), look_at_processes_at_, look_at_usage_at_, look_for_idle_at_, map_again_at_});
}

Instant Shell::next_tick() const {
    Instant next = due();
    if (polls()) next = std::min(next, now() + kLookEvery);
    if (awaits_requests()) next = std::min(next, now() + look_at_requests_every());
    return next;
}

void Shell::quiet() {
    const bool processes_matter = anybody_waits() || !orphans_.empty() ||
                                  std::any_of(sessions_.begin(), sessions_.end(),
                                              [](const auto& s) { return s.second->disconnected || s.second->inert(); });
    if (processes_matter) look_at_processes_at_ = std::min(look_at_processes_at_, now() + kLookAtProcessesEvery);
    keep_roster();
}

}  // namespace salus::shell
