// Actions out: turns the engine's decisions into control words, messages and lane memory.

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "shell/shell.h"

namespace salus::shell {
namespace {

/// If the device lacks memory for a lane, others may be about to release theirs.
constexpr Duration kMapAgainAfter = milliseconds(50);

/// Applies `step` (word -> something with .next) to the word, and again if the word has changed meanwhile.
template <typename Step>
auto change(ControlPage& page, const Step& step) {
    std::uint64_t seen = page.word.load(std::memory_order_acquire);
    for (;;) {
        const auto made = step(control::unpack(seen));
        if (page.word.compare_exchange_weak(seen, control::pack(made.next), std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
            return made;
        }
    }
}

}  // namespace

void Shell::send(ClientId id, const wire::Message& message) {
    Session* session = find(id);
    if (session && !session->disconnected) sent(*session, ports_.connections.send(session->connection, message));
}

void Shell::sent(Session& session, Connections::Sent outcome) {
    if (outcome == Connections::Sent::kYes) return;
    if (outcome == Connections::Sent::kFull) complain(session, "it does not read its messages");
    disconnected(session);
}

void Shell::perform(const action::Start& a) {
    // A runner that does not read hangs up sooner or later, and then its job is withdrawn.
    const auto runner = runners_.find(a.job);
    if (runner != runners_.end()) ports_.connections.send(runner->second, wire::Start{});
}

void Shell::perform(const action::Grant& a) {
    Session* session = find(a.client);
    if (!session) return;
    if (a.lane != kNoLane) allow(*session, engine_.find(a.client)->facts.persistent);  // else Room has set it before
    struct Granted {
        control::Word next;
        bool done;
    };
    const Granted step = change(*session->page, [](const control::Word& word) {
        const auto next = control::grant(word);
        return next ? Granted{*next, true} : Granted{word, false};
    });
    if (!step.done) {  // it was waiting, and only a client that writes nonsense stops waiting without a grant
        complain(*session, "its control word is invalid");
        return disconnected(*session);
    }
    to_wake_.push_back(a.client);
    const Instant at = now();
    if (session->waiting_since != kNever) session->waited += at - session->waiting_since;
    session->waiting_since = kNever;
    session->told_at = at;
    session->busy_told_ns = session->page->busy_ns.load(std::memory_order_relaxed);
}

/// Wakes clients only once all words that were decided together are written. A woken client may run at once, on our
/// processor, and would not see a later yield.
void Shell::wake_granted() {
    for (const ClientId id : to_wake_) {
        if (Session* session = find(id)) ports_.connections.wake(*session->page);
    }
    to_wake_.clear();
}

/// Performs Yield and Revoke alike: what happens depends on the state of the client's word at this moment.
void Shell::take_back(ClientId id) {
    Session* session = find(id);
    if (!session) return;
    const bool may_retract = session->stopped || session->paused;
    const auto step =
        change(*session->page, [&](const control::Word& word) { return control::take_back(word, may_retract); });
    switch (step.outcome) {
        case control::TakeBack::Outcome::kTaken: return turn_is_over(*session);
        case control::TakeBack::Outcome::kHelperDrains: return send(id, wire::Revoke{});
        case control::TakeBack::Outcome::kAtBoundary: break;
    }
    // The engine thinks that the client is idle, but it has begun an iteration meanwhile.
    if (const Client* client = engine_.find(id); client && client->turn() == Turn::kHoldingIdle) feed(event::Want{id});
}

void Shell::perform(const action::AssignLane& a) {
    Session* session = find(a.client);
    if (!session) return;
    // If it still has old pieces of this lane, it must release them first.
    if (session->pieces_of == a.lane) send(a.client, wire::LanePieces{static_cast<std::uint32_t>(a.lane), 0});
    session->pieces_of = kNoLane;
    session->lane_sent = 0;
    map_lane(*session, {static_cast<std::uint32_t>(a.lane), a.version, static_cast<std::uint64_t>(a.size.count)});
}

void Shell::perform(const action::ResizeLane& a) {
    Session* session = find(a.client);
    if (!session) return;
    map_lane(*session, {static_cast<std::uint32_t>(a.lane), a.version, static_cast<std::uint64_t>(a.size.count)});
}

// Note [Memory that is not there yet]
// The engine promises memory that is free in its books, but somebody may still hold it: a process that is about to end, or a
// client whose context has grown since we last looked. A thread that was given room then waits for its lane. Meanwhile we
// look at what the clients use. If one uses more than the engine knows, the engine hears of it, and the need of a client
// that waits is put to it again: it can lend lanes and page others out, or deny. If nothing of that helps, the client is
// denied after a while: it must not wait forever.

/// False: others have taken the device's memory. map_again() tries again.
bool Shell::map_lane(Session& session, const wire::MapLane& message) {
    const Result<bool> sent = send_pieces(session.id, LaneId{message.lane}, Bytes{static_cast<std::int64_t>(message.size)});
    if (sent) {
        session.unmapped.reset();
        session.lane_sent = message.size;
        send(session.id, message);
        return true;
    }
    map_again_at_ = std::min(map_again_at_, now() + kMapAgainAfter);
    const bool is_news = !session.unmapped;
    session.unmapped = {message, is_news ? now() : session.unmapped->since};
    if (!is_news) return false;
    log(LogLevel::kError, "{}", sent.error());
    look_for_more();
    return false;
}

/// A thread of the client was given room, and continues when it has this lane.
bool Shell::waits_for_lane(const Session& session) {
    return session.unmapped && session.need.number != 0 && session.need.ephemeral > session.lane_sent;
}

void Shell::map_again(Session& session) {
    if (!session.unmapped) return;
    const wire::MapLane message = session.unmapped->message;
    const Lane* lane = engine_.lanes().find(LaneId{message.lane});
    const Mapping* mapping = lane ? lane->mapping(session.id) : nullptr;
    // The client may have left the lane, or is about to get another size.
    if (!mapping || mapping->version != message.version) return session.unmapped.reset();
    if (map_lane(session, message)) return;
    if (waits_for_lane(session) && now() - session.unmapped->since >= engine_.options().deny_after) deny_need(session);
}

void Shell::map_late_lanes() {
    map_again_at_ = kNever;
    for (const auto& [id, session] : sessions_) {
        if (!session->unmapped) continue;
        if (session->asks) session->unmapped->since = now();  // the engine answers first, and then the lane is due
        map_again(*session);  // before that, too: the engine may wait for memory that a smaller lane leaves
    }
}

void Shell::answer_need(Session& session, Bytes room) {
    if (!std::exchange(session.asks, false)) return;
    send(session.id, wire::NeedAnswer{session.need.number, 1, static_cast<std::uint64_t>(room.count)});
}

/// For want of memory.
void Shell::deny_need(Session& session) {
    wire::NeedAnswer denial{session.need.number};
    explain_denial(session, denial);
    session.asks = false;
    session.need = {};
    if (denial.need != 0) send(session.id, denial);
}

/// Its iteration is over: no turn comes in which it could be met.
void Shell::withdraw_need(Session& session) {
    session.asks = false;
    if (const std::uint64_t number = std::exchange(session.need, {}).number) send(session.id, wire::NeedAnswer{number});
}

/// Who has the memory. A job may have several clients; what they use of a lane counts as theirs.
void Shell::explain_denial(const Session& session, wire::NeedAnswer& denial) const {
    const Client* client = engine_.find(session.id);
    if (!client || session.need.number == 0) return;
    const auto in_lane = [&](const Client& c) { return c.lane == kNoLane ? Bytes{} : c.facts.ephemeral; };
    const Bytes had = std::max(client->reserved() - session.overhead, Bytes{}) + in_lane(*client);
    const Bytes wanted{static_cast<std::int64_t>(session.need.persistent + session.need.ephemeral)};
    if (wanted <= had) return;
    denial.more = static_cast<std::uint64_t>((wanted - had).count);
    denial.capacity = static_cast<std::uint64_t>(capacity_.count);
    std::map<std::uint32_t, std::uint64_t> held;  // by job
    for (const auto& [id, other] : sessions_) {
        const Client* known = engine_.find(id);
        if (!known || other->job == session.job) continue;
        const Bytes holds = known->reserved() + (known->lane == client->lane ? Bytes{} : in_lane(*known));
        std::uint64_t& of_job = held[other->job] += static_cast<std::uint64_t>(std::max(holds, Bytes{}).count);
        denial.others_hold += static_cast<std::uint64_t>(std::max(holds, Bytes{}).count);
        if (of_job <= denial.holder_holds) continue;
        denial.holder_holds = of_job;
        denial.holder_job = other->job;
        denial.holder = other->uid == session.uid ? wire::Text<64>(other->name) : wire::Text<64>{};
    }
}

/// Makes the lane at least this large, and sends the client the pieces that it needs to map it.
Result<bool> Shell::send_pieces(ClientId id, LaneId lane, Bytes size) {
    const Result<bool> provided = memory_.provide(lane, size);
    if (!provided) return provided;
    lanes_[lane] = std::max(lanes_[lane], size);
    Session* session = find(id);
    if (!session) return true;
    const bool is_new = std::exchange(session->pieces_of, lane) != lane;
    if (is_new) session->pieces = 0;
    const std::size_t wanted = memory_.pieces_for(size);
    for (bool first = is_new; first || session->pieces < wanted; first = false) {  // also sent for a lane without memory
        const std::size_t end = std::min(wanted, session->pieces + wire::kDescriptorsMax);
        if (session->disconnected) break;
        const Result<Connections::Sent> outcome =
            ports_.connections.send_pieces(session->connection, lane, session->pieces, end);
        if (!outcome) return Error{outcome.error()};
        sent(*session, outcome.value());
        session->pieces = end;
    }
    session->pieces = wanted;  // the client releases the pieces beyond
    return true;
}

void Shell::perform(const action::CloseLane& a) {
    if (Session* session = find(a.client)) {
        session->pieces_of = kNoLane;
        session->lane_sent = 0;
    }
    send(a.client, wire::UnmapLane{static_cast<std::uint32_t>(a.lane), a.version});
}

/// Sets the private memory that the client may use from its next grant on; the grant publishes it.
Bytes Shell::allow(Session& session, Bytes persistent) {
    const Bytes allowed = std::max(persistent - session.overhead, Bytes{});
    session.page->allowed_private.store(static_cast<std::uint64_t>(allowed.count), std::memory_order_relaxed);
    return allowed;
}

void Shell::perform(const action::Room& a) {
    Session* session = find(a.client);
    if (!session) return;
    const Bytes allowed = allow(*session, a.persistent);
    map_again(*session);
    answer_need(*session, allowed);
}

void Shell::perform(const action::Deny& a) {
    if (Session* session = find(a.client)) deny_need(*session);
}

void Shell::perform(const action::PageOut& a) { send(a.client, wire::PageOut{}); }
void Shell::perform(const action::PageIn& a) { send(a.client, wire::PageIn{}); }

void Shell::close_gates() {
    for (const auto& [id, session] : sessions_) {
        if (session->arming.gates) session->page->gates.close();
    }
}

void Shell::perform(const action::OpenGates&) {
    for (const auto& [id, session] : sessions_) session->page->gates.open();
}

void Shell::perform(const action::Refuse& a) {
    const Session* session = find(a.client);
    log(LogLevel::kWarning, "client {} ({}) needs {} and could never fit into {}", index_of(a.client),
        session ? session->name : "?", format_bytes(a.need), format_bytes(a.capacity));
    send(a.client, wire::Refuse{static_cast<std::uint64_t>(a.need.count), static_cast<std::uint64_t>(a.capacity.count)});
}

void Shell::perform(const action::Drop& a) {
    Session* session = find(a.client);
    if (!session) return;
    const std::string why = "protocol: " + std::string(name_of(a.fault));
    complain(*session, why);
    send(a.client, wire::Sorry{wire::Text<256>(why)});
    disconnected(*session);
}

void Shell::perform(const action::FallBack& a) {
    log(LogLevel::kError, "the policy misbehaves ({}); {} takes over", name_of(a.fault), engine_.policy().info.name);
}

void Shell::perform(const action::Admit& a) {
    const Session* session = find(a.client);
    log(LogLevel::kDebug, "client {} ({}) is admitted to lane {}", index_of(a.client), session ? session->name : "?",
        index_of(a.lane));
}

/// Returns lane memory that no client has mapped any more to the machine.
void Shell::tidy_lanes() {
    // Look at each lane: if one lane was closed and another opened, their sum may be unchanged.
    for (auto lane = lanes_.begin(); lane != lanes_.end();) {
        const Lane* known = engine_.lanes().find(lane->first);
        if (!known) {
            memory_.release(lane->first);
            for (const auto& [id, session] : sessions_) {
                if (session->pieces_of == lane->first) session->pieces_of = kNoLane;
            }
            lane = lanes_.erase(lane);
            roster_changed_ = true;
            continue;
        }
        if (known->charge < lane->second) {
            memory_.trim(lane->first, known->charge);
            lane->second = known->charge;
            roster_changed_ = true;
        }
        ++lane;
    }
}

}  // namespace salus::shell
