// The simulated world: the machine as the shell sees it. It has virtual time, the clients' processes, a device's memory, and
// connections that keep the shell's messages until the simulation delivers them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shell/ports.h"
#include "sim/simulated_client.h"
#include "sim/simulated_runner.h"

namespace salus::sim {

class World final : public shell::Clock,
                    public shell::Connections,
                    public shell::DeviceMemory,
                    public shell::Processes,
                    public shell::Journal {
public:
    using Record = std::function<void(const Event&, Instant, std::span<const Action>)>;

    World(Bytes capacity, bool is_gpu, std::size_t clients, Record record);

    shell::Ports ports() { return {*this, *this, *this, *this, *this}; }

    /// Client i has pid i + 1.
    std::vector<SimulatedClient> clients;
    std::vector<SimulatedRunner> runners;
    Instant now() const override { return now_; }
    void pass_time_until(Instant at) { now_ = std::max(now_, at); }

    /// Opens a connection to a client that attaches.
    shell::ConnectionId connect(ClientId client);
    /// Opens a connection to the runner of a client's job.
    shell::ConnectionId connect_runner(ClientId client);
    static shell::ProcessId process_of(ClientId client) { return {static_cast<int>(index_of(client)) + 1, 0}; }

    struct Mail {
        ClientId to = kNoClient;
        bool to_runner = false;  ///< to the runner of that client's job
        wire::Message message;
    };
    /// What the shell has sent since the last call, and whom it has woken.
    std::vector<Mail> take_mail() { return std::exchange(mail_, {}); }
    std::vector<ClientId> take_woken() { return std::exchange(woken_, {}); }
    bool has_news() const { return !mail_.empty() || !woken_.empty(); }

    /// From now on, processes that are not clients use this much of the device.
    void set_others(Bytes others) { others_ = others; }
    void set_has_lane_memory(bool has) { has_lane_memory_ = has; }
    bool has_lane_memory() const { return has_lane_memory_; }
    /// Closes all connections. Messages under way are lost.
    void cut_connections();

private:
    Sent send(shell::ConnectionId to, const wire::Message& message) override;
    Result<Sent> send_pieces(shell::ConnectionId to, LaneId lane, std::size_t first, std::size_t end) override;
    void hang_up(shell::ConnectionId connection) override;
    void wake(ControlPage& page) override { woken_.push_back(static_cast<OwnedPage&>(page).owner); }

    std::string_view name() const override { return is_gpu_ ? "gpu" : "host"; }
    std::string identity() const override { return {}; }
    Bytes capacity() const override { return capacity_; }
    bool has_gates() const override { return is_gpu_; }
    Result<bool> provide(LaneId lane, Bytes size) override;
    std::size_t pieces_for(Bytes size) const override;
    void trim(LaneId lane, Bytes size) override;
    void release(LaneId lane) override { trim(lane, Bytes{}); }
    bool renew(LaneId) override { return is_gpu_; }
    bool is_mapped_in(int pid) const override;
    std::optional<Usage> usage(const std::vector<int>& pids) const override;

    bool is_alive(const shell::ProcessId& process) const override { return process_with(process.pid).here(); }
    bool is_stopped(int pid) const override { return process_with(pid).stopped; }
    Duration cpu_time_of(int pid) const override;
    bool is_busy(int pid) const override;

    void record(const Event& event, Instant at, std::span<const Action> actions) override { record_(event, at, actions); }
    void name_client(ClientId, std::uint32_t, std::string_view) override {}
    std::vector<shell::RosterEntry> read_roster() override { return roster_; }
    bool write_roster(const std::vector<shell::RosterEntry>& entries) override;
    bool logs(LogLevel) const override { return false; }
    void log(LogLevel, std::string_view) override {}
    void log_of_peer(LogLevel, std::string_view) override {}

    const SimulatedClient& process_with(int pid) const { return clients[static_cast<std::size_t>(pid - 1)]; }
    /// The other end of a connection.
    struct Peer {
        ClientId client;
        bool is_runner = false;  ///< the runner of that client's job
    };
    bool is_open(shell::ConnectionId connection) const;

    const Bytes capacity_;
    const bool is_gpu_;
    Record record_;
    Instant now_{};
    std::vector<Peer> peers_;  ///< by number of connection
    std::vector<Mail> mail_;
    std::vector<ClientId> woken_;
    std::optional<Bytes> others_;
    bool has_lane_memory_ = true;
    std::vector<shell::RosterEntry> roster_;
};

}  // namespace salus::sim
