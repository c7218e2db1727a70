// What the device says: how much memory each process uses, and what a switch costs.
#include "shell/shell.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace salus::shell {
namespace {

/// How often we ask the device how much its processes use, and which change matters.
constexpr Duration kLookAtUsageEvery = milliseconds(500);
constexpr Bytes kUsageMatters = mebibytes(8);
/// Less moves too fast to tell how fast.
constexpr std::uint64_t kTellsARate = std::uint64_t{64} << 20;
constexpr double kRateLeast = 1e7, kRateMost = 1e12;  // bytes per second

/// The cost of a switch that clients do not measure: delivery of the grant, and the GPU's own switch (bench/gpu handover).
constexpr Duration kGrantCost = microseconds(200);
constexpr Duration kMinTurnMost = seconds(1);

}  // namespace

/// Tells the engine how much of the device others leave.
void Shell::set_capacity() {
    Bytes left = capacity_ - held_by(orphans_);
    // A device that reports its users counts the orphans among the others.
    if (others_ > Bytes{}) left = std::min(left, memory_.capacity() - others_);
    const bool any = !orphans_.empty();
    if (left != engine_.capacity() || any != engine_.starts().has_orphans())
        feed(event::SetCapacity{std::max(left, Bytes{}), any});
}

/// The memory that a client manages, as of its last boundary, plus what else it uses.
Bytes Shell::demand_of(const Session& session) const {
    return Bytes{static_cast<std::int64_t>(session.page->wanted_persistent.load(std::memory_order_relaxed))} +
           session.overhead;
}

/// Derives the minimum turn from the measured costs of turns.
void Shell::set_min_turn() {
    if (min_turn_is_fixed_) return;
    std::vector<std::int64_t> costs;
    for (const auto& [id, session] : sessions_) {
        const std::uint64_t cost = session->page->turn_cost_ns.load(std::memory_order_relaxed);
        if (cost > 0 && in_range(cost)) costs.push_back(static_cast<std::int64_t>(cost));
    }
    if (costs.empty()) return;
    std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2), costs.end());
    const Duration wanted = std::min((Duration{costs[costs.size() / 2]} + kGrantCost) * 100, kMinTurnMost);
    const Duration present = engine_.options().min_turn;
    if (wanted.ns * 5 > present.ns * 4 && wanted.ns * 4 < present.ns * 5) return;  // much the same
    log(LogLevel::kDebug, "a switch costs {:.2f} ms; turns last at least {:.0f} ms", wanted.seconds() * 10,
        wanted.seconds() * 1e3);
    feed(event::SetMinTurn{wanted});
}

/// Derives the size of a context from the contexts seen.
void Shell::set_context() {
    if (context_guess_ == Bytes{}) return;
    Bytes context = context_guess_;
    for (const auto& [id, session] : sessions_) context = std::max(context, session->overhead);
    if (context != engine_.options().context) feed(event::SetContext{context});
}

void Shell::look_at_usage() {
    const auto [usage, news] = look(nullptr, /*may_fall=*/true);
    if (usage || look_at_usage_at_ != kNever) look_at_usage_at_ = sessions_.empty() ? kNever : now() + kLookAtUsageEvery;
    if (!usage) return;
    const bool all_gone = usage->others == Bytes{} && others_ > Bytes{};
    if (all_gone || usage->others > others_ + kUsageMatters || others_ > usage->others + kUsageMatters) {
        others_ = usage->others;
        set_capacity();
    }
    set_min_turn();
    tell_observed(news);
}

/// Looks whether clients, or `only` this one, use more than the engine knows. Does not look at others: a process that is
/// about to end need not cost a client its place.
void Shell::look_for_more(const Session* only) { tell_observed(look(only, /*may_fall=*/false).news); }

Shell::Look Shell::look(const Session* only, bool may_fall) {
    std::vector<int> pids;
    std::map<ClientId, std::uint64_t> held_before;
    for (const auto& [id, session] : sessions_) {
        pids.push_back(session->process.pid);
        held_before[id] = session->page->held_bytes.load(std::memory_order_relaxed);
    }
    Look look{memory_.usage(pids), {}};
    const std::optional<DeviceMemory::Usage>& usage = look.usage;
    if (!usage) return look;
    for (const auto& [id, session] : sessions_) {
        if (only && session.get() != only) continue;
        const auto used = usage->clients.find(session->process.pid);
        const std::uint64_t held = session->page->held_bytes.load(std::memory_order_relaxed);
        if (used == usage->clients.end() || held != held_before[id] || !in_range(held)) continue;  // it changed meanwhile
        if (session->unmapped && session->pieces_of == kNoLane) continue;  // it may still have the lane's old memory
        const Client* client = engine_.find(id);
        const Residency residency = client ? client->residency() : Residency::kAbsent;
        const bool moves = residency == Residency::kPagingOut || residency == Residency::kPagingIn;
        if (moves && !only) continue;  // its page is behind
        const Bytes seen = std::max(used->second - Bytes{static_cast<std::int64_t>(held)}, Bytes{});
        // Memory that a client is giving back now may be gone from the device, but not yet from its page. So a lower
        // figure counts only when it was seen twice, some time apart.
        const Bytes before = may_fall ? std::exchange(session->overhead_last_seen, seen) : session->overhead;
        const Bytes overhead = std::max(seen, before);
        const bool more = overhead > session->overhead + kUsageMatters;
        if (!more && session->overhead < overhead + kUsageMatters) continue;
        session->overhead = overhead;
        session->persistent_told = Bytes{-1};  // forces a Demand at the next boundary; the observed figure counts till then
        const std::uint64_t managed = session->page->private_bytes.load(std::memory_order_relaxed);
        if (more && in_range(managed) && residency != Residency::kPaged)
            look.news.push_back({id, overhead + Bytes{static_cast<std::int64_t>(managed)}});
    }
    return look;
}

void Shell::tell_observed(const std::vector<event::Observe>& news) {
    for (const event::Observe& observed : news) {
        if (!engine_.find(observed.client)) continue;
        feed(observed);
        Session* session = find(observed.client);
        const Client* client = engine_.find(observed.client);
        if (!session || !client || !client->holds() || !(session->asks || waits_for_lane(*session))) continue;
        session->asks = true;
        tell_need(*session);  // with what it uses beside the memory that it asks for
    }
    set_context();
    std::vector<ClientId> ids;
    for (const auto& [id, session] : sessions_) ids.push_back(id);
    for (const ClientId id : ids) {
        if (Session* session = find(id)) tell_rest(*session);
    }
}

/// What stays on the device when it is paged out.
void Shell::tell_rest(Session& session) {
    const Bytes rest = session.overhead + session.left;
    if (!engine_.find(session.id) || std::exchange(session.rest_told, rest) == rest) return;
    feed(event::SetRest{session.id, rest});
}

/// How long a client must stay, so that paging takes a small share of its time, depends on it.
/// `moving`: what the client is doing then, if it was asked to. What it says is bounded: it concerns all clients.
void Shell::note_page_rate(ClientId id, Residency moving, std::uint64_t moved, std::uint64_t ns) {
    const Client* client = engine_.find(id);
    if (!client || client->residency() != moving) return;
    if (ns == 0 || !in_range(ns) || !in_range(moved) || moved < kTellsARate) return;
    const double seen = std::clamp(static_cast<double>(moved) / (static_cast<double>(ns) * 1e-9), kRateLeast, kRateMost);
    const double present = engine_.options().page_bytes_per_s;
    if (seen > present * 0.8 && seen < present * 1.25) return;
    feed(event::SetPageRate{(seen + present) / 2});
}

}  // namespace salus::shell
