#include "service/server.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "device/cuda/cuda_lane_memory.h"
#include "device/host/host_lane_memory.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/timespec.h"
#include "os/trust.h"
#include "service/log.h"
#include "service/startup.h"

namespace salus::service {
namespace {

/// Without a descriptor for the next connection, how long it is left to wait.
constexpr Duration kAcceptPause = milliseconds(500);
/// A flood of messages from one must not keep it from the others.
constexpr int kMessagesAtOnce = 16;

/// The GPU, if there is one whose memory can be shared, else the host; or what was asked for.
Result<std::unique_ptr<device::LaneMemory>> open_device(const std::string& wanted) {
    if (wanted == "host") return device::make_host_lane_memory();
    const Result<device::cuda::Gpu> gpu = device::cuda::open_gpu();
    if (gpu) {
        log(LogLevel::kInfo, "{}, {}", gpu.value().name, gpu.value().uuid);
        return device::make_cuda_lane_memory(gpu.value());
    }
    if (wanted == "cuda") return Error{gpu.error()};
    log(LogLevel::kInfo, "{}: jobs share the host's memory", gpu.error());
    return device::make_host_lane_memory();
}

sigset_t stop_signals() {
    sigset_t stops;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTERM);
    ::sigaddset(&stops, SIGINT);
    return stops;
}

/// Nothing if it could vanish under our feet.
std::shared_ptr<ControlPage> map_page(const os::Descriptor& file) {
    if (!os::has_lasting_size(file.get(), kControlPageSize)) return nullptr;
    void* at = ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return nullptr;
    return {static_cast<ControlPage*>(at), [](ControlPage* page) { ::munmap(page, kControlPageSize); }};
}

std::uint64_t tag(std::uint32_t what, std::uint32_t id) { return std::uint64_t{what} << 32 | id; }

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const Options& options) {
    const std::string directory = std::filesystem::path(options.socket).parent_path().string();
    const Result<bool> made = os::make_private_directory(directory);
    if (!made) return Error{made.error()};
    const Result<bool> made_state = os::make_private_directory(options.state);
    if (!made_state) return Error{made_state.error()};
    if (const auto why = why_distrusted_in(options.state)) return Error{*why};
    Result<os::Descriptor> lock = lock_socket(options.socket);
    if (!lock) return Error{lock.error()};
    Result<os::Descriptor> state_lock = lock_state(options);
    if (!state_lock) return Error{state_lock.error()};
    Result<std::unique_ptr<device::LaneMemory>> memory = open_device(options.device);
    if (!memory) return Error{memory.error()};
    std::unique_ptr<Server> server(new Server(options, std::move(memory).value()));
    server->lock_ = std::move(lock).value();
    server->state_lock_ = std::move(state_lock).value();
    server->made_directory_ = made.value();
    server->offer_mps({});
    server->find_mps_of_earlier_service();
    const Result<bool> listening = server->listen();
    if (!listening) return Error{listening.error()};
    return server;
}

Server::Server(const Options& options, std::unique_ptr<device::LaneMemory> memory)
    : options_(options),
      history_(options.state),
      memory_(std::move(memory)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      started_(os::now()) {
    const shell::Settings settings = settings_from(options, *memory_);
    journal_ = std::make_unique<StateJournal>(options, settings.engine);
    shell_ = std::make_unique<Shell>(settings, shell::Ports{clock_, *this, *this, processes_, *journal_});
    shell_->on_departure([this](const Session& session) {
        if (Job* job = jobs_.find(session.job)) job->gone = whole_of(job->gone, shell_->figures_of(session));
    });
}

Server::~Server() {
    if (mps_ && jobs_.on_mps() > 0) mps_->leave();
    if (listener_) ::unlink(options_.socket.c_str());
}

Result<bool> Server::listen() {
    // Whoever may connect is then judged by credentials. The directory is closed to others unless they are wanted.
    const std::string directory = std::filesystem::path(options_.socket).parent_path().string();
    if (made_directory_ && options_.all_users) ::chmod(directory.c_str(), 0755);
    Result<os::Descriptor> socket = os::listen_at(options_.socket, options_.all_users ? 0666 : 0600);
    if (!socket) return Error{socket.error()};

    const sigset_t stops = stop_signals();
    signals_ = os::Descriptor(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
    listener_ = std::move(socket).value();
    if (!epoll_ || !watch(listener_.get(), Watch::kListener, 0, EPOLLIN) ||
        !watch(signals_.get(), Watch::kSignals, 0, EPOLLIN)) {
        return Error{std::string("epoll: ") + std::strerror(errno)};
    }
    return true;
}

/// As the policy and --mps want it. What whoever chose the policy should know, in a line; empty: nothing.
std::string Server::offer_mps(MpsPatience patience) {
    const Policy& policy = shell_->engine().policy();
    const bool opens_lanes = !policy.info.exclusive && policy.opens_lane(/*share_in_use=*/0.5, /*newcomer_share=*/1);
    const bool is_gpu = memory_->traits().has_contexts;
    const auto wants = [&](MpsMode mode) { return wants_mps(mode, options_.lanes, opens_lanes ? 2 : 1, is_gpu); };
    const bool offered = std::exchange(offers_mps_, wants(options_.mps)) && mps_;
    if (!offers_mps_ && wants(MpsMode::kAuto))
        return "the service was started with --mps off: lanes take turns on the GPU until it is started without";
    if (!offers_mps_ || offered) return "";
    if (!mps_) {
        Result<std::unique_ptr<Mps>> started = Mps::start(mps_directory(), memory_->identity(), patience);
        if (!started) {
            const std::string why = fmt::format("no MPS: {}; lanes take turns on the GPU", started.error());
            log(LogLevel::kWarning, "{}", why);
            return why;
        }
        take_mps(std::move(started).value());
        log(LogLevel::kInfo, "MPS runs in {}", mps_->directory());
    }
    const std::size_t without = jobs_.size() - jobs_.on_mps();
    if (without == 0) return "";
    return fmt::format("MPS runs from now on; jobs started before ({}) take turns on the GPU until they are restarted",
                       without);
}

void Server::find_mps_of_earlier_service() {
    if (offers_mps_ || !memory_->traits().has_contexts) return;
    take_mps(Mps::find(mps_directory(), memory_->identity()));
    if (mps_) log(LogLevel::kInfo, "an earlier service has left MPS: new jobs run without it");
}

void Server::take_mps(std::unique_ptr<Mps> mps) {
    mps_ = std::move(mps);
    if (mps_ && !watch(mps_->pidfd(), Watch::kMps, 0, EPOLLIN))
        log(LogLevel::kWarning, "epoll: {}; nobody will notice if MPS ends", std::strerror(errno));
}

/// Jobs that use it lose the device, and those that come now are better off without.
void Server::mps_is_gone() {
    log(LogLevel::kError, "MPS is gone: {}; jobs from here on take turns on the GPU without it", mps_->why_gone());
    mps_.reset();
}

bool Server::may_join_mps() const { return mps_ && offers_mps_ && jobs_.on_mps() < Mps::kClientsMax; }

bool Server::watch(int fd, Watch what, std::uint32_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag(static_cast<std::uint32_t>(what), id);
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// -------------------------------------------------------------------------------------------------- the shell's ports

Server::Attached::~Attached() {
    if (epoll >= 0 && notify) ::epoll_ctl(epoll, EPOLL_CTL_DEL, notify.get(), nullptr);
}

shell::Connections::Sent Server::send(ConnectionId to, const wire::Message& message, std::span<const int> descriptors) {
    const auto connection = connections_.find(to);
    if (connection == connections_.end() || !connection->second.socket) return Sent::kGone;
    if (wire::send(connection->second.socket.get(), message, descriptors)) return Sent::kYes;
    return errno == EAGAIN ? Sent::kFull : Sent::kGone;
}

shell::Connections::Sent Server::send(ConnectionId to, const wire::Message& message) { return send(to, message, {}); }

Result<shell::Connections::Sent> Server::send_pieces(ConnectionId to, LaneId lane, std::size_t first, std::size_t end) {
    const Result<std::vector<os::Descriptor>> pieces = memory_->pass_on(lane, first, end);
    if (!pieces) return Error{pieces.error()};
    std::vector<int> descriptors;
    for (const os::Descriptor& piece : pieces.value()) descriptors.push_back(piece.get());
    return send(to, wire::LanePieces{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(first)}, descriptors);
}

void Server::hang_up(ConnectionId connection) {
    if (const auto found = connections_.find(connection); found != connections_.end()) found->second.socket.reset();
}

void Server::wake(ControlPage& page) { os::wake_all(page.word); }

std::optional<shell::DeviceMemory::Usage> Server::usage(const std::vector<int>& clients) const {
    const auto usage = memory_->usage(clients);
    if (!usage) return std::nullopt;
    return Usage{usage->others, usage->clients};
}

// --------------------------------------------------------------------------------------------------------- the loop

void Server::block_signals() {
    const sigset_t stops = stop_signals();
    ::sigprocmask(SIG_BLOCK, &stops, nullptr);
}

void Server::run() {
    while (!stopping_) step(kNever);
    tell_held_back();
    shell_->quiet();
    journal_->trace().flush();
}

void Server::step(Instant limit) {
    std::array<epoll_event, 64> events;
    int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count == 0) {
        shell_->quiet();
        journal_->quiet(os::now());
        long_wait_at_ = next_long_wait();
        const Instant until =
            std::min({limit, shell_->next_tick(), journal_->due(), long_wait_at_, accept_again_at_, held_back_due()});
        const Duration left = until == kNever ? Duration{} : std::max(until - os::now(), Duration{});
        const timespec patience = os::timespec_of(left);
        count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               until == kNever ? nullptr : &patience, nullptr);
    }
    const std::span<const epoll_event> happened(events.data(), static_cast<std::size_t>(std::max(count, 0)));
    if (journal_->is_full()) journal_->quiet(os::now());
    // Hand-overs first: somebody waits for them.
    for (const epoll_event& event : happened) {
        if (event.data.u64 >> 32 != static_cast<std::uint32_t>(Watch::kNotify)) continue;
        Session* session = session_with(static_cast<std::uint32_t>(event.data.u64));
        if (!session) continue;
        // Before the look at the word: a signal that comes later tells of something later.
        os::discard_signals(attached_.at(session->connection).notify.get());
        shell_->notified(*session);
    }
    for (const epoll_event& event : happened) {
        const auto id = static_cast<std::uint32_t>(event.data.u64);
        switch (static_cast<Watch>(event.data.u64 >> 32)) {
            case Watch::kNotify: break;
            case Watch::kListener: accept_all(); break;
            case Watch::kSignals: stopping_ = true; break;
            case Watch::kProcess: forget_process(id); break;
            case Watch::kMps: mps_is_gone(); break;
            case Watch::kConnection:
                if (const auto found = connections_.find(id); found != connections_.end()) read_from(found->second);
                break;
        }
    }
    const std::size_t sessions = shell_->sessions().size();
    shell_->tick();
    if (shell_->sessions().size() < sessions) close_without_session();
    const Instant at = os::now();
    if (long_wait_at_ <= at) tell_long_waits();
    if (held_back_due() <= at) tell_held_back();
    if (accept_again_at_ <= at) watch_listener(true);
}

// ------------------------------------------------------------------------------------------------------- connections

void Server::accept_all() {
    for (int i = 0; i < 64; ++i) {
        os::Descriptor socket = os::accept_from(listener_.get());
        if (!socket) return accept_failed(errno);
        adopt(std::move(socket));
    }
}

/// A connection that cannot be accepted stays ready: to watch on would be to spin.
void Server::accept_failed(int why) {
    const bool none_left = why == EAGAIN;
    if (none_left && std::exchange(told_of_no_descriptors_, false)) {
        log_of_peer(LogLevel::kInfo, "all connections that waited are accepted");
    }
    if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM) return;
    watch_listener(false);
    if (std::exchange(told_of_no_descriptors_, true)) return;
    log_of_peer(LogLevel::kWarning, "no new connections: {}; {} are open, and others wait until some are closed",
                std::strerror(why), connections_.size());
}

void Server::watch_listener(bool watched) {
    epoll_event event{};
    if (watched) event.events = EPOLLIN;
    event.data.u64 = tag(static_cast<std::uint32_t>(Watch::kListener), 0);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
    accept_again_at_ = watched ? kNever : os::now() + kAcceptPause;
}

void Server::adopt(os::Descriptor socket) {
    const auto peer = os::peer_of(socket.get());
    if (!peer) return;
    Connection connection;
    connection.id = next_connection_++;
    connection.peer = *peer;
    connection.socket = std::move(socket);
    if (peer->uid != ::getuid() && peer->uid != 0 && !options_.all_users) {
        log_of_peer(LogLevel::kWarning, "pid {} of user {} is turned away", peer->pid, peer->uid);
        return refuse(connection, "this service belongs to another user");
    }
    const auto same_user = std::count_if(connections_.begin(), connections_.end(),
                                         [&](const auto& other) { return other.second.peer.uid == peer->uid; });
    const bool too_many = same_user >= static_cast<std::ptrdiff_t>(options_.connections_per_user);
    if (too_many || connections_.size() >= kConnectionsMax) {
        const std::string why =
            too_many
                ? fmt::format("user {} has {} connections, and --connections-per-user allows no more", peer->uid, same_user)
                : fmt::format("the service has {} connections and takes no more", kConnectionsMax);
        log_of_peer(LogLevel::kWarning, "pid {} is turned away: {}", peer->pid, why);
        return refuse(connection, why);
    }
    if (!watch(connection.socket.get(), Watch::kConnection, connection.id, EPOLLIN)) return;
    connections_.emplace(connection.id, std::move(connection));
}

void Server::refuse(const Connection& connection, const std::string& why) {
    wire::send(connection.socket.get(), wire::Sorry{wire::Text<256>(why)});
}

void Server::read_from(Connection& connection) {
    const std::uint32_t id = connection.id;
    for (int i = 0; i < kMessagesAtOnce; ++i) {
        const int socket = connection.socket.get();
        if (socket < 0) return close(id);
        wire::Received received = wire::receive(socket);
        if (received.kind == wire::Received::Kind::kNothingNow) return;
        if (received.kind == wire::Received::Kind::kClosed) return close(id);
        if (received.kind == wire::Received::Kind::kGarbage) {
            log_of_peer(LogLevel::kWarning, "pid {} is dropped: {}", connection.peer.pid, received.why);
            wire::send(socket, wire::Sorry{wire::Text<256>(received.why)});
            return close(id);
        }
        if (!handle(connection, received)) return close(id);
    }
}

bool Server::handle(Connection& connection, wire::Received& received) {
    if (Session* session = session_of(connection)) return shell_->message(*session, received.message);
    if (connection.job != 0) {  // a runner has one thing more to say
        if (const auto* ended = std::get_if<wire::Ended>(&received.message)) end_job(connection, *ended);
        return false;
    }
    if (const auto* attach = std::get_if<wire::Attach>(&received.message))
        return this->attach(connection, received, *attach);
    if (const auto* run = std::get_if<wire::Run>(&received.message)) return run_job(connection, *run);
    if (const auto command = wire::command_in(received.message)) return answer(connection, *command);
    log_of_peer(LogLevel::kWarning, "pid {} is dropped: a message out of place", connection.peer.pid);
    refuse(connection, "a message out of place");
    return false;
}

bool Server::answer(const Connection& connection, const wire::Command& command) {
    const Reply reply = this->command(connection.peer, command);
    const os::Descriptor file = os::make_memory_file("salus-answer");
    if (!file) refuse(connection, fmt::format("the service has no file for its answer: {}", std::strerror(errno)));
    if (!file || !os::write_all(file.get(), reply.text)) return false;
    const int descriptors[] = {file.get()};
    const wire::Answer answer{reply.ok ? 1u : 0u, static_cast<std::uint64_t>(reply.text.size())};
    return wire::send(connection.socket.get(), answer, descriptors);
}

bool Server::attach(Connection& connection, wire::Received& received, const wire::Attach& attach) {
    auto session = std::make_unique<Session>();
    session->process = {connection.peer.pid, os::start_time_of(connection.peer.pid).value_or(0)};
    session->uid = connection.peer.uid;
    session->connection = connection.id;
    Attached descriptors;
    descriptors.pidfd = os::open_pidfd(connection.peer.pid);
    descriptors.notify = std::move(received.descriptors[1]);
    if (!descriptors.pidfd) return false;  // gone already
    Session* before = nullptr;
    for (const auto& [id, other] : shell_->sessions()) {
        if (other->process.pid != session->process.pid) continue;
        if (!other->disconnected) {
            refuse(connection, "this process is attached already");
            return false;
        }
        before = other.get();
    }
    if (before) shell_->died(*before);  // who comes again has left its lane
    const auto turn_away = [&](const std::string& why) {
        log_of_peer(LogLevel::kWarning, "pid {} is turned away: {}", connection.peer.pid, why);
        refuse(connection, why);
        drop_ended_jobs();
        return false;
    };
    session->page = map_page(received.descriptors[0]);
    if (!session->page || !descriptors.notify) return turn_away("no control page came along");
    if (!watch(descriptors.notify.get(), Watch::kNotify, connection.id, EPOLLIN | EPOLLET)) {
        return turn_away("the descriptor it notifies through cannot be watched");
    }
    descriptors.epoll = epoll_.get();
    if (!watch(descriptors.pidfd.get(), Watch::kProcess, connection.id, EPOLLIN)) return false;
    wire::Attach checked = attach;
    const Job& job = jobs_.add(attach.job, attach.name.view(), connection.peer.uid, os::now());
    checked.job = job.id;
    session->past = job.past;
    session->id = shell_->lowest_free_id();
    Result<Session*> attached = shell_->attach(std::move(session), checked);
    if (!attached) return turn_away(attached.error());
    connection.client = attached.value()->id;
    descriptors.client = connection.client;
    attached_[connection.id] = std::move(descriptors);
    return true;
}

bool Server::run_job(Connection& connection, const wire::Run& run) {
    Job& job = jobs_.add(run.job, run.name.view(), connection.peer.uid, os::now());
    job.name = std::string(run.name.view());
    job.log = std::string(run.log.view());
    job.runner_pid = connection.peer.pid;
    job.runner_connection = connection.id;
    job.keys = {run.command_key, run.program_key};
    job.command = std::string(run.command.view());
    job.past = history_.recall(job.uid, job.keys);
    connection.job = job.id;
    // After a restart of the service its clients may have been faster than `salus run`.
    for (Session* session : sessions_of(job.id)) shell_->expect(*session, job.past);
    log(LogLevel::kInfo, "job {} ({}) is run by pid {}", job.id, job.name, job.runner_pid);
    wire::Running running;
    running.job = job.id;
    running.device = wire::Text<16>(memory_->traits().name);
    running.gpu = wire::Text<64>(memory_->identity());
    job.joins_mps = job.joins_mps || may_join_mps();
    if (mps_ && offers_mps_ && !job.joins_mps) {
        log(LogLevel::kWarning, "job {} ({}) runs without MPS: it takes {} jobs at most", job.id, job.name,
            Mps::kClientsMax);
    }
    if (mps_ && job.joins_mps) running.mps = wire::Text<128>(mps_->directory());
    const bool starts =
        shell_->announce({JobId{job.id}, connection.id, job.past.persistent, run.runs != 0, run.waited != 0});
    running.waits = starts ? 0 : 1;
    return wire::send(connection.socket.get(), running);
}

/// Clients of it may still be here: that their process has ended is not known yet, or they are its children's.
void Server::end_job(const Connection& connection, const wire::Ended& ended) {
    const Job* known = jobs_.find(connection.job);
    if (!known || known->runner_pid != connection.peer.pid) return;
    const Job& job = *known;
    RunFigures figures = job.gone;
    for (const Session* session : sessions_of(job.id)) figures = whole_of(figures, shell_->figures_of(*session));
    const Duration took{static_cast<std::int64_t>(ended.took_ns)};
    history_.record({job.uid, job.keys, job.command, figures, took, 0, ended.status});
    log(LogLevel::kInfo, "job {} ({}) ended with status {} after {} iterations", job.id, job.name, ended.status,
        figures.iterations);
}

void Server::close(std::uint32_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (Session* session = session_of(found->second)) shell_->disconnected(*session);
    Job* job = jobs_.find(found->second.job);
    if (job && job->runner_pid == found->second.peer.pid) job->runner_pid = 0;
    connections_.erase(found);
    if (accept_again_at_ != kNever) accept_again_at_ = os::now();  // there is a descriptor
    drop_ended_jobs();
}

/// The session of a connection that attached, while there is one. Ids of clients are used again.
Session* Server::session_of(const Connection& connection) {
    return connection.client == kNoClient ? nullptr : session_with(connection.id);
}

/// The session that attached over this connection, which may be closed by now. Numbers of connections are not used again.
Session* Server::session_with(std::uint32_t connection) {
    const auto known = attached_.find(connection);
    Session* session = known == attached_.end() ? nullptr : shell_->find(known->second.client);
    if (session && session->connection == connection) return session;
    if (known != attached_.end()) attached_.erase(known);
    return nullptr;
}

/// Clients that the shell let go by itself leave an empty connection behind.
void Server::close_without_session() {
    std::erase_if(connections_, [&](const auto& entry) {
        return entry.second.client != kNoClient && session_of(entry.second) == nullptr;
    });
    std::erase_if(attached_, [&](const auto& entry) { return !shell_->find(entry.second.client); });
    drop_ended_jobs();
}

void Server::forget_process(std::uint32_t connection) {
    Session* session = session_with(connection);
    if (!session) return;
    shell_->died(*session);
    close_without_session();
}

void Server::drop_ended_jobs() {
    const auto has_clients = [&](const Job& job) { return !sessions_of(job.id).empty(); };
    for (const std::uint32_t ended : jobs_.drop_ended(has_clients)) shell_->withdraw(JobId{ended});
}

}  // namespace salus::service
