#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace salus::sim {
namespace {

/// A lane's memory comes in pieces of this size.
constexpr Bytes kPiece = gibibytes(1);

}  // namespace

World::World(Bytes capacity, bool is_gpu, std::size_t count, Record record)
    : clients(count), runners(count), capacity_(capacity), is_gpu_(is_gpu), record_(std::move(record)) {
    for (std::size_t i = 0; i < count; ++i) clients[i].page->owner = ClientId(i);
}

// ------------------------------------------------------------------------------------------------------- connections

shell::ConnectionId World::connect(ClientId client) {
    SimulatedClient& c = clients[index_of(client)];
    c.connection = static_cast<shell::ConnectionId>(peers_.size());
    c.connected = true;
    peers_.push_back({client});
    return c.connection;
}

shell::ConnectionId World::connect_runner(ClientId client) {
    SimulatedRunner& runner = runners[index_of(client)];
    runner.connection = static_cast<shell::ConnectionId>(peers_.size());
    runner.connected = true;
    peers_.push_back({client, true});
    return runner.connection;
}

/// Neither side has hung up.
bool World::is_open(shell::ConnectionId connection) const {
    const Peer& peer = peers_[connection];
    const auto is_at = [&](const auto& end) { return end.connected && end.connection == connection; };
    return peer.is_runner ? is_at(runners[index_of(peer.client)]) : is_at(clients[index_of(peer.client)]);
}

shell::Connections::Sent World::send(shell::ConnectionId to, const wire::Message& message) {
    if (!is_open(to)) return Sent::kGone;
    mail_.push_back({peers_[to].client, peers_[to].is_runner, message});
    return Sent::kYes;
}

Result<shell::Connections::Sent> World::send_pieces(shell::ConnectionId to, LaneId lane, std::size_t first, std::size_t) {
    return send(to, wire::LanePieces{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(first)});
}

void World::hang_up(shell::ConnectionId connection) {
    if (is_open(connection)) clients[index_of(peers_[connection].client)].connected = false;
}

void World::cut_connections() {
    for (SimulatedClient& c : clients) {
        c.connected = false;
        c.inbox.clear();
        c.outbox.clear();
    }
    mail_.clear();
    woken_.clear();
}

// ------------------------------------------------------------------------------------------------------------ device

Result<bool> World::provide(LaneId, Bytes) {
    if (!has_lane_memory_) return Error{"the device has no memory for a lane"};
    return true;
}

std::size_t World::pieces_for(Bytes size) const {
    return static_cast<std::size_t>((size.count + kPiece.count - 1) / kPiece.count);
}

/// No client may still have the trimmed memory mapped: another may get it at once.
void World::trim(LaneId lane, Bytes size) {
    const bool free = std::all_of(clients.begin(), clients.end(), [&](const SimulatedClient& c) {
        return !c.here() || !c.connected || c.mapped_size(lane) <= size;
    });
    SALUS_CHECK(free, "lane memory is given back that a client still has mapped");
}

bool World::is_mapped_in(int pid) const {
    const SimulatedClient& c = process_with(pid);
    return c.here() && c.mapped.has_value();
}

/// As a GPU reports it. Simulated clients have no memory behind windows (held_bytes is 0), so the usage of a client is its
/// context alone.
std::optional<shell::DeviceMemory::Usage> World::usage(const std::vector<int>& pids) const {
    if (!others_) return std::nullopt;
    Usage usage{*others_, {}};
    for (const SimulatedClient& c : clients) {
        if (!c.here()) continue;
        const int pid = process_of(c.page->owner).pid;
        if (std::find(pids.begin(), pids.end(), pid) != pids.end()) usage.clients[pid] = c.context;
        else usage.others += c.context + c.private_use();
    }
    return usage;
}

// ------------------------------------------------------------------------------------------------- processes, journal

Duration World::cpu_time_of(int pid) const {
    const SimulatedClient& c = process_with(pid);
    return c.runs() ? c.ran + (now_ - c.segment_start) : c.ran;
}

bool World::is_busy(int pid) const { return process_with(pid).runs(); }

bool World::write_roster(const std::vector<shell::RosterEntry>& entries) {
    roster_ = entries;
    return true;
}

}  // namespace salus::sim
