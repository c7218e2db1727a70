// The requests of the command line: a message in; JSON, or one line that says why not, out.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "history/records_json.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/socket.h"
#include "policies/table.h"
#include "service/hide_from.h"
#include "service/job_status.h"
#include "service/log.h"
#include "service/server.h"
#include "wire/assignments.h"
#include "wire/pass_on.h"

namespace salus::service {
namespace {

using nlohmann::json;

/// How long a job waits before its user is told why.
constexpr Duration kLongWait = seconds(2);

/// While the service waits for MPS, it hands over no lane. MPS starts within half a second, or hardly at all.
constexpr MpsPatience kMpsPatienceInService = {.start = seconds(2), .quit = seconds(1), .terminate = seconds(1)};

/// Replaces bytes that are not text: names come from other people.
std::string dump(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

TraceStatus status_of(const TraceFile& trace) {
    return {trace.current_path(), trace.previous_path(), trace.recording(), trace.written()};
}

}  // namespace

DeviceStatus Server::device_status(const SharedDevice& device, Instant at) {
    const Engine& engine = device.engine();
    DeviceStatus status;
    status.number = device.number();
    status.device = device.traits().name;
    status.gpu = device.identity();
    status.lost = device.why_closed();
    status.mps = device.mps_for_new_jobs();
    status.min_turn = engine.options().min_turn;
    status.page_bytes_per_s = engine.options().page_bytes_per_s;
    status.capacity = engine.capacity();
    status.reserved = engine.reserved();
    status.held_by_orphans = device.shell().held_by_orphans();
    status.used_by_others = device.shell().used_by_others();
    status.gates_closed_share = engine.gates().closed_lately(at).seconds() / Gates::kWindow.seconds();
    status.busy_share = device.busy_share(at);
    if (const auto pace = device.shell().pace()) status.pace = {pace->ratio, pace->extra};
    status.trace = status_of(device.journal().trace());
    status.statistics = engine.statistics();
    for (const Lane& lane : engine.lanes().all())
        status.lanes.push_back({lane.id, lane.size, lane.charge, lane.user, lane.holder});
    return status;
}

ServiceStatus Server::service_status(Instant at) const {
    ServiceStatus service;
    for (const auto& device : devices_) service.devices.push_back(device_status(*device, at));
    static_cast<DeviceStatus&>(service) = service.devices.front();
    const EngineOptions& options = devices_.front()->engine().options();
    service.pid = ::getpid();
    service.version = kSalusVersion;
    service.socket = options_.socket;
    service.state_directory = options_.state;
    service.uptime = at - started_;
    service.policy = devices_.front()->engine().policy().info.name;
    service.paging = options.paging && (devices_.front()->traits().is_host || options_.page_gpu);
    service.lanes_max = options.lanes_max;
    service.share_by_user = options.share_by_user;
    service.placement = options_.placement == Packing::kPack ? "pack" : "spread";
    if (metrics_.is_serving()) service.metrics = options_.metrics;
    return service;
}

Status Server::status_for(unsigned viewer, Unseen unseen) const {
    const Instant at = os::now();
    Status status;
    status.service = service_status(at);
    std::map<std::uint32_t, std::vector<ClientOn>> by_job;
    for (const ClientOn& client : clients()) by_job[client.session->job].push_back(client);
    for (const auto& [id, job] : jobs_) {
        const std::size_t before = status.jobs.size();
        for (const ClientOn& client : by_job[id]) {
            JobStatus row = job_status(client.shell(), *client.session, at);
            if (row.activity) add_limits(row.activity->wait, job);
            describe(row, job, at);
            stand_on(row, *client.device, job);
            status.jobs.push_back(row);
        }
        for (const int pid : unseen == Unseen::kShown ? unseen_of(job) : std::vector<int>{})
            status.jobs.push_back(row_of(job, JobState::kUnseen, pid, at));
        if (status.jobs.size() > before) continue;
        const std::optional<StartWait> waits = start_wait_of(job);
        const JobState otherwise = job.why_unshared.empty() ? JobState::kStarting : JobState::kUnshared;
        const JobState state = waits ? JobState::kWaiting : otherwise;
        const bool suspended = job.said.suspended && state != JobState::kUnshared;
        JobStatus row = row_of(job, suspended ? JobState::kSuspended : state, job.runner_pid, at);
        row.start_wait = waits;
        if (job.past != history::Figures{}) row.past = job.past;
        status.jobs.push_back(row);
    }
    for (const EndedJob& ended : jobs_.ended()) status.ended.push_back(row_of(ended));
    hide_from(viewer, status, options_.hides_others);
    return status;
}

JobStatus Server::row_of(const EndedJob& ended) const {
    JobStatus row = row_of(ended.job, JobState::kEnded, 0, ended.at);
    row.end = {ended.at_unix_s, ended.job.exit_status};
    if (ended.job.took) row.elapsed = *ended.job.took;
    return row;
}

/// Why a job must not start yet; nothing: it may.
std::optional<StartWait> Server::start_wait_of(const Job& job) const {
    if (!job.device) return std::nullopt;
    StartWait wait;
    wait.reason = devices_[index_of(*job.device)]->engine().why_waits_to_start(JobId{job.id});
    if (wait.reason == WaitReason::kNothing) return std::nullopt;
    if (wait.reason == WaitReason::kMemory) wait.behind = holder_of_most(*job.device);
    add_limits(wait, job);
    return wait;
}

/// The limit of its user that the job waits for.
void Server::add_limits(Wait& wait, const Job& job) const {
    if (!job.device) return;
    const Limits limits = devices_[index_of(*job.device)]->engine().limits_of(UserId{job.uid});
    if (wait.reason == WaitReason::kUserJobs) wait.user_jobs_max = limits.jobs;
    if (wait.reason == WaitReason::kUserMemory) wait.user_memory_max = limits.memory;
}

/// The job that the device's memory is waited for.
std::optional<Wait::Behind> Server::holder_of_most(DeviceId device) const {
    const Shell& shell = devices_[index_of(device)]->shell();
    const Client* most = nullptr;
    for (const Client* client : shell.engine().clients()) {
        if (client->reserved() > (most ? most->reserved() : Bytes{})) most = client;
    }
    const auto session = most ? shell.sessions().find(most->facts.id) : shell.sessions().end();
    if (session == shell.sessions().end()) return std::nullopt;
    return Wait::Behind{session->second->name, session->second->job};
}

/// Of a job that has no client, or of a process of it that is none.
JobStatus Server::row_of(const Job& job, JobState state, int pid, Instant at) const {
    JobStatus row;
    row.job = job.id;
    row.name = job.name;
    row.pid = pid;
    row.user = UserId{job.uid};
    row.attached = at - job.started;
    row.state = state;
    describe(row, job, at);
    if (job.device) stand_on(row, *devices_[index_of(*job.device)], job);
    return row;
}

/// Where it is, and why. A process of a job may use another device than the one that the job was placed on.
void Server::stand_on(JobStatus& row, const SharedDevice& device, const Job& job) {
    row.gpu_number = device.number();
    row.gpu = device.identity();
    row.placement = job.device == device.id() ? job.placement : PlacementReason::kFirst;
    if (device.is_closed() && row.state != JobState::kEnded) row.state = JobState::kLost;
}

/// What all rows of a job have.
void Server::describe(JobStatus& row, const Job& job, Instant at) {
    row.elapsed = at - job.started;
    row.command = job.command;
    row.log = job.log;
    row.why_unshared = job.why_unshared;
}

/// The processes of a job that use its device and have not attached.
std::vector<int> Server::unseen_of(const Job& job) const {
    if (!job.device || job.runner_pid == 0) return {};
    std::vector<int> unseen = devices_[index_of(*job.device)]->strangers();
    const auto is_of_job = [&](int pid) { return pid == job.runner_pid || os::child_above(pid, job.runner_pid).pid != 0; };
    std::erase_if(unseen, [&](int pid) { return !is_of_job(pid); });
    return unseen;
}

// --------------------------------------------------------------------------------------------------- what runners hear

/// The job of a waiting client, if its `salus run` was not told yet.
Job* Server::to_be_told_of(const Session& session) {
    Job* job = session.waiting_since == kNever ? nullptr : jobs_.find(session.job);
    return !job || job->runner_pid == 0 || job->told_of_wait ? nullptr : job;
}

/// Whether its `salus run` was not told yet why it must not start.
bool Server::is_to_be_told_of_start(const Job& job) const {
    return job.runner_pid != 0 && !job.told_of_start && job.device &&
           devices_[index_of(*job.device)]->engine().starts().waits(JobId{job.id});
}

Instant Server::long_wait_due() {
    constexpr Duration kLookEvery = milliseconds(100);
    const Instant at = os::now();
    if (at < look_for_waits_at_) return std::min(long_wait_at_, look_for_waits_at_);
    look_for_waits_at_ = at + kLookEvery;
    return long_wait_at_ = next_long_wait();
}

Instant Server::next_long_wait() {
    Instant next = kNever;
    for (const auto& [id, job] : jobs_) {
        if (is_to_be_told_of_start(job)) next = std::min(next, job.started + kLongWait);
    }
    for (const auto& device : devices_) {
        for (const auto& [id, session] : device->shell().sessions()) {
            if (to_be_told_of(*session)) next = std::min(next, session->waiting_since + kLongWait);
        }
    }
    return next;
}

/// The service tells `salus run`, which does not poll: its cost to the service must not grow with the number of jobs.
void Server::tell_long_waits() {
    const Instant at = os::now();
    for (const ClientOn& client : clients()) {
        Job* job = to_be_told_of(*client.session);
        if (!job || at - client.session->waiting_since < kLongWait) continue;
        job->told_of_wait = true;
        const JobStatus row = job_status(client.shell(), *client.session, at);
        Wait wait = row.activity ? row.activity->wait : Wait{};
        add_limits(wait, *job);
        tell_wait(*job, row.state, wait);
    }
    for (auto& [id, job] : jobs_) {
        if (!is_to_be_told_of_start(job) || at - job.started < kLongWait) continue;
        job.told_of_start = true;
        const JobState state = job.said.suspended ? JobState::kSuspended : JobState::kWaiting;
        if (const auto wait = start_wait_of(job)) tell_wait(job, state, *wait);
    }
}

void Server::tell_wait(const Job& job, JobState state, const Wait& wait) {
    const auto runner = connections_.find(job.runner_connection);
    if (runner == connections_.end() || runner->second.client.client != kNoClient) return;  // a client is not told
    wire::Waits waits;
    waits.state = wire::Text<16>(name_of(state));
    waits.reason = wire::Text<32>(text_of(wait.reason));
    if (wait.behind && may_see(runner->second.peer.uid, wait.behind->job)) waits.behind = wire::Text<64>(wait.behind->name);
    if (wait.behind) waits.behind_job = wait.behind->job;
    waits.user_jobs_max = wait.user_jobs_max;
    waits.user_memory_max = static_cast<std::uint64_t>(wait.user_memory_max.count);
    wire::send(runner->second.socket.get(), waits);
}

/// Whether this user sees the name of the job.
bool Server::may_see(unsigned uid, std::uint32_t id) {
    const Job* job = jobs_.find(id);
    return !options_.hides_others || uid == 0 || (job && job->uid == uid);
}

// ---------------------------------------------------------------------------------------------------------- commands

/// Calls `act` for each client of a job. Refuses if the job has none yet.
Server::Reply Server::for_clients_of(const Job& job, const std::function<void(const ClientOn&)>& act) {
    const std::vector<ClientOn> clients = clients_of(job.id);
    if (clients.empty()) return {false, fmt::format("job {} ({}) has not attached yet", job.id, job.name)};
    for (const ClientOn& client : clients) act(client);
    return {};
}

bool Server::owned_by(const os::Peer& peer) { return peer.uid == ::getuid() || peer.uid == 0; }

Server::Reply Server::command(Connection& connection, const wire::Command& command) {
    const os::Peer& peer = connection.peer;
    return std::visit(
        [&]<typename T>(const T& body) -> Reply {
            if constexpr (std::is_same_v<T, wire::WaitJob>) {
                return obey(connection, body);
            } else if constexpr (requires { body.job; }) {
                const Result<Job*> job = jobs_.named(peer, body.job);
                if (!job) return {false, job.error()};
                Reply reply;
                if constexpr (std::is_same_v<T, wire::SetJob>) reply = obey(peer, *job.value(), body);
                else reply = obey(*job.value(), body);
                return reply.ok && reply.text == Reply{}.text ? reply_about(*job.value()) : reply;
            } else {
                return obey(peer, body);
            }
        },
        command);
}

/// Whom a command was for: the user may have given the number or the name.
Server::Reply Server::reply_about(const Job& job) { return {true, dump({{"job", job.id}, {"name", job.name}})}; }

Server::Reply Server::obey(Connection& connection, const wire::WaitJob& wanted) {
    const Result<Job*> running = jobs_.named(connection.peer, wanted.job);
    const EndedJob* ended = running ? nullptr : jobs_.ended_named(connection.peer, wanted.job);
    if (!running && !ended) return {false, running.error()};
    const Job& job = ended ? ended->job : *running.value();
    connection.awaits_end_of = job.id;
    return reply_about(job);
}

/// What `salus wait` is told.
Server::Reply Server::end_of(std::uint32_t job) const {
    const EndedJob* ended = jobs_.find_ended(job);
    return ended ? Reply{true, dump(to_json(row_of(*ended)))} : Reply{false, fmt::format("job {} is forgotten", job)};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::AskStatus&) {
    return {true, dump(to_json(status_for(peer.uid)))};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::SetPolicy& wanted) {
    if (!owned_by(peer)) return {false, "only the service's owner may set the policy"};
    const Policy* policy = find_policy(wanted.name.view());
    if (!policy) return {false, fmt::format("there is no policy '{}'", wanted.name.view())};
    const std::string note = set_policy(*policy);
    return note.empty() ? Reply{} : Reply{true, dump({{"note", note}})};
}

/// Returns one line for whoever chose it, or nothing.
std::string Server::set_policy(const Policy& policy) {
    options_.policy = policy.info.name;
    keep_again_ = true;
    for (const auto& device : devices_) device->shell().set_policy(policy);
    return offer_mps_everywhere();
}

std::string Server::offer_mps_everywhere() {
    std::string note;
    for (const auto& device : devices_) {
        if (const std::string more = offer_mps(*device, kMpsPatienceInService); !more.empty()) note = more;
    }
    return note;
}

Server::Reply Server::obey(const os::Peer& peer, const wire::ReloadService&) {
    if (!owned_by(peer)) return {false, "only the service's owner may reload it"};
    const Result<std::string> changed = reload();
    return changed ? Reply{true, dump({{"note", changed.value()}})} : Reply{false, changed.error() + "; nothing is changed"};
}

Server::Reply Server::obey(const os::Peer&, const wire::FlushTrace& wanted) {
    if (wanted.device >= devices_.size()) return {false, "the service has no such device"};
    TraceFile& trace = devices_[wanted.device]->journal().trace();
    trace.flush();
    return {true, dump(to_json(status_of(trace)))};
}

namespace {
std::optional<unsigned> whose_history(const os::Peer& peer) {
    return peer.uid == 0 ? std::nullopt : std::optional(static_cast<unsigned>(peer.uid));
}
}  // namespace

Server::Reply Server::obey(const os::Peer& peer, const wire::AskHistory&) {
    const Result<std::vector<history::Record>> records = history_.list(whose_history(peer));
    if (!records) return {false, records.error()};
    return {true, dump(history::records_json(records.value()))};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::ClearHistory& wanted) {
    const Result<std::uint64_t> cleared = history_.clear(whose_history(peer), wanted.part.view());
    if (!cleared) return {false, cleared.error()};
    return {true, dump({{"cleared", cleared.value()}})};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::AskUsage& wanted) {
    const Result<std::vector<history::Usage>> usage = history_.usage(whose_history(peer), wanted.since_unix_s);
    if (!usage) return {false, usage.error()};
    return {true, dump(history::usage_json(usage.value()))};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::StopService& wanted) {
    if (!owned_by(peer)) return {false, "only the service's owner may stop it"};
    const std::size_t attached = clients().size();
    if (wanted.even_with_jobs == 0 && attached > 0)
        return {false, fmt::format("{} jobs are attached; --force stops the service anyway", attached)};
    told_to_stop_ = true;
    stop();
    return {};
}

/// For all its clients, those that attach later, and those of the next service.
Server::Reply Server::change(Job& job, const shell::UserSettings& said) {
    Reply reply = for_clients_of(job, [&](const ClientOn& client) { client.shell().apply(*client.session, said); });
    if (!reply.ok) return reply;
    job.said = said;
    keep_again_ = true;
    return reply;
}

Server::Reply Server::obey(Job& job, const wire::PauseJob&) {
    shell::UserSettings said = job.said;
    if (said.suspended) return {false, fmt::format("job {} ({}) is suspended already", job.id, job.name)};
    said.paused = true;
    return change(job, said);
}

Server::Reply Server::obey(Job& job, const wire::ResumeJob&) {
    shell::UserSettings said = job.said;
    said.paused = false;
    if (!std::exchange(said.suspended, false)) return change(job, said);
    settle(job, said);
    return {};
}

/// Also of a job that has no client yet: it does not start, or is suspended when it attaches.
Server::Reply Server::obey(Job& job, const wire::SuspendJob&) {
    shell::UserSettings said = job.said;
    said.suspended = true;
    said.paused = false;
    settle(job, said);
    return reply_about_memory(job, clients_of(job.id).size());
}

/// As change(), also for a job that has no client yet: whether its process may start is for the device where it waits.
void Server::settle(Job& job, const shell::UserSettings& said) {
    job.said = said;
    keep_again_ = true;
    if (job.device) at(*job.device).shell().hold(JobId{job.id}, said.suspended);
    for (const ClientOn& client : clients_of(job.id)) client.shell().apply(*client.session, said);
}

Server::Reply Server::obey(Job& job, const wire::PageIdleJob&) {
    std::size_t idle = 0;
    for (const ClientOn& client : clients_of(job.id)) {
        client.shell().page_idle(*client.session);
        const Client* known = client.shell().engine().find(client.session->id);
        if (known && known->goes_when_idle) ++idle;
    }
    return reply_about_memory(job, idle);
}

/// What its clients have on the device, and what of that goes when they are paged out.
Server::Reply Server::reply_about_memory(const Job& job, std::size_t clients) const {
    Bytes goes, stays;
    std::string because;
    for (const ClientOn& client : clients_of(job.id)) {
        const Engine& engine = client.shell().engine();
        const Client* known = engine.find(client.session->id);
        if (!known || !known->on_device()) continue;
        const bool may_go = engine.options().paging && known->pageable;
        (may_go ? goes : stays) += may_go ? known->frees() : known->reserved();
        if (may_go) continue;
        because = text_of(engine.options().paging ? client.session->stays_because : StayReason::kOff);
    }
    json answer = {
        {"job", job.id}, {"name", job.name}, {"clients", clients}, {"goes_bytes", goes.count}, {"stays_bytes", stays.count}};
    if (stays > Bytes{}) answer["stays_because"] = because;
    return {true, dump(answer)};
}

Server::Reply Server::obey(const os::Peer& peer, Job& job, const wire::SetJob& message) {
    const Result<wire::Assignments> wanted = wire::assignments_in(message);
    if (!wanted) return {false, wanted.error()};
    // What is not set stays, even if root has set it higher.
    const auto& [priority, weight, iterations, interactive] = wanted.value();
    const std::string why_not =
        limits_of(peer.uid).why_not(weight.value_or(wire::kWeightMin), priority.value_or(-wire::kPriorityMax));
    if (!why_not.empty()) return {false, why_not};
    shell::UserSettings said = job.said;
    if (priority) said.priority = priority;
    if (weight) said.weight = weight;
    if (iterations) said.iterations = iterations;
    if (interactive) said.interactive = interactive;
    return change(job, said);
}

/// Signals the command that `salus run` started, or the process that joined by itself, and all clients: processes that a
/// script has started need not end with it. The command gets the signal first; otherwise a script could see the program that
/// it waits for end, and go on with its next line. No process gets the signal twice, because a second one often means
/// something else.
Server::Reply Server::obey(Job& job, const wire::KillJob& wanted) {
    const bool at_once = wanted.at_once != 0;
    const int signal = at_once ? SIGKILL : SIGTERM;
    const std::vector<ClientOn> clients = clients_of(job.id);
    const Connection* const joined = job.joined ? connection_of_runner(job) : nullptr;
    os::ChildProcess command;
    for (const ClientOn& client : clients) {
        if (job.runner_pid != 0 && !joined && !command.pidfd)
            command = os::child_above(client.session->process.pid, job.runner_pid);
    }
    if (joined) {
        command.pid = joined->peer.pid;
        os::send_signal(joined->runner.get(), signal);
    } else if (command.pidfd) {
        os::send_signal(command.pidfd.get(), signal);
    }
    // Only the runner knows a command that has not attached. SIGKILL would end the runner and leave the command.
    else if (job.runner_pid != 0)
        os::send_signal(os::open_pidfd(job.runner_pid).get(), SIGTERM, at_once ? wire::kPassOnAsKill : 0);
    for (const auto& [device, session] : clients) {
        device->shell().pause(*session, false);
        device->shell().suspend(*session, false);
        if (session->process.pid != command.pid) os::send_signal(attached_.at(session->connection).pidfd.get(), signal);
    }
    log(LogLevel::kInfo, "job {} ({}) is killed on request", job.id, job.name);
    return {};
}

}  // namespace salus::service
