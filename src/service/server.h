// The service: one epoll loop over connections, clients' signals and the ends of their processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "os/descriptor.h"
#include "os/socket.h"
#include "service/jobs.h"
#include "service/mps.h"
#include "service/options.h"
#include "service/ports.h"
#include "service/run_history.h"
#include "shell/shell.h"
#include "status/status.h"
#include "wire/framing.h"

namespace salus::service {

using shell::ConnectionId;
using shell::Session;
using shell::Shell;

class Server : private shell::Connections, private shell::DeviceMemory {
public:
    /// Takes the locks, reads the roster, listens. An error if another service has one of them or the socket cannot be made.
    static Result<std::unique_ptr<Server>> open(const Options& options);
    ~Server();

    /// The signals that end run() are kept for it. To be called before open(): threads that the CUDA driver starts there
    /// would take them, and the process end at once.
    static void block_signals();
    /// Until stop() or a signal.
    void run();
    /// One round: waits for something to happen, at most until `limit`, and deals with all of it.
    void step(Instant limit);
    void stop() { stopping_ = true; }

    /// As if it had connected.
    void adopt(os::Descriptor socket);

    const Shell& shell() const { return *shell_; }
    const TraceFile& trace() const { return journal_->trace(); }

private:
    enum class Watch : std::uint32_t { kListener, kSignals, kConnection, kNotify, kProcess, kMps };
    struct Connection {
        ConnectionId id = 0;
        os::Descriptor socket;
        os::Peer peer;
        ClientId client = kNoClient;  ///< if it attached
        std::uint32_t job = 0;        ///< of a runner
    };

    /// A client that attached over a connection, which may be closed by now, until its session is no more.
    struct Attached {
        ClientId client = kNoClient;
        os::Descriptor pidfd;
        os::Descriptor notify;
        int epoll = -1;  ///< where `notify` is watched: closing our copy of it would not end that

        Attached() = default;
        Attached(Attached&&) = default;
        Attached& operator=(Attached&&) = default;
        ~Attached();
    };

    Server(const Options& options, std::unique_ptr<device::LaneMemory> memory);

    // ---- shell::Connections ----
    Sent send(ConnectionId to, const wire::Message& message) override;
    Result<Sent> send_pieces(ConnectionId to, LaneId lane, std::size_t first, std::size_t end) override;
    void hang_up(ConnectionId connection) override;
    void wake(ControlPage& page) override;
    Sent send(ConnectionId to, const wire::Message& message, std::span<const int> descriptors);

    // ---- shell::DeviceMemory ----
    std::string_view name() const override { return memory_->traits().name; }
    std::string identity() const override { return memory_->identity(); }
    Bytes capacity() const override { return memory_->capacity(); }
    Result<bool> provide(LaneId lane, Bytes size) override { return memory_->provide(lane, size); }
    std::size_t pieces_for(Bytes size) const override { return memory_->pieces_for(size); }
    void trim(LaneId lane, Bytes size) override { memory_->trim(lane, size); }
    void release(LaneId lane) override { memory_->release(lane); }
    bool renew(LaneId lane) override { return memory_->renew(lane); }
    bool is_mapped_in(int pid) const override { return memory_->is_mapped_in(pid); }
    std::optional<Usage> usage(const std::vector<int>& clients) const override;

    std::string mps_directory() const { return options_.state + "/mps"; }
    std::string offer_mps(MpsPatience patience);
    void find_mps_of_earlier_service();
    void take_mps(std::unique_ptr<Mps> mps);
    void mps_is_gone();
    bool may_join_mps() const;
    Result<bool> listen();
    bool watch(int fd, Watch what, std::uint32_t id, std::uint32_t events);
    void watch_listener(bool watched);
    void accept_all();
    void accept_failed(int why);
    void read_from(Connection& connection);
    bool handle(Connection& connection, wire::Received& received);
    bool attach(Connection& connection, wire::Received& received, const wire::Attach& attach);
    bool run_job(Connection& connection, const wire::Run& run);
    void end_job(const Connection& connection, const wire::Ended& ended);
    void close(std::uint32_t id);
    Session* session_of(const Connection& connection);
    Session* session_with(std::uint32_t connection);
    void close_without_session();
    void forget_process(std::uint32_t connection);
    void refuse(const Connection& connection, const std::string& why);
    bool answer(const Connection& connection, const wire::Command& command);
    void drop_ended_jobs();

    // ---- commands.cpp ----
    Job* to_be_told_of(const Session& session);
    Instant next_long_wait();
    void tell_long_waits();
    struct Reply {
        bool ok = true;
        std::string text = "{}";  ///< JSON, or one line of why not
    };
    Reply command(const os::Peer& peer, const wire::Command& command);
    Reply obey(const os::Peer& peer, const wire::AskStatus&);
    Reply obey(const os::Peer& peer, const wire::SetPolicy& wanted);
    Reply obey(const os::Peer& peer, const wire::FlushTrace&);
    Reply obey(const os::Peer& peer, const wire::StopService& wanted);
    Reply obey(Job& job, const wire::PauseJob&);
    Reply obey(Job& job, const wire::ResumeJob&);
    Reply obey(Job& job, const wire::KillJob& wanted);
    Reply obey(Job& job, const wire::SetJob& message);
    static bool owned_by(const os::Peer& peer);
    std::vector<Session*> sessions_of(std::uint32_t job);
    Reply for_clients_of(const Job& job, const std::function<void(Session&)>& act);
    Status status() const;
    ServiceStatus service_status(Instant at) const;
    TraceStatus trace_status() const;

    Options options_;
    os::Descriptor lock_;        ///< of the socket
    os::Descriptor state_lock_;  ///< of the directory
    RunHistory history_;
    std::unique_ptr<device::LaneMemory> memory_;
    MonotonicClock clock_;
    KernelProcesses processes_;
    std::unique_ptr<StateJournal> journal_;
    os::Descriptor epoll_;
    os::Descriptor listener_;
    os::Descriptor signals_;
    std::unique_ptr<Mps> mps_;  ///< none: it was never wanted, or failed
    bool offers_mps_ = false;   ///< to new jobs
    std::map<ConnectionId, Connection> connections_;
    Jobs jobs_;
    std::unordered_map<ConnectionId, Attached> attached_;
    std::unique_ptr<Shell> shell_;
    std::uint32_t next_connection_ = 1;
    Instant started_;
    Instant long_wait_at_ = kNever;     ///< when a runner is to be told that its job waits
    Instant accept_again_at_ = kNever;  ///< there was no descriptor for a connection
    bool told_of_no_descriptors_ = false;
    bool stopping_ = false;
    bool made_directory_ = false;  ///< of the socket, and so may open it to others
};

}  // namespace salus::service
