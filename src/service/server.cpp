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
#include <initializer_list>

#include "base/text.h"
#include "history/untold.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/places.h"
#include "os/poll.h"
#include "os/process.h"
#include "os/trust.h"
#include "os/user.h"
#include "service/job_status.h"
#include "service/log.h"
#include "service/startup.h"

namespace salus::service {
namespace {

/// How long a new connection waits if there is no descriptor for it.
constexpr Duration kAcceptPause = milliseconds(500);
/// How often the service looks whether its socket is still there. Nobody else tells it.
constexpr Duration kLookAtSocket = seconds(1);
/// How long after its start the service waits for the runners of the last one's jobs.
constexpr Duration kReturnPatience = seconds(5);
/// A flood of messages from one peer must not keep the service from the others.
constexpr int kMessagesAtOnce = 16;

constexpr const char* kUnseen =
    "the service runs in another PID namespace and cannot see this process; a service outside of the containers can";

sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    return set;
}

/// Null if the client could shrink the page under our mapping.
std::shared_ptr<ControlPage> map_page(const os::Descriptor& file) {
    if (!os::has_lasting_size(file.get(), kControlPageSize)) return nullptr;
    void* at = ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return nullptr;
    return {static_cast<ControlPage*>(at), [](ControlPage* page) { ::munmap(page, kControlPageSize); }};
}

std::uint64_t tag(std::uint32_t what, std::uint32_t id) { return std::uint64_t{what} << 32 | id; }

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const Options& options) {
    return open(options, [&] { return open_devices(options.device); });
}

Result<std::unique_ptr<Server>> Server::open(const Options& options, const std::function<Result<Devices>()>& open_devices) {
    const std::string directory = std::filesystem::path(options.socket).parent_path().string();
    const Result<bool> made = os::make_private_directory(directory);
    if (!made) return Error{made.error()};
    const Result<bool> made_state = os::make_private_directory(options.state);
    if (!made_state) return Error{made_state.error()};
    if (const auto why = why_distrusted_in(options.state)) return Error{*why};
    Result<os::Descriptor> state_lock = lock_state(options);
    if (!state_lock) return Error{state_lock.error()};
    const Result<bool> named = name_socket_in(state_lock.value().get(), options.socket);
    if (!named) return Error{named.error()};
    Result<os::Descriptor> lock = lock_socket(options.socket);
    if (!lock) return Error{lock.error()};
    Result<Devices> devices = open_devices();
    if (!devices) return Error{devices.error()};
    for (const auto& device : devices.value()) {
        if (const std::string why = why_too_much(options.capacity, device->total(), device->traits()); !why.empty())
            return Error{why};
    }
    const Result<bool> made_directories = make_directories(options, devices.value().size());
    if (!made_directories) return Error{made_directories.error()};
    std::unique_ptr<Server> server(new Server(options, std::move(devices).value()));
    server->lock_ = std::move(lock).value();
    server->state_lock_ = std::move(state_lock).value();
    server->is_users_own_ = options.socket == os::user_socket();
    server->record_untold_of_owner();
    for (const auto& device : server->devices_) {
        server->offer_mps(*device, {});
        device->find_mps_of_earlier_service();
    }
    const sigset_t stops = server->hang_up_stops_ ? set_of({SIGTERM, SIGINT, SIGHUP}) : set_of({SIGTERM, SIGINT});
    const sigset_t hang_up = set_of({SIGHUP});
    server->stops_ = os::Descriptor(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
    server->hang_ups_ = os::Descriptor(::signalfd(-1, &hang_up, SFD_CLOEXEC | SFD_NONBLOCK));
    const bool all = server->watch(server->stops_.get(), Watch::kStop, 0, EPOLLIN) &&
                     server->watch(server->metrics_.descriptor(), Watch::kMetrics, 0, EPOLLIN) &&
                     (server->hang_up_stops_ || server->watch(server->hang_ups_.get(), Watch::kHangUp, 0, EPOLLIN));
    if (!all) return Error{std::string("epoll: ") + std::strerror(errno)};
    const Result<bool> listening = server->listen(options.socket, made.value());
    if (!listening) return Error{listening.error()};
    server->serve_metrics();
    return server;
}

Server::Server(const Options& options, Devices devices)
    : options_(options),
      history_(options.state),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      jobs_(options.state + "/next-job", options.hides_others),
      started_(os::now()),
      hang_up_stops_(static_cast<bool>(os::open_file("/dev/tty", os::Open::kRead))),
      unclaimed_(read_kept(options.state).jobs),
      metrics_([this](unsigned viewer) { return metrics_for(viewer); }),
      job_mapping_(options.job_mapping) {
    for (auto& memory : devices) {
        const DeviceId id{static_cast<std::uint32_t>(devices_.size())};
        const std::string name = devices.size() > 1 ? memory->identity() : "";
        devices_.push_back(
            std::make_unique<SharedDevice>(id, options, std::move(memory), static_cast<ServerLink&>(*this), name));
        Shell& shell = devices_.back()->shell();
        shell.on_departure([this, &shell](const Session& session) {
            keep_again_ = true;
            record_pairs_of(shell, session);
            Job* job = jobs_.find(session.job);
            if (!job) return;
            job->gone = whole_of(job->gone, shell.figures_of(session));
            job->used_by_gone += shell.use_of(session);
            job->totals_of_gone += job_totals(shell, session, os::now());
        });
    }
}

Server::~Server() {
    for (const auto& device : devices_) {
        if (jobs_.on_mps_of(device->id()) > 0) device->leave_mps();
    }
    if (listener_ && os::socket_file_at(options_.socket) == socket_file_) ::unlink(options_.socket.c_str());
}

/// REQUIRES: the lock of that socket is held.
Result<bool> Server::listen(const std::string& path, bool made_directory) {
    // The directory stays closed to other users unless they are wanted. adopt() checks the credentials of each peer.
    if (made_directory && options_.all_users) ::chmod(std::filesystem::path(path).parent_path().c_str(), 0755);
    Result<os::Descriptor> socket = os::listen_at(path, options_.all_users ? 0666 : 0600);
    if (!socket) return Error{socket.error()};
    if (!watch(socket.value().get(), Watch::kListener, 0, EPOLLIN))
        return Error{std::string("epoll: ") + std::strerror(errno)};
    socket_file_ = os::socket_file_at(path);
    options_.socket = path;
    listener_ = std::move(socket).value();
    look_at_socket_at_ = os::now() + kLookAtSocket;
    return true;
}

/// The end of a user's last session removes the runtime directory, with the socket. New clients then look elsewhere, and in
/// the runtime directory again after the next login.
void Server::look_at_socket() {
    look_at_socket_at_ = os::now() + kLookAtSocket;
    const std::string wanted = is_users_own_ ? os::user_socket() : options_.socket;
    if (wanted == options_.socket && os::socket_file_at(wanted) == socket_file_) return;
    const Result<bool> moved = move_to(wanted);
    if (moved) log(LogLevel::kInfo, "listening at {} now", wanted);
    else if (!told_of_no_socket_) log(LogLevel::kWarning, "cannot listen at {}: {}", wanted, moved.error());
    told_of_no_socket_ = !moved;
}

Result<bool> Server::move_to(const std::string& socket) {
    const std::filesystem::path directory = std::filesystem::path(socket).parent_path();
    std::error_code error;
    if (!std::filesystem::exists(directory.parent_path(), error)) return Error{directory.string() + " is gone"};
    const Result<bool> made = os::make_private_directory(directory.string());
    if (!made) return made;
    if (socket == options_.socket) lock_.reset();  // perhaps of the same file
    Result<os::Descriptor> lock = lock_socket(socket, Duration{});
    if (!lock) return Error{lock.error()};
    accept_all();  // who has connected to the old one
    const std::string before = options_.socket;
    const os::SocketFile file_before = socket_file_;
    const Result<bool> listening = listen(socket, made.value());
    if (!listening) return listening;
    lock_ = std::move(lock).value();
    const Result<bool> named = name_socket_in(state_lock_.get(), socket);
    if (before != socket && os::socket_file_at(before) == file_before) ::unlink(before.c_str());
    return named;
}

std::string Server::offer_mps(SharedDevice& device, MpsPatience patience) {
    const bool measures = device.engine().options().overlap;
    const std::optional<bool> helps = measures ? std::optional(history_.mps_helps(::getuid())) : std::nullopt;
    return device.offer_mps(patience, jobs_.on(device.id()) - jobs_.on_mps_of(device.id()), helps);
}

bool Server::watch(int fd, Watch what, std::uint32_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag(static_cast<std::uint32_t>(what), id);
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Server::Attached::~Attached() {
    if (epoll >= 0 && notify) ::epoll_ctl(epoll, EPOLL_CTL_DEL, notify.get(), nullptr);
}

// ----------------------------------------------------------------------------------------------- what its devices need

ServerLink::Sent Server::send(ConnectionId to, const wire::Message& message, std::span<const int> descriptors) {
    const auto connection = connections_.find(to);
    if (connection == connections_.end() || !connection->second.socket) return Sent::kGone;
    wire::Message named = message;
    if (auto* start = std::get_if<wire::Start>(&named))
        name_device(jobs_.at(connection->second.job), start->gpu, start->mps);
    if (wire::send(connection->second.socket.get(), named, descriptors)) return Sent::kYes;
    return errno == EAGAIN ? Sent::kFull : Sent::kGone;
}

void Server::hang_up(ConnectionId connection) {
    if (const auto found = connections_.find(connection); found != connections_.end()) found->second.socket.reset();
}

bool Server::watch_mps(DeviceId device, int pidfd) {
    return watch(pidfd, Watch::kMps, static_cast<std::uint32_t>(device), EPOLLIN);
}

// ----------------------------------------------------------------------------------------------------------- clients

Server::ClientOn Server::find(const ClientHandle& handle) {
    if (handle.client == kNoClient) return {};
    Session* session = at(handle.device).shell().find(handle.client);
    return session ? ClientOn{&at(handle.device), session} : ClientOn{};
}

/// The client that attached over a connection, if it still exists. Its id alone would not tell: ids of clients are reused.
Server::ClientOn Server::client_of(const Connection& connection) {
    return connection.client.client == kNoClient ? ClientOn{} : client_with(connection.id);
}

/// The client that attached over this connection, which may be closed by now. Numbers of connections are not reused.
Server::ClientOn Server::client_with(ConnectionId connection) {
    const auto known = attached_.find(connection);
    if (known == attached_.end()) return {};
    const ClientOn client = find(known->second.client);
    if (client && client.session->connection == connection) return client;
    attached_.erase(known);
    return {};
}

std::vector<Server::ClientOn> Server::clients() const {
    std::vector<ClientOn> all;
    for (const auto& device : devices_) {
        for (const auto& [id, session] : device->shell().sessions()) all.push_back({device.get(), session.get()});
    }
    return all;
}

Server::ClientOn Server::client_in_process(int pid) {
    for (const ClientOn& client : clients()) {
        if (client.session->process.pid == pid) return client;
    }
    return {};
}

std::vector<Server::ClientOn> Server::clients_of(std::uint32_t job) const {
    std::vector<ClientOn> all = clients();
    std::erase_if(all, [&](const ClientOn& client) { return client.session->job != job; });
    return all;
}

// --------------------------------------------------------------------------------------------------------- the loop

void Server::block_signals() {
    const sigset_t signals = set_of({SIGTERM, SIGINT, SIGHUP});
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

void Server::run() {
    while (!stopping_) step(kNever);
    tell_held_back();
    for (const ClientOn& client : clients()) record_pairs_of(client.shell(), *client.session);
    keep_at_the_end();
    Bytes held_by_orphans;
    for (const auto& device : devices_) {
        held_by_orphans += device->shell().held_by_orphans();
        device->shell().quiet();
        device->journal().trace().flush();
    }
    if (held_by_orphans == Bytes{}) jobs_.service_ends();
}

void Server::step(Instant limit) {
    std::array<epoll_event, 64> events;
    std::size_t count = os::events_within(epoll_.get(), events, Duration{});
    if (count == 0) {
        keep();
        Instant until = std::min({limit, long_wait_due(), accept_again_at_, held_back_due(), look_at_socket_at_,
                                  metrics_.due(), serve_metrics_again_at_, place_anew_at_});
        for (const auto& device : devices_) {
            device->shell().quiet();
            device->journal().quiet(os::now());
            until = std::min({until, device->shell().next_tick(), device->journal().due()});
            // A job alone tells nothing for hours, and yet the device is seen to be busy in the last second.
            if (!device->shell().sessions().empty()) until = std::min(until, os::now() + shell::InsideWatch::kWindow);
        }
        const Duration left = until == kNever ? Duration{} : std::max(until - os::now(), Duration{});
        count = os::events_within(epoll_.get(), events, until == kNever ? os::kForEver : left);
    }
    const std::span<const epoll_event> happened(events.data(), count);
    for (const auto& device : devices_) {
        if (device->journal().is_full()) device->journal().quiet(os::now());
    }
    // Notifications first: somebody waits for hand-overs.
    for (const epoll_event& event : happened) {
        if (event.data.u64 >> 32 != static_cast<std::uint32_t>(Watch::kNotify)) continue;
        const ClientOn client = client_with(static_cast<std::uint32_t>(event.data.u64));
        if (!client) continue;
        // Discard signals before looking at the word: a later signal then means a later change.
        os::discard_signals(attached_.at(client.session->connection).notify.get());
        client.shell().notified(*client.session);
    }
    bool metrics_wait = false;
    for (const epoll_event& event : happened) {
        const auto id = static_cast<std::uint32_t>(event.data.u64);
        switch (static_cast<Watch>(event.data.u64 >> 32)) {
            case Watch::kNotify: break;
            case Watch::kListener: accept_all(); break;
            case Watch::kStop: stopping_ = true; break;
            case Watch::kHangUp: hear_hang_up(); break;
            case Watch::kProcess: forget_process(id); break;
            case Watch::kMps: at(DeviceId{id}).mps_is_gone(); break;
            case Watch::kMetrics: metrics_wait = true; break;  // after all others
            case Watch::kRunner: close(id); break;
            case Watch::kTrace:
                if (const auto found = connections_.find(id); found != connections_.end() && found->second.trace) {
                    if (!found->second.trace->go_on()) found->second.trace.reset();
                }
                break;
            case Watch::kConnection:
                if (const auto found = connections_.find(id); found != connections_.end()) read_from(found->second);
                break;
        }
    }
    for (const auto& device : devices_) {
        const std::size_t sessions = device->shell().sessions().size();
        device->shell().tick();
        if (device->shell().sessions().size() < sessions) close_without_session();
    }
    look_for_lost_devices();
    const Instant at = os::now();
    if (place_anew_at_ <= at) place_waiting_anew();
    if (long_wait_at_ <= at) {
        tell_long_waits();
        look_for_waits_at_ = at;
    }
    if (held_back_due() <= at) tell_held_back();
    if (accept_again_at_ <= at) watch_listener(true);
    if (look_at_socket_at_ <= at) look_at_socket();
    if (metrics_wait || metrics_.due() <= at) metrics_.go_on(at);
    if (serve_metrics_again_at_ <= at) serve_metrics();
}

// ------------------------------------------------------------------------------------------------------- connections

void Server::accept_all() {
    for (int i = 0; i < 64; ++i) {
        os::Descriptor socket = os::accept_from(listener_.get());
        if (!socket) return accept_failed(errno);
        adopt(std::move(socket));
    }
}

/// A connection that cannot be accepted stays ready, so to keep watching the listener would be to spin.
void Server::accept_failed(int why) {
    const bool none_left = why == EAGAIN;
    if (none_left && std::exchange(told_of_no_descriptors_, false)) {
        log_of_peer(LogLevel::kInfo, "accepted all waiting connections");
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
    connection.peer_started = os::start_time_of(peer->pid).value_or(0);
    connection.socket = std::move(socket);
    if (peer->uid != ::getuid() && peer->uid != 0 && !options_.all_users) {
        log_of_peer(LogLevel::kWarning, "pid {} of user {} is turned away", peer->pid, peer->uid);
        return refuse(connection, fmt::format("this service belongs to another user (uid {}); this process has uid {}",
                                              ::getuid(), peer->uid));
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

void Server::refuse(const Connection& connection, const std::string& why, Mistake mistake) {
    wire::send(connection.socket.get(), wire::Sorry{wire::Text<256>(why), static_cast<std::uint32_t>(mistake)});
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
    const auto* attach = std::get_if<wire::Attach>(&received.message);
    const Job* const own = connection.runner ? jobs_.find(connection.job) : nullptr;  // that has joined by itself
    if (const auto* ended = std::get_if<wire::Ended>(&received.message); ended && own)
        return end_job(connection, *ended), true;
    if (const ClientOn client = client_of(connection)) return client.shell().message(*client.session, received.message);
    if (own && attach) return this->attach(connection, received, *attach);
    if (connection.job != 0) {  // its runner
        if (std::holds_alternative<wire::Interrupted>(received.message)) return hurry(connection.job);
        if (const auto* unshared = std::get_if<wire::Unshared>(&received.message))
            return note_unshared(connection.peer, *unshared), true;
        if (const auto* ended = std::get_if<wire::Ended>(&received.message)) end_job(connection, *ended);
        return false;
    }
    const auto* run = std::get_if<wire::Run>(&received.message);
    if ((attach || run) && connection.peer.pid == 0) {
        log_of_peer(LogLevel::kWarning, "a process of user {} is turned away: {}", connection.peer.uid, kUnseen);
        refuse(connection, kUnseen);
        return false;
    }
    if (const auto* wishes = std::get_if<wire::Wishes>(&received.message)) return connection.wishes = *wishes, true;
    if (attach) return this->attach(connection, received, *attach);
    if (run) return run_job(connection, *run);
    if (const auto* copy = std::get_if<wire::CopyTrace>(&received.message)) return stream_trace(connection, *copy);
    if (const auto command = wire::command_in(received.message)) return answer(connection, *command);
    if (const auto* unshared = std::get_if<wire::Unshared>(&received.message))
        return note_unshared(connection.peer, *unshared), false;
    if (const auto* end = std::get_if<wire::UntoldEnd>(&received.message))
        return record_untold(connection.peer.uid, *end), true;
    log_of_peer(LogLevel::kWarning, "pid {} is dropped: an unexpected message", connection.peer.pid);
    refuse(connection, "an unexpected message");
    return false;
}

bool Server::answer(Connection& connection, const wire::Command& command) {
    const Reply reply = this->command(connection, command);
    keep();  // before anybody hears that it is done
    return send_reply(connection, reply) && tell_end(connection);
}

/// The trace of a device, piece by piece, whenever the reader can take more.
bool Server::stream_trace(Connection& connection, const wire::CopyTrace& wanted) {
    auto ends = os::make_socket_pair();
    if (connection.trace || !ends || wanted.device >= devices_.size())
        return send_reply(connection, {false, "the trace cannot be sent now"});
    TraceFile& trace = devices_[wanted.device]->journal().trace();
    trace.flush();
    const unsigned uid = connection.peer.uid;
    connection.trace = std::make_unique<TraceStream>(trace.pieces(), TraceView(uid, options_.hides_others && uid != 0),
                                                     std::move(ends->first), wanted.last_bytes);
    const int descriptors[] = {ends->second.get()};
    return watch(connection.trace->socket(), Watch::kTrace, connection.id, EPOLLOUT) &&
           wire::send(connection.socket.get(), wire::Answer{1, 0}, descriptors);
}

/// If it waits for the end of a job that has ended. False: it is gone.
bool Server::tell_end(Connection& connection) {
    if (connection.awaits_end_of == 0 || jobs_.find(connection.awaits_end_of)) return true;
    return send_reply(connection, end_of(std::exchange(connection.awaits_end_of, 0)));
}

bool Server::send_reply(const Connection& connection, const Reply& reply) {
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
    if (const ClientOn before = client_in_process(session->process.pid)) {
        if (!before.session->disconnected) {
            refuse(connection, "this process is already attached");
            return false;
        }
        before.shell().died(*before.session);  // a process that attaches again has left its lane
    }
    const auto turn_away = [&](const std::string& why, Mistake mistake = Mistake::kNone) {
        log_of_peer(LogLevel::kWarning, "pid {} is turned away: {}", connection.peer.pid, why);
        refuse(connection, why, mistake);
        drop_ended_jobs();
        return false;
    };
    session->page = map_page(received.descriptors[0]);
    if (!session->page || !descriptors.notify) return turn_away("the control page is missing");
    if (!watch(descriptors.notify.get(), Watch::kNotify, connection.id, EPOLLIN | EPOLLET)) {
        return turn_away("cannot watch the descriptor through which it notifies");
    }
    descriptors.epoll = epoll_.get();
    if (!watch(descriptors.pidfd.get(), Watch::kProcess, connection.id, EPOLLIN)) return false;
    const UserLimits limits = limits_of(session->uid);
    if (limits.jobs > 0 && !counts_already(*session, attach.job)) {
        const bool may_be_announced = attach.job != 0 && os::now() - started_ < kReturnPatience;
        if (may_be_announced) return false;  // without an answer: it tries again
        if (const std::string why = why_no_new_job(session->uid); !why.empty()) return turn_away(why);
    }
    wire::Attach checked = attach;
    checked.weight = std::min(checked.weight, limits.weight.value_or(checked.weight));
    checked.priority = std::min(checked.priority, limits.priority.value_or(checked.priority));
    look_whether_devices_are_there();
    const std::uint32_t number = attach.job != 0 ? attach.job : kept_number_of(session->process, session->uid);
    Job& job = jobs_.add(number, attach.name.view(), connection.peer.uid, os::now());
    checked.job = job.id;
    take_over(job, session->process);
    session->past = job.past;
    session->said = job.said;
    SharedDevice* const chosen = device_for(job, *session, attach);
    if (!chosen) return turn_away(why_nowhere(job, attach), Mistake::kFinal);
    SharedDevice& device = *chosen;
    session->id = device.shell().lowest_free_id();
    tell_limits(device, session->uid);
    Result<Session*> attached = device.shell().attach(std::move(session), checked);
    if (!attached) return turn_away(attached.error());
    connection.client = {device.id(), attached.value()->id};
    descriptors.client = connection.client;
    attached_[connection.id] = std::move(descriptors);
    job.took_part = true;
    keep_again_ = true;
    job.why_unshared.clear();
    recall_pairs_of(client_of(connection));
    return true;
}

/// The engine hears what is known of the client's command beside those of the others of its user.
void Server::recall_pairs_of(const ClientOn& client) {
    if (!client || !client.shell().engine().measures_overlap()) return;
    const Session& session = *client.session;
    const Job* job = jobs_.find(session.job);
    if (!job) return;
    const std::vector<history::CommandPair> pairs = history_.pairs_with(job->uid, job->keys);
    if (pairs.empty()) return;
    std::vector<std::pair<const Session*, double>> known;  // first: feeding may change the sessions
    for (const auto& [id, other] : client.shell().sessions()) {
        const Job* its = jobs_.find(other->job);
        if (!its || its->uid != job->uid || other->job == session.job) continue;
        const bool mps = job->joins_mps && its->joins_mps;
        const auto matches = [&](bool exactly) {
            return std::ranges::find_if(pairs, [&](const history::CommandPair& pair) {
                if (pair.mps != mps) return false;
                return exactly ? pair.second.command == its->keys.command : pair.second.program == its->keys.program;
            });
        };
        auto found = matches(true);
        if (found == pairs.end()) found = matches(false);
        if (found != pairs.end()) known.emplace_back(other.get(), found->rate);
    }
    for (const auto& [other, rate] : known) client.shell().recall(session, *other, rate);
}

/// A client leaves: what was measured of it beside others is for their next runs.
void Server::record_pairs_of(const Shell& shell, const Session& session) {
    for (const Overlap::Pair& pair : shell.engine().overlap().pairs_of(session.id)) {
        const auto other = shell.sessions().find(pair.a == session.id ? pair.b : pair.a);
        const Job* a = jobs_.find(session.job);
        const Job* b = other == shell.sessions().end() ? nullptr : jobs_.find(other->second->job);
        if (!a || !b || a == b) continue;
        history_.record(history::CommandPair{.uid = a->uid,
                                             .first = a->keys,
                                             .second = b->keys,
                                             .first_command = a->command,
                                             .second_command = b->command,
                                             .rate = pair.rate.mean,
                                             .error = pair.rate.error,
                                             .mps = a->joins_mps && b->joins_mps});
    }
}

UserLimits Server::limits_of(unsigned uid) {
    const ConfiguredLimits& configured = options_.user_limits;
    if (uid == 0 || configured.groups.empty()) return configured.of(uid, {});
    auto known = groups_of_.find(uid);
    if (known == groups_of_.end()) {
        auto groups = os::groups_of_user(uid);
        if (!groups) return configured.of(uid, {});
        known = groups_of_.emplace(uid, std::move(*groups)).first;
    }
    return configured.of(uid, known->second);
}

/// Before a job of the user takes anything of the device.
void Server::tell_limits(SharedDevice& device, unsigned uid) {
    const UserLimits limits = limits_of(uid);
    device.shell().limit_user(UserId{uid}, {limits.jobs, limits.memory});
}

// Note [Jobs that count]
// A job that its runner has announced counts once against user-jobs-max, with all its processes. Any process can name any
// number, so one whose job nobody has announced, or that must not start yet, counts as a job of its own. After a restart,
// processes come back before their runners: the roster shows those that were clients; others try again until the runners had
// time to announce their jobs.

/// Whether the process belongs to a job of its user that counts already, or did under the last service.
bool Server::counts_already(const Session& session, std::uint32_t number) {
    const auto knows = [&](const auto& device) { return device->shell().is_orphan(session.process); };
    if (std::ranges::any_of(devices_, knows)) return true;
    const Job* job = jobs_.find(number);
    if (!job || job->uid != session.uid || !job->announced) return false;
    return !job->device || !at(*job->device).engine().starts().waits(JobId{number});
}

/// A process that no job counts for cannot wait to start: it is there. Empty: it may attach.
std::string Server::why_no_new_job(unsigned uid) {
    std::size_t has = 0;
    for (const auto& [id, job] : jobs_) {
        if (job.uid == uid) has += job.announced ? 1 : clients_of(id).size();
    }
    const unsigned most = limits_of(uid).jobs;
    if (has < most) return "";
    return fmt::format("user {} has {} jobs, and --user-jobs-max allows no more", uid, has);
}

bool Server::run_job(Connection& connection, const wire::Run& run) {
    // One that already runs keeps its place; its clients get what the limits allow.
    const std::string why_not = limits_of(connection.peer.uid).why_not(run.weight, run.priority);
    if (run.runs == 0 && run.joins == 0 && !why_not.empty()) {
        wire::send(connection.socket.get(), wire::Sorry{wire::Text<256>(why_not), 1});
        return false;
    }
    look_whether_devices_are_there();
    Wishes wishes;
    if (const auto why = read_wishes(connection.wishes, wishes)) return refuse(connection, why->line, why->mistake), false;
    Job& job = jobs_.add(run.job, run.name.view(), connection.peer.uid, os::now());
    job.wishes = wishes;
    if (run.joins != 0 && !watch_runner(connection)) return false;
    job.joined = run.joins != 0;
    job.came_back = run.runs != 0 && (job.came_back || !job.announced);
    job.name = std::string(run.name.view());
    job.log = std::string(run.log.view());
    job.runner_pid = connection.peer.pid;
    job.runner = {connection.peer.pid, os::start_time_of(connection.peer.pid).value_or(0)};
    take_over(job, job.runner);
    keep_again_ = true;
    job.runner_connection = connection.id;
    job.announced = true;
    job.keys = {run.command_key, run.program_key};
    job.command = std::string(run.command.view());
    job.past = history_.recall(job.uid, job.keys);
    connection.job = job.id;
    // After a restart of the service, clients may attach before their `salus run` does.
    for (const ClientOn& client : clients_of(job.id)) {
        client.shell().expect(*client.session, job.past);
        recall_pairs_of(client);
    }
    log(LogLevel::kInfo, "job {} ({}) is run by pid {}", job.id, job.name, job.runner_pid);
    SharedDevice* const device = device_for(job);
    if (!device) {
        refuse(connection, why_nowhere(job), Mistake::kFinal);
        return false;
    }
    decide_mps(job);
    wire::Running running;
    running.job = job.id;
    running.device = wire::Text<16>(device->traits().name);
    name_device(job, running.gpu, running.mps);
    running.has_several = job.wishes.has_several ? 1 : 0;
    job.took_part = true;
    running.waits = announce_to(*device, job, run.runs != 0, run.waited != 0) ? 0 : 1;
    if (running.waits != 0 && devices_.size() > 1) place_anew_at_ = std::min(place_anew_at_, os::now() + kPlaceAnewEvery);
    return wire::send(connection.socket.get(), running);
}

/// Of a process that is the job itself. False: it has ended, and its pid may be another process's by now.
bool Server::watch_runner(Connection& connection) {
    const int pid = connection.peer.pid;
    connection.runner = os::open_pidfd(pid);
    const bool is_peer = os::start_time_of(pid).value_or(0) == connection.peer_started &&
                         os::user_of(pid).value_or(connection.peer.uid) == connection.peer.uid;
    return connection.runner && is_peer && watch(connection.runner.get(), Watch::kRunner, connection.id, EPOLLIN);
}

/// Null: the job's runner is gone, or not the job itself.
const Server::Connection* Server::connection_of_runner(const Job& job) const {
    const auto found = connections_.find(job.runner_connection);
    return found != connections_.end() && found->second.runner ? &found->second : nullptr;
}

/// Its clients are told; see Note [Signals while a launch waits]. One that is suspended needs its memory to handle a signal.
bool Server::hurry(std::uint32_t job) {
    if (Job* known = jobs_.find(job); known && known->said.suspended) {
        shell::UserSettings said = known->said;
        said.suspended = false;
        settle(*known, said);
    }
    for (const ClientOn& client : clients_of(job)) send(client.session->connection, wire::Hurry{}, {});
    return true;
}

/// For `salus ps`. The job's next client proves that it is over.
void Server::note_unshared(const os::Peer& peer, const wire::Unshared& unshared) {
    Job* job = jobs_.find(unshared.job);
    if (!job || (job->uid != peer.uid && peer.uid != 0)) return;
    job->why_unshared = std::string(unshared.why.view());
    log_of_peer(LogLevel::kInfo, "job {} ({}) runs without sharing: {}", job->id, job->name, job->why_unshared);
}

/// The job may still have clients: we may not know yet that their process has ended, or they are children of the command.
void Server::end_job(const Connection& connection, const wire::Ended& ended) {
    Job* known = jobs_.find(connection.job);
    if (!known || known->runner_connection != connection.id) return;
    const Duration took{static_cast<std::int64_t>(ended.took_ns)};
    if (!known->took) record_end(*known, ended.status, took);
}

/// `status`: nothing if nobody has seen it.
void Server::record_end(Job& job, std::optional<int> status, Duration took) {
    RunFigures figures = job.gone;
    RunUse use = job.used_by_gone;
    for (const ClientOn& client : clients_of(job.id)) {
        figures = whole_of(figures, client.shell().figures_of(*client.session));
        use += client.shell().use_of(*client.session);
    }
    job.exit_status = status;
    job.took = took;
    const int written = status.value_or(history::kStatusUnknown);
    history_.record({job.uid, job.keys, job.command, figures, took, 0, written, use});
    log(LogLevel::kInfo, "job {} ({}) ended with {} after {} iterations", job.id, job.name,
        status ? fmt::format("status {}", *status) : "a status that nobody saw", figures.iterations);
}

/// The runner is gone. One that was the job itself may not have told its end: it was killed, or has left. A job that was
/// refused has not run.
void Server::lose_runner(const Connection& connection) {
    Job* const job = jobs_.find(connection.job);
    if (!job || job->runner_connection != connection.id || job->runner_pid == 0) return;
    job->runner_pid = 0;
    if (job->joined && job->took_part && !job->took && !job->came_back)
        record_end(*job, std::nullopt, os::now() - job->started);
}

void Server::record_untold(unsigned uid, const wire::UntoldEnd& end) {
    const Duration took{static_cast<std::int64_t>(end.took_ns)};
    const std::string command(end.command.view());
    history_.record_untold({uid, {end.command_key, end.program_key}, command, {}, took, end.ended_unix_s, end.status});
    log_of_peer(LogLevel::kInfo, "a job of user {} ended with status {} while no service ran: {}", uid, end.status, command);
}

/// What this user's `salus run` left while no service ran here. Other users' tell it when they next come.
void Server::record_untold_of_owner() {
    const auto is_for_us = [&](const std::string& service) {
        return service == options_.socket || (is_users_own_ && service == history::kUsersOwn);
    };
    for (history::UntoldRun& untold : history::take_untold(options_.state, is_for_us)) {
        untold.run.uid = ::getuid();
        log(LogLevel::kInfo, "a job ended with status {} while no service ran: {}", untold.run.status, untold.run.command);
        history_.record_untold(untold.run);
    }
}

void Server::close(std::uint32_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (const ClientOn client = client_of(found->second)) client.shell().disconnected(*client.session);
    lose_runner(found->second);
    connections_.erase(found);
    if (accept_again_at_ != kNever) accept_again_at_ = os::now();  // a descriptor is free now
    drop_ended_jobs();
}

/// Removes the connections of clients whose sessions the shell has ended.
void Server::close_without_session() {
    std::erase_if(connections_, [&](const auto& entry) {
        if (entry.second.client.client == kNoClient || client_of(entry.second)) return false;
        lose_runner(entry.second);
        return true;
    });
    std::erase_if(attached_, [&](const auto& entry) { return !find(entry.second.client); });
    drop_ended_jobs();
}

void Server::forget_process(std::uint32_t connection) {
    const ClientOn client = client_with(connection);
    if (!client) return;
    client.shell().died(*client.session);
    close_without_session();
}

void Server::drop_ended_jobs() {
    const auto has_clients = [&](const Job& job) { return !clients_of(job.id).empty(); };
    const std::vector<std::uint32_t> all_ended =
        jobs_.drop_ended(has_clients, os::now(), static_cast<std::int64_t>(os::unix_time_s()));
    for (const std::uint32_t ended : all_ended) {
        for (const auto& device : devices_) device->shell().withdraw(JobId{ended});
    }
    if (all_ended.empty()) return;
    keep_again_ = true;
    if (place_anew_at_ != kNever) place_anew_at_ = os::now();
    for (auto& [id, connection] : connections_) tell_end(connection);
}

}  // namespace salus::service
