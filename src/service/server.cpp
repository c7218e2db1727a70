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
#include "os/lock.h"
#include "os/process.h"
#include "os/timespec.h"
#include "os/trust.h"
#include "service/log.h"

namespace salus::service {
namespace {

/// Without a descriptor for the next connection, how long it is left to wait.
constexpr Duration kAcceptPause = milliseconds(500);
/// A flood of messages from one must not keep it from the others.
constexpr int kMessagesAtOnce = 16;
/// What a process on a GPU takes before it is known, and how long it may take to attach.
constexpr Bytes kContextGuess = mebibytes(600);
constexpr Bytes kWeightsGuess = mebibytes(128);
constexpr Bytes kToLearn = gibibytes(1);
constexpr std::uint64_t kKnownAfter = 3;  ///< iterations
constexpr Duration kStartPatience = seconds(60);
/// A service that was killed may hold its lock for a moment after its connections have closed; one that is alive listens, or
/// will when its device has started.
constexpr Duration kLockPatience = seconds(10);

/// What an earlier service wrote is read back: roster, history, trace.
std::optional<std::string> why_distrusted_in(const std::string& directory) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        if (!entry.is_regular_file(error)) continue;
        if (auto why = os::why_distrusted(entry.path().string())) return why;
    }
    return std::nullopt;
}

Result<os::Descriptor> lock_socket(const std::string& socket) {
    Result<os::Descriptor> lock = os::open_lock(socket + ".lock");
    const auto listens = [&] { return os::connect_to(socket).ok(); };
    if (lock && !os::take_lock(lock.value().get(), kLockPatience, listens))
        return Error{"another service runs at " + socket};
    return lock;
}

/// Trace, roster and history have one writer. The lock holds the path of its socket.
Result<os::Descriptor> lock_state(const Options& options) {
    Result<os::Descriptor> lock = os::open_lock(options.state + "/lock");
    if (!lock) return lock;
    const int file = lock.value().get();
    const auto socket_of_holder = [file] {
        std::array<char, os::kSocketPathMax> path{};
        const ssize_t size = ::pread(file, path.data(), path.size(), 0);
        return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    };
    const auto listens = [&] {
        const std::string socket = socket_of_holder();
        return !socket.empty() && os::connect_to(socket);
    };
    if (!os::take_lock(file, kLockPatience, listens)) {
        return Error{options.state + " is in use by another service, at " + socket_of_holder() +
                     "; --state or SALUS_STATE names another directory"};
    }
    std::error_code error;
    const std::string socket = std::filesystem::absolute(options.socket, error).string();
    if (::ftruncate(file, 0) != 0 || !os::write_all_at(file, std::as_bytes(std::span(socket)), 0))
        return Error{options.state + "/lock: " + std::strerror(errno)};
    return lock;
}

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
    server->start_mps();
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
    const shell::Settings settings = settings_from(options, *this);
    journal_ = std::make_unique<StateJournal>(options, settings.engine);
    shell_ = std::make_unique<Shell>(settings, shell::Ports{clock_, *this, *this, processes_, *journal_});
    shell_->on_departure([this](const Session& session) {
        const auto job = jobs_.find(session.job);
        if (job != jobs_.end()) job->second.gone = whole_of(job->second.gone, shell_->figures_of(session));
    });
}

Server::~Server() {
    const bool on_mps = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second.joins_mps; });
    if (mps_ && on_mps) mps_->leave();
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
        !watch(signals_.get(), Watch::kSignals, 0, EPOLLIN) || (mps_ && !watch(mps_->pidfd(), Watch::kMps, 0, EPOLLIN))) {
        return Error{std::string("epoll: ") + std::strerror(errno)};
    }
    return true;
}

void Server::start_mps() {
    const Policy& policy = shell_->engine().policy();
    const bool opens_lanes = !policy.info.exclusive && policy.opens_lane(/*share_in_use=*/0.5, /*newcomer_share=*/1);
    const bool is_gpu = memory_->name() == "cuda";
    const std::string directory = options_.state + "/mps";
    const std::string gpu = memory_->identity();
    offers_mps_ = wants_mps(options_.mps, options_.lanes, opens_lanes ? 2 : 1, is_gpu);
    if (!offers_mps_) {
        mps_ = is_gpu ? Mps::find(directory, gpu) : nullptr;
        if (mps_) log(LogLevel::kInfo, "an earlier service has left MPS: new jobs run without it");
        return;
    }
    Result<std::unique_ptr<Mps>> started = Mps::start(directory, gpu);
    if (!started) return log(LogLevel::kWarning, "no MPS: {}; lanes take turns on the GPU", started.error());
    mps_ = std::move(started).value();
    log(LogLevel::kInfo, "MPS runs in {}", mps_->directory());
}

/// Jobs that use it lose the device, and those that come now are better off without.
void Server::mps_is_gone() {
    log(LogLevel::kError, "MPS is gone: {}; jobs from here on take turns on the GPU without it", mps_->why_gone());
    mps_.reset();
}

bool Server::may_join_mps() const {
    if (!mps_ || !offers_mps_) return false;
    const auto joined = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second.joins_mps; });
    return joined < Mps::kClientsMax;
}

/// Before a process on a GPU has asked for anything it has a context, which grows as kernels are loaded, and its weights.
Bytes Server::needs_to_start(const Job& job) const {
    Bytes context = kContextGuess;
    for (const auto& [id, session] : shell_->sessions()) context = std::max(context, session->overhead);
    return context + (job.past.persistent > Bytes{} ? job.past.persistent : kWeightsGuess);
}

/// Whether the job's process would find room; in the order in which they came. The first one is never kept waiting.
bool Server::may_start(Job& job) {
    if (job.may_start || memory_->name() != "cuda") return true;
    Bytes taken;
    bool alone = shell_->sessions().empty();
    shell_->look_at_usage();
    const Engine& engine = shell_->engine();
    for (const auto& [id, other] : jobs_) {
        if (id < job.id && !other.may_start && other.runner_pid != 0) return false;
        if (!other.may_start) continue;
        const std::vector<Session*> sessions = sessions_of(id);
        const bool starting = sessions.empty() && os::now() - other.may_start_since < kStartPatience;
        const bool is_new = !sessions.empty() && sessions[0]->page->iterations < kKnownAfter;
        const Client* client = is_new ? engine.find(sessions[0]->id) : nullptr;
        if (starting || client) taken += std::max(needs_to_start(other) - (client ? client->reserved() : Bytes{}), Bytes{});
        alone = alone && !starting;
    }
    // Its first iterations have all their memory to themselves, and lanes can be lent for that.
    const Bytes lanes = engine.lanes().total_charge();
    const Bytes to_learn = std::max(kToLearn - lanes, Bytes{});
    if (!alone && engine.reserved() + taken + to_learn + needs_to_start(job) > engine.capacity()) return false;
    job.may_start = true;
    job.may_start_since = os::now();
    return true;
}

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
    if (const auto* command = std::get_if<wire::Command>(&received.message)) {
        const Reply reply = this->command(connection.peer, command->line.view());
        const os::Descriptor file = os::make_memory_file("salus-answer");
        const auto size = static_cast<std::uint64_t>(reply.text.size());
        if (!file) refuse(connection, fmt::format("the service has no file for its answer: {}", std::strerror(errno)));
        if (!file || !os::write_all(file.get(), reply.text)) return false;
        const int descriptors[] = {file.get()};
        return wire::send(connection.socket.get(), wire::Answer{reply.ok ? 1u : 0u, size}, descriptors);
    }
    log_of_peer(LogLevel::kWarning, "pid {} is dropped: a message out of place", connection.peer.pid);
    refuse(connection, "a message out of place");
    return false;
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
        drop_empty_jobs();
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
    const Job& job = add_job(attach.job, attach.name.view(), connection.peer.uid);
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
    Job& job = add_job(run.job, run.name.view(), connection.peer.uid);
    job.name = std::string(run.name.view());
    job.log = std::string(run.log.view());
    job.runner_pid = connection.peer.pid;
    job.runner_connection = connection.id;
    job.keys = {run.command_key, run.program_key};
    job.command = std::string(run.command.view());
    job.past = history_.recall(job.uid, job.keys);
    job.may_start = job.may_start || run.runs != 0;
    connection.job = job.id;
    // After a restart of the service its clients may have been faster than `salus run`.
    for (Session* session : sessions_of(job.id)) shell_->expect(*session, job.past);
    log(LogLevel::kInfo, "job {} ({}) is run by pid {}", job.id, job.name, job.runner_pid);
    wire::Running running;
    running.job = job.id;
    running.device = wire::Text<16>(memory_->name());
    running.gpu = wire::Text<64>(memory_->identity());
    job.joins_mps = job.joins_mps || may_join_mps();
    if (mps_ && offers_mps_ && !job.joins_mps) {
        log(LogLevel::kWarning, "job {} ({}) runs without MPS: it takes {} jobs at most", job.id, job.name,
            Mps::kClientsMax);
    }
    if (mps_ && job.joins_mps) running.mps = wire::Text<128>(mps_->directory());
    return wire::send(connection.socket.get(), running);
}

/// Clients of it may still be here: that their process has ended is not known yet, or they are its children's.
void Server::end_job(const Connection& connection, const wire::Ended& ended) {
    const auto found = jobs_.find(connection.job);
    if (found == jobs_.end() || found->second.runner_pid != connection.peer.pid) return;
    const Job& job = found->second;
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
    const auto job = jobs_.find(found->second.job);
    if (job != jobs_.end() && job->second.runner_pid == found->second.peer.pid) job->second.runner_pid = 0;
    connections_.erase(found);
    if (accept_again_at_ != kNever) accept_again_at_ = os::now();  // there is a descriptor
    drop_empty_jobs();
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
    drop_empty_jobs();
}

void Server::forget_process(std::uint32_t connection) {
    Session* session = session_with(connection);
    if (!session) return;
    shell_->died(*session);
    close_without_session();
}

// -------------------------------------------------------------------------------------------------------------- jobs

Job& Server::add_job(std::uint32_t wanted, std::string_view name, unsigned uid) {
    const auto known = jobs_.find(wanted);
    if (wanted != 0 && known != jobs_.end() && known->second.uid == uid) return known->second;
    // A number from the last service is kept, if nobody has it and it is not beyond reason.
    const bool keep = wanted != 0 && known == jobs_.end() && wanted < 1'000'000;
    const std::uint32_t id = keep ? wanted : next_job_;
    next_job_ = std::max(next_job_, id + 1);
    Job& job = jobs_[id];
    job = Job{};
    job.id = id;
    job.name = std::string(name);
    job.uid = uid;
    job.started = os::now();
    return job;
}

void Server::drop_empty_jobs() {
    std::erase_if(jobs_, [&](const auto& entry) {
        const Job& job = entry.second;
        return job.runner_pid == 0 && std::none_of(shell_->sessions().begin(), shell_->sessions().end(),
                                                   [&](const auto& s) { return s.second->job == job.id; });
    });
}

}  // namespace salus::service
