// The service: one epoll loop over connections, clients' notifications and the ends of their processes, for all its devices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "base/visible_devices.h"
#include "core/placement.h"
#include "os/descriptor.h"
#include "os/socket.h"
#include "service/job_mapping.h"
#include "service/jobs.h"
#include "service/kept.h"
#include "service/metrics_server.h"
#include "service/options.h"
#include "service/run_history.h"
#include "service/shared_device.h"
#include "service/trace_view.h"
#include "shell/shell.h"
#include "status/status.h"
#include "wire/framing.h"

namespace salus::service {

using shell::ConnectionId;
using shell::Session;
using shell::Shell;

class Server : private ServerLink {
public:
    /// Takes the locks, reads the roster, listens. Fails if another service has a lock or the socket cannot be made.
    static Result<std::unique_ptr<Server>> open(const Options& options);
    /// The same, with devices of the caller's choice.
    using Devices = std::vector<std::unique_ptr<device::LaneMemory>>;
    static Result<std::unique_ptr<Server>> open(const Options& options,
                                                const std::function<Result<Devices>()>& open_devices);
    ~Server();

    /// Blocks the signals that end run(), so that run() can read them. Call it before open(): the CUDA driver starts threads
    /// there, and one of them would take the signal and end the process.
    static void block_signals();
    /// Runs until stop() or a signal.
    void run();
    /// One round: waits for events, at most until `limit`, and handles them.
    void step(Instant limit);
    void stop() { stopping_ = true; }
    /// `read` finds the options anew; an error is one line.
    void on_reload(std::function<Result<Options>()> read) { read_options_ = std::move(read); }

    /// Adds this socket as a new connection.
    void adopt(os::Descriptor socket);

    const std::vector<std::unique_ptr<SharedDevice>>& devices() const { return devices_; }

private:
    /// Who has to do something about a job that cannot be placed: wire::Sorry.
    enum class Mistake : std::uint8_t { kNone, kUsers, kFinal };
    enum class Watch : std::uint32_t {
        kListener,
        kStop,
        kHangUp,
        kConnection,
        kNotify,
        kProcess,
        kMps,
        kTrace,
        kMetrics,
        kRunner
    };
    struct Connection {
        ConnectionId id = 0;
        os::Descriptor socket;
        os::Peer peer;
        std::uint64_t peer_started = 0;      ///< its start time when it was seen first: later its pid may be another's
        ClientHandle client;                 ///< if it attached
        std::uint32_t job = 0;               ///< if it is a runner's
        os::Descriptor runner;               ///< its pidfd, if it is the job itself: a child may keep the socket open
        std::uint32_t awaits_end_of = 0;     ///< the job, if it has asked
        wire::Wishes wishes;                 ///< about the job that it will run
        std::unique_ptr<TraceStream> trace;  ///< if it has asked for one
    };

    /// The descriptors of an attached client. They are kept until its session ends, even if its connection is closed before.
    struct Attached {
        ClientHandle client;
        os::Descriptor pidfd;
        os::Descriptor notify;
        int epoll = -1;  ///< where `notify` is watched. Closing our copy of `notify` does not end the watch

        Attached() = default;
        Attached(Attached&&) = default;
        Attached& operator=(Attached&&) = default;
        ~Attached();
    };

    /// A client's session and its device; both null: no client.
    struct ClientOn {
        SharedDevice* device = nullptr;
        Session* session = nullptr;

        explicit operator bool() const { return session != nullptr; }
        Shell& shell() const { return device->shell(); }
    };

    Server(const Options& options, Devices devices);

    // ---- ServerLink ----
    Sent send(ConnectionId to, const wire::Message& message, std::span<const int> descriptors) override;
    void hang_up(ConnectionId connection) override;
    bool watch_mps(DeviceId device, int pidfd) override;

    SharedDevice& at(DeviceId device) { return *devices_[index_of(device)]; }
    std::string offer_mps(SharedDevice& device, MpsPatience patience);
    Result<bool> listen(const std::string& socket, bool made_directory);
    void look_at_socket();
    Result<bool> move_to(const std::string& socket);
    bool watch(int fd, Watch what, std::uint32_t id, std::uint32_t events);
    void watch_listener(bool watched);
    void accept_all();
    void accept_failed(int why);
    void read_from(Connection& connection);
    bool handle(Connection& connection, wire::Received& received);
    bool attach(Connection& connection, wire::Received& received, const wire::Attach& attach);
    UserLimits limits_of(unsigned uid);
    void tell_limits(SharedDevice& device, unsigned uid);
    /// How often the service looks whether a job that waits to start has room on another device by now. A process that has
    /// ended may keep its memory for a moment.
    static constexpr Duration kPlaceAnewEvery = milliseconds(250);
    bool counts_already(const Session& session, std::uint32_t job);
    std::string why_no_new_job(unsigned uid);
    void recall_pairs_of(const ClientOn& client);
    void record_pairs_of(const Shell& shell, const Session& session);
    bool run_job(Connection& connection, const wire::Run& run);
    bool watch_runner(Connection& connection);
    const Connection* connection_of_runner(const Job& job) const;
    bool hurry(std::uint32_t job);
    void note_unshared(const os::Peer& peer, const wire::Unshared& unshared);
    void end_job(const Connection& connection, const wire::Ended& ended);
    void record_end(Job& job, std::optional<int> status, Duration took);
    void lose_runner(const Connection& connection);
    void record_untold(unsigned uid, const wire::UntoldEnd& end);
    void record_untold_of_owner();
    void close(std::uint32_t id);
    ClientOn find(const ClientHandle& handle);
    ClientOn client_of(const Connection& connection);
    ClientOn client_with(ConnectionId connection);
    ClientOn client_in_process(int pid);
    std::vector<ClientOn> clients() const;
    std::vector<ClientOn> clients_of(std::uint32_t job) const;
    std::vector<int> unseen_of(const Job& job) const;
    std::optional<Wait::Behind> holder_of_most(DeviceId device) const;
    std::optional<StartWait> start_wait_of(const Job& job) const;
    void add_limits(Wait& wait, const Job& job) const;
    JobStatus row_of(const Job& job, JobState state, int pid, Instant at) const;
    JobStatus row_of(const EndedJob& ended) const;
    static void stand_on(JobStatus& row, const SharedDevice& device, const Job& job);
    static void describe(JobStatus& row, const Job& job, Instant at);
    void close_without_session();
    void forget_process(std::uint32_t connection);
    static void refuse(const Connection& connection, const std::string& why, Mistake mistake = Mistake::kNone);
    bool answer(Connection& connection, const wire::Command& command);
    bool tell_end(Connection& connection);
    bool stream_trace(Connection& connection, const wire::CopyTrace& wanted);
    void drop_ended_jobs();

    // ---- placing.cpp ----
    struct WhyNot {
        std::string line;
        Mistake mistake = Mistake::kNone;
    };
    std::vector<DeviceNames> names_of_devices() const;
    std::string all_names() const;
    std::optional<WhyNot> read_wishes(const wire::Wishes& said, Wishes& wishes) const;
    bool counts_as_interactive(const Job& job) const;
    /// What is on the devices.
    struct Occupation {
        std::vector<DeviceFacts> devices;
        std::set<std::uint32_t> interactive;  ///< jobs with a client that proved to be
    };
    Occupation occupation() const;
    void count_job(Occupation& now, const Job& job, int by) const;
    std::vector<DeviceFacts> facts_for(const Job& newcomer, Occupation now) const;
    std::optional<DeviceChoice> choose_for(const Job& job, const Occupation& now) const;
    SharedDevice* device_for(Job& job);
    SharedDevice& first_open() const;
    SharedDevice* device_for(Job& job, const Session& session, const wire::Attach& attach);
    std::vector<std::size_t> devices_named_by(const wire::Attach& attach) const;
    bool names_unshared(const wire::Attach& attach) const;
    void put_on(Job& job, const DeviceChoice& choice);
    void correct(Job& job, const DeviceChoice& where);
    std::string why_nowhere(const Job& job, const wire::Attach& attach = {}) const;
    bool announce_to(SharedDevice& device, const Job& job, bool runs, bool waited);
    void name_device(const Job& job, wire::Text<64>& gpu, wire::Text<128>& mps);
    void decide_mps(Job& job);
    void place_waiting_anew();
    void move_waiting(Job& job, const DeviceChoice& choice);
    bool waits_to_start(const Job& job) const;
    void look_whether_devices_are_there();
    void look_for_lost_devices();
    void close_device(SharedDevice& device);

    // ---- what the next service takes over ----
    std::uint32_t kept_number_of(const shell::ProcessId& process, unsigned uid);
    void take_over(Job& job, const shell::ProcessId& process);
    Kept what_is_kept() const;
    void keep();
    void keep_at_the_end();
    void hear_hang_up();
    Result<std::string> reload();

    // ---- commands.cpp ----
    bool may_see(unsigned uid, std::uint32_t id);
    Job* to_be_told_of(const Session& session);
    bool is_to_be_told_of_start(const Job& job) const;
    Instant next_long_wait();
    Instant long_wait_due();
    void tell_long_waits();
    void tell_wait(const Job& job, JobState state, const Wait& wait);
    struct Reply {
        bool ok = true;
        std::string text = "{}";  ///< JSON, or one line that says why not
    };
    static bool send_reply(const Connection& connection, const Reply& reply);
    Reply command(Connection& connection, const wire::Command& command);
    Reply obey(Connection& connection, const wire::WaitJob& wanted);
    Reply end_of(std::uint32_t job) const;
    static Reply reply_about(const Job& job);
    Reply obey(const os::Peer& peer, const wire::AskStatus&);
    Reply obey(const os::Peer& peer, const wire::SetPolicy& wanted);
    Reply obey(const os::Peer& peer, const wire::FlushTrace& wanted);
    Reply obey(const os::Peer& peer, const wire::ReloadService&);
    Reply obey(const os::Peer& peer, const wire::StopService& wanted);
    std::string set_policy(const Policy& policy);
    std::string offer_mps_everywhere();
    Reply obey(Job& job, const wire::PauseJob&);
    Reply obey(Job& job, const wire::ResumeJob&);
    Reply obey(Job& job, const wire::SuspendJob&);
    Reply obey(Job& job, const wire::PageIdleJob&);
    Reply reply_about_memory(const Job& job, std::size_t clients) const;
    void settle(Job& job, const shell::UserSettings& said);
    Reply change(Job& job, const shell::UserSettings& said);
    Reply obey(Job& job, const wire::KillJob& wanted);
    Reply obey(const os::Peer& peer, Job& job, const wire::SetJob& message);
    Reply obey(const os::Peer& peer, const wire::AskHistory&);
    Reply obey(const os::Peer& peer, const wire::ClearHistory& wanted);
    Reply obey(const os::Peer& peer, const wire::AskUsage& wanted);
    static bool owned_by(const os::Peer& peer);
    Reply for_clients_of(const Job& job, const std::function<void(const ClientOn&)>& act);
    /// For the rows of processes that use the device and are no clients, the device must be asked.
    enum class Unseen { kShown, kLeftOut };
    Status status_for(unsigned viewer, Unseen unseen = Unseen::kShown) const;
    ServiceStatus service_status(Instant at) const;
    static DeviceStatus device_status(const SharedDevice& device, Instant at);

    // ---- metrics.cpp ----
    void serve_metrics();
    std::string metrics_for(unsigned viewer);
    std::vector<JobTotals> totals_of_jobs();
    const std::string& user_name(UserId user);
    void map_jobs();

    Options options_;
    os::Descriptor lock_;        ///< on the socket
    os::Descriptor state_lock_;  ///< on the state directory
    RunHistory history_;
    os::Descriptor epoll_;
    os::Descriptor listener_;
    os::Descriptor stops_;     ///< signals that end the service
    os::Descriptor hang_ups_;  ///< SIGHUP: it reads its configuration again
    std::map<ConnectionId, Connection> connections_;
    Jobs jobs_;
    std::map<unsigned, std::vector<unsigned>> groups_of_;  ///< groups of users, as they were when asked for
    std::unordered_map<ConnectionId, Attached> attached_;
    std::vector<std::unique_ptr<SharedDevice>> devices_;  ///< by DeviceId; at least one
    std::uint32_t next_connection_ = 1;
    Instant started_;
    Instant long_wait_at_ = kNever;     ///< when to tell a runner that its job waits, as of the last look
    Instant place_anew_at_ = kNever;    ///< when to look whether waiting jobs have room elsewhere
    Instant look_for_waits_at_{};       ///< when to look again at the earliest: not at each hand-over
    Instant accept_again_at_ = kNever;  ///< set if there was no descriptor for a connection
    bool told_of_no_descriptors_ = false;
    bool stopping_ = false;
    bool told_to_stop_ = false;   ///< by `salus stop`, not by a signal
    bool hang_up_stops_ = false;  ///< SIGHUP, because somebody started the service in a terminal
    std::function<Result<Options>()> read_options_;
    std::vector<KeptJob> unclaimed_;  ///< jobs of the last service that have not come back
    std::string kept_;                ///< as last written
    bool keep_again_ = true;          ///< it may have changed
    os::SocketFile socket_file_;      ///< that we made at options_.socket
    bool is_users_own_ = false;       ///< it listens where its user's clients look, wherever that is by now
    Instant look_at_socket_at_;
    bool told_of_no_socket_ = false;
    MetricsServer metrics_;
    Instant serve_metrics_again_at_ = kNever;   ///< set if it was not possible
    std::map<UserId, std::string> user_names_;  ///< as shown in the metrics
    JobMapping job_mapping_;
    std::string told_of_no_mapping_;  ///< why
};

}  // namespace salus::service
