// What the command line asks: a message in, JSON or one line of why not out.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/socket.h"
#include "policies/table.h"
#include "service/job_status.h"
#include "service/log.h"
#include "service/server.h"
#include "wire/assignments.h"
#include "wire/pass_on.h"

namespace salus::service {
namespace {

using nlohmann::json;

/// How long a job waits before its user is told for what.
constexpr Duration kLongWait = seconds(2);

/// While the service waits for MPS it hands no lane over. It comes up within half a second, or hardly at all.
constexpr MpsPatience kMpsPatienceInService = {.start = seconds(2), .quit = seconds(1), .terminate = seconds(1)};

/// Names come from other people: bytes that are no text are replaced.
std::string dump(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

TraceStatus Server::trace_status() const {
    const TraceFile& trace = journal_->trace();
    return {trace.current_path(), trace.previous_path(), trace.recording(), trace.written()};
}

ServiceStatus Server::service_status(Instant at) const {
    const Engine& engine = shell_->engine();
    ServiceStatus service;
    service.pid = ::getpid();
    service.version = kSalusVersion;
    service.socket = options_.socket;
    service.state_directory = options_.state;
    service.uptime = at - started_;
    service.device = memory_->traits().name;
    service.gpu = memory_->identity();
    if (mps_ && offers_mps_) service.mps = mps_->directory();
    service.policy = engine.policy().info.name;
    service.paging = engine.options().paging;
    service.min_turn = engine.options().min_turn;
    service.capacity = engine.capacity();
    service.reserved = engine.reserved();
    service.held_by_orphans = shell_->held_by_orphans();
    service.trace = trace_status();
    service.statistics = engine.statistics();
    for (const Lane& lane : engine.lanes().all())
        service.lanes.push_back({lane.id, lane.size, lane.charge, lane.user, lane.holder});
    return service;
}

Status Server::status() const {
    const Instant at = os::now();
    Status status;
    status.service = service_status(at);
    for (const auto& [id, job] : jobs_) {
        const std::size_t before = status.jobs.size();
        for (const auto& [client, session] : shell_->sessions()) {
            if (session->job != id) continue;
            status.jobs.push_back(job_status(*shell_, *session, at));
            status.jobs.back().log = job.log;
        }
        if (status.jobs.size() > before) continue;
        JobStatus starting;
        starting.job = id;
        starting.name = job.name;
        starting.pid = job.runner_pid;
        starting.user = UserId{job.uid};
        starting.attached = at - job.started;
        starting.state = JobState::kStarting;
        starting.log = job.log;
        status.jobs.push_back(starting);
    }
    return status;
}

// --------------------------------------------------------------------------------------------------- what runners hear

/// The job of a client that waits, if its `salus run` has not heard of that yet.
Job* Server::to_be_told_of(const Session& session) {
    Job* job = session.waiting_since == kNever ? nullptr : jobs_.find(session.job);
    return !job || job->runner_pid == 0 || job->told_of_wait ? nullptr : job;
}

Instant Server::next_long_wait() {
    Instant next = kNever;
    for (const auto& [id, session] : shell_->sessions()) {
        if (to_be_told_of(*session)) next = std::min(next, session->waiting_since + kLongWait);
    }
    return next;
}

/// `salus run` is told and does not ask: what it costs the service must not grow with the number of jobs.
void Server::tell_long_waits() {
    const Instant at = os::now();
    for (const auto& [id, session] : shell_->sessions()) {
        Job* job = to_be_told_of(*session);
        if (!job || at - session->waiting_since < kLongWait) continue;
        job->told_of_wait = true;
        const auto runner = connections_.find(job->runner_connection);
        if (runner == connections_.end()) continue;
        const JobStatus row = job_status(*shell_, *session, at);
        const Wait wait = row.activity ? row.activity->wait : Wait{};
        wire::Waits waits;
        waits.state = wire::Text<16>(name_of(row.state));
        waits.reason = wire::Text<32>(text_of(wait.reason));
        if (wait.behind) waits.behind = wire::Text<64>(wait.behind->name);
        if (wait.behind) waits.behind_job = wait.behind->job;
        wire::send(runner->second.socket.get(), waits);
    }
}

// ---------------------------------------------------------------------------------------------------------- commands

std::vector<Session*> Server::sessions_of(std::uint32_t job) {
    std::vector<Session*> found;
    for (const auto& [id, session] : shell_->sessions()) {
        if (session->job == job) found.push_back(session.get());
    }
    return found;
}

/// To each client of a job; a refusal if it has none yet.
Server::Reply Server::for_clients_of(const Job& job, const std::function<void(Session&)>& act) {
    const std::vector<Session*> sessions = sessions_of(job.id);
    if (sessions.empty()) return {false, fmt::format("job {} ({}) has not attached yet", job.id, job.name)};
    for (Session* session : sessions) act(*session);
    return {};
}

bool Server::owned_by(const os::Peer& peer) { return peer.uid == ::getuid() || peer.uid == 0; }

Server::Reply Server::command(const os::Peer& peer, const wire::Command& command) {
    return std::visit(
        [&]<typename T>(const T& body) -> Reply {
            if constexpr (requires { body.job; }) {
                const Result<Job*> job = jobs_.named(peer, body.job);
                return job ? obey(*job.value(), body) : Reply{false, job.error()};
            } else {
                return obey(peer, body);
            }
        },
        command);
}

Server::Reply Server::obey(const os::Peer&, const wire::AskStatus&) { return {true, dump(to_json(status()))}; }

Server::Reply Server::obey(const os::Peer& peer, const wire::SetPolicy& wanted) {
    if (!owned_by(peer)) return {false, "only the service's owner sets the policy"};
    const Policy* policy = find_policy(wanted.name.view());
    if (!policy) return {false, fmt::format("there is no policy '{}'", wanted.name.view())};
    shell_->set_policy(*policy);
    const std::string note = offer_mps(kMpsPatienceInService);
    return note.empty() ? Reply{} : Reply{true, dump({{"note", note}})};
}

Server::Reply Server::obey(const os::Peer&, const wire::FlushTrace&) {
    journal_->trace().flush();
    return {true, dump(to_json(trace_status()))};
}

Server::Reply Server::obey(const os::Peer& peer, const wire::StopService& wanted) {
    if (!owned_by(peer)) return {false, "only the service's owner stops it"};
    const std::size_t attached = shell_->sessions().size();
    if (wanted.even_with_jobs == 0 && attached > 0)
        return {false, fmt::format("{} jobs are attached; --force stops the service all the same", attached)};
    stop();
    return {};
}

Server::Reply Server::obey(Job& job, const wire::PauseJob&) {
    return for_clients_of(job, [&](Session& session) { shell_->pause(session, true); });
}

Server::Reply Server::obey(Job& job, const wire::ResumeJob&) {
    return for_clients_of(job, [&](Session& session) { shell_->pause(session, false); });
}

Server::Reply Server::obey(Job& job, const wire::SetJob& message) {
    const Result<wire::Assignments> wanted = wire::assignments_in(message);
    if (!wanted) return {false, wanted.error()};
    const auto& [priority, weight, iterations] = wanted.value();
    return for_clients_of(job, [&](Session& session) {
        const Client* client = shell_->engine().find(session.id);
        if (!client) return;
        shell_->adjust(session, priority.value_or(client->facts.priority), weight.value_or(client->facts.weight),
                       iterations.value_or(client->facts.iterations_total));
    });
}

/// The command that `salus run` started, and all that attached: what a script has started need not end with it. The command
/// is told first, as it must not see what it waits for end and go on with its next line. None is told twice: the second time
/// often means something else.
Server::Reply Server::obey(Job& job, const wire::KillJob& wanted) {
    const bool at_once = wanted.at_once != 0;
    const int signal = at_once ? SIGKILL : SIGTERM;
    const std::vector<Session*> sessions = sessions_of(job.id);
    os::ChildProcess command;
    for (const Session* session : sessions) {
        if (job.runner_pid != 0 && !command.pidfd) command = os::child_above(session->process.pid, job.runner_pid);
    }
    if (command.pidfd) os::send_signal(command.pidfd.get(), signal);
    // Of a command that has not attached only its runner knows. SIGKILL would end that one and leave the command.
    else if (job.runner_pid != 0)
        os::send_signal(os::open_pidfd(job.runner_pid).get(), SIGTERM, at_once ? wire::kPassOnAsKill : 0);
    for (Session* session : sessions) {
        shell_->pause(*session, false);
        if (session->process.pid != command.pid) os::send_signal(attached_.at(session->connection).pidfd.get(), signal);
    }
    log(LogLevel::kInfo, "job {} ({}) is killed by command", job.id, job.name);
    return {};
}

}  // namespace salus::service
