// What the command line asks: a verb and its arguments in, JSON or one line of why not out.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/socket.h"
#include "policies/table.h"
#include "service/log.h"
#include "service/server.h"
#include "wire/assignments.h"
#include "wire/pass_on.h"

namespace salus::service {
namespace {

using nlohmann::json;

/// How long a job waits before its user is told for what.
constexpr Duration kLongWait = seconds(2);

/// Names come from other people: bytes that are no text are replaced.
std::string text_of(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string_view state_of(const Client& client, const Session& session, control::State word) {
    if (session.paused) return "paused";
    if (session.stopped) return "stopped";
    if (session.asleep) return "asleep";
    if (client.refused) return "refused";
    if (client.dropped || session.disconnected) return "leaving";
    if (client.residency() == Residency::kPagingOut || client.residency() == Residency::kPagingIn) return "paging";
    if (client.residency() == Residency::kPaged) return "paged out";
    if (client.stalled) return "growing";
    if (client.holds()) return word == control::State::kIdle ? "idle" : "running";
    return client.turn() == Turn::kReady ? "waiting" : "idle";
}

/// Wall time that it still needs, as far as can be told.
std::optional<double> left_s(const Client& client, const Session& session, Instant at) {
    const std::uint64_t total = client.facts.iterations_total;
    const std::uint64_t iterations = session.page->iterations;
    const std::uint64_t done = iterations - std::min(session.iterations_before, iterations);
    if (total == 0) return std::nullopt;
    // Who has outrun its earlier run, or what it stated, may end at any time, or go on for long.
    if (done > total) return std::nullopt;
    if (done == total) return session.length_is_past ? std::nullopt : std::optional(0.0);
    const auto left = static_cast<double>(total - done);
    const Duration iteration =
        session.past.iteration_time.ns > 0 ? session.past.iteration_time : client.facts.iteration_time;
    // The first two iterations tell little of the others.
    if (done > 2 || (done > 0 && iteration.ns == 0)) {
        return left * (at - session.attached_at).seconds() / static_cast<double>(done);
    }
    return iteration.ns > 0 ? std::optional(left * iteration.seconds()) : std::nullopt;
}

}  // namespace

json Server::describe(const Session& session, Instant at) const {
    const Client* client = shell_->engine().find(session.id);
    json row;
    row["job"] = session.job;
    row["client"] = index_of(session.id);
    row["name"] = session.name;
    row["pid"] = session.process.pid;
    row["user"] = session.uid;
    row["attached_s"] = (at - session.attached_at).seconds();
    if (!client) return row;
    const control::Word word = session.word();
    const auto [reason, behind] = shell_->engine().why_waits(*client);
    row["state"] = state_of(*client, session, word.state);
    row["waits_for"] = reason == WaitReason::kNothing ? "" : std::string(name_of(reason));
    if (behind != kNoClient) {
        const auto holder = shell_->sessions().find(behind);
        row["behind"] = holder == shell_->sessions().end() ? "?" : holder->second->name;
        if (holder != shell_->sessions().end()) row["behind_job"] = holder->second->job;
    }
    if (client->lane != kNoLane) row["lane"] = index_of(client->lane);
    const ControlPage& page = *session.page;
    const std::uint64_t iterations = page.iterations;
    row["iterations"] = iterations;
    if (client->facts.iterations_total > 0) {
        row["iterations_total"] = client->facts.iterations_total + session.iterations_before;
        row["estimate"] = session.length_is_past ? "history" : "stated";
    }
    if (const auto left = left_s(*client, session, at)) row["left_s"] = *left;
    row["busy_s"] = static_cast<double>(busy_ns_of(session, at)) * 1e-9;
    // The engine hears of a turn that goes on only when somebody waits.
    const std::uint64_t busy_now = busy_ns_of(session, at);
    const double untold_s =
        client->holds() ? static_cast<double>(busy_now - std::min(busy_now, session.busy_told_ns)) * 1e-9 : 0;
    row["attained_s"] = client->facts.attained.seconds() + untold_s;
    row["iterations_before"] = session.iterations_before;
    Duration waited = session.waited;
    if (session.waiting_since != kNever) waited += at - session.waiting_since;
    row["waited_s"] = waited.seconds();
    row["waiting_now_s"] = session.waiting_since == kNever ? 0.0 : (at - session.waiting_since).seconds();
    row["persistent"] = client->facts.persistent.count;
    row["ephemeral"] = client->facts.ephemeral.count;
    row["private_bytes"] = page.private_bytes.load();
    row["lane_bytes"] = page.lane_bytes.load();
    row["missed_bytes"] = page.missed_bytes.load();
    row["lane_peak"] = page.lane_peak.load();
    row["evacuations"] = page.evacuations.load();
    row["page_outs"] = page.page_outs.load();
    row["boundaries_delayed"] = page.boundaries_delayed.load();
    row["priority"] = client->facts.priority;
    row["weight"] = client->facts.weight;
    row["memory_time_gib_s"] = shell_->engine().memory_time_gib_s(*client, at);
    return row;
}

json Server::status() const {
    const Instant at = os::now();
    const Engine& engine = shell_->engine();
    json service;
    service["pid"] = ::getpid();
    service["version"] = "0.1.0";
    service["socket"] = options_.socket;
    service["state"] = options_.state;
    service["uptime_s"] = (at - started_).seconds();
    service["device"] = memory_->traits().name;
    service["gpu"] = memory_->identity();
    service["mps"] = mps_ && offers_mps_ ? mps_->directory() : "";
    service["policy"] = engine.policy().info.name;
    service["paging"] = engine.options().paging;
    service["min_turn_ms"] = engine.options().min_turn.seconds() * 1e3;
    service["capacity"] = engine.capacity().count;
    service["reserved"] = engine.reserved().count;
    service["held_by_orphans"] = shell_->held_by_orphans().count;
    service["trace"] = {{"path", journal_->trace().current_path()},
                        {"previous", journal_->trace().previous_path()},
                        {"recording", journal_->trace().recording()},
                        {"bytes", journal_->trace().written().count}};
    const Statistics& s = engine.statistics();
    service["statistics"] = {{"turns", s.turns},
                             {"switches", s.switches},
                             {"yields_asked", s.yields_asked},
                             {"revokes", s.revokes},
                             {"admissions", s.admissions},
                             {"refusals", s.refusals},
                             {"denials", s.denials},
                             {"page_outs", s.page_outs},
                             {"page_ins", s.page_ins},
                             {"paged_bytes", s.paged.count},
                             {"profiling_turns", s.profiling_turns},
                             {"lanes_opened", s.lanes_opened},
                             {"lane_resizes", s.lane_resizes},
                             {"rehomings", s.rehomings},
                             {"reservations", s.reservations},
                             {"fallbacks", s.fallbacks},
                             {"reserved_peak", s.reserved_peak.count}};
    service["lanes"] = json::array();
    for (const Lane& lane : engine.lanes().all()) {
        json row = {
            {"lane", index_of(lane.id)}, {"size", lane.size.count}, {"charge", lane.charge.count}, {"user", lane.user}};
        if (lane.holder != kNoClient) row["holder"] = index_of(lane.holder);
        service["lanes"].push_back(row);
    }
    json rows = json::array();
    for (const auto& [id, job] : jobs_) {
        bool any = false;
        for (const auto& [client, session] : shell_->sessions()) {
            if (session->job != id) continue;
            json row = describe(*session, at);
            row["log"] = job.log;
            rows.push_back(row);
            any = true;
        }
        if (any) continue;
        rows.push_back({{"job", id},
                        {"name", job.name},
                        {"pid", job.runner_pid},
                        {"user", job.uid},
                        {"state", "starting"},
                        {"attached_s", (at - job.started).seconds()},
                        {"log", job.log}});
    }
    return {{"service", service}, {"jobs", rows}};
}

// --------------------------------------------------------------------------------------------------- what runners hear

/// The job of a client that waits, if its `salus run` has not heard of that yet.
Job* Server::to_be_told_of(const Session& session) {
    const auto job = session.waiting_since == kNever ? jobs_.end() : jobs_.find(session.job);
    return job == jobs_.end() || job->second.runner_pid == 0 || job->second.told_of_wait ? nullptr : &job->second;
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
        const json row = describe(*session, at);
        wire::Waits waits;
        waits.state = wire::Text<16>(row.value("state", ""));
        waits.reason = wire::Text<32>(row.value("waits_for", ""));
        waits.behind = wire::Text<64>(row.value("behind", ""));
        waits.behind_job = row.value("behind_job", 0u);
        wire::send(runner->second.socket.get(), waits);
    }
}

// ------------------------------------------------------------------------------------------------------ commands by name

/// By number, or by name if only one job that the peer may control has it.
Result<std::vector<std::uint32_t>> Server::jobs_named(const os::Peer& peer, std::string_view which) const {
    std::vector<std::uint32_t> found;
    const auto number = parse_integer(which);
    for (const auto& [id, job] : jobs_) {
        if (number ? static_cast<std::int64_t>(id) == *number : job.name == which) found.push_back(id);
    }
    if (found.empty()) return Error{"there is no job '" + std::string(which) + "'"};
    if (found.size() > 1)
        return Error{"there are " + std::to_string(found.size()) + " jobs named '" + std::string(which) +
                     "'; give a number"};
    const Job& job = jobs_.at(found.front());
    if (peer.uid != job.uid && peer.uid != 0) return Error{"job " + std::to_string(job.id) + " is another user's"};
    return found;
}

std::vector<Session*> Server::sessions_of(std::uint32_t job) {
    std::vector<Session*> found;
    for (const auto& [id, session] : shell_->sessions()) {
        if (session->job == job) found.push_back(session.get());
    }
    return found;
}

/// Of what can only be done to a job that has.
Server::Reply Server::not_attached(const Job& job) {
    return {false, "job " + std::to_string(job.id) + " (" + job.name + ") has not attached yet"};
}

Server::Reply Server::set(std::uint32_t job, const std::vector<std::string_view>& words) {
    const Result<wire::Assignments> wanted = wire::parse_assignments(words);
    if (!wanted) return {false, wanted.error()};
    const std::vector<Session*> sessions = sessions_of(job);
    if (sessions.empty()) return not_attached(jobs_.at(job));
    for (Session* session : sessions) {
        const Client* client = shell_->engine().find(session->id);
        if (!client) continue;
        shell_->adjust(*session, wanted.value().priority.value_or(client->facts.priority),
                       wanted.value().weight.value_or(client->facts.weight),
                       wanted.value().iterations.value_or(client->facts.iterations_total));
    }
    return {true, "{}"};
}

Server::Reply Server::pause(std::uint32_t job, bool paused) {
    const std::vector<Session*> sessions = sessions_of(job);
    if (sessions.empty()) return not_attached(jobs_.at(job));
    for (Session* session : sessions) shell_->pause(*session, paused);
    return {true, "{}"};
}

/// The command that `salus run` started, and all that attached: what a script has started need not end with it. The command
/// is told first, as it must not see what it waits for end and go on with its next line. None is told twice: the second time
/// often means something else.
Server::Reply Server::kill(std::uint32_t job, bool at_once) {
    const int signal = at_once ? SIGKILL : SIGTERM;
    const Job& known = jobs_.at(job);
    const std::vector<Session*> sessions = sessions_of(job);
    os::ChildProcess command;
    for (const Session* session : sessions) {
        if (known.runner_pid != 0 && !command.pidfd) command = os::child_above(session->process.pid, known.runner_pid);
    }
    if (command.pidfd) os::send_signal(command.pidfd.get(), signal);
    // Of a command that has not attached only its runner knows. SIGKILL would end that one and leave the command.
    else if (known.runner_pid != 0)
        os::send_signal(os::open_pidfd(known.runner_pid).get(), SIGTERM, at_once ? wire::kPassOnAsKill : 0);
    for (Session* session : sessions) {
        shell_->pause(*session, false);
        if (session->process.pid != command.pid) os::send_signal(attached_.at(session->connection).pidfd.get(), signal);
    }
    log(LogLevel::kInfo, "job {} ({}) is killed by command", job, known.name);
    return {true, "{}"};
}

Server::Reply Server::command(const os::Peer& peer, std::string_view line) {
    std::vector<std::string_view> words;
    for (const std::string_view word : split(line, ' ')) {
        if (!word.empty()) words.push_back(word);
    }
    if (words.empty()) return {false, "no command"};
    const std::string_view verb = words[0];
    const bool owner = peer.uid == ::getuid() || peer.uid == 0;
    if (verb == "status") return {true, text_of(status())};
    if (verb == "policy") {
        if (words.size() == 1) return {true, text_of({{"policy", shell_->engine().policy().info.name}})};
        if (!owner) return {false, "only the service's owner sets the policy"};
        const Policy* policy = find_policy(words[1]);
        if (!policy) return {false, "there is no policy '" + std::string(words[1]) + "'"};
        shell_->set_policy(*policy);
        return {true, "{}"};
    }
    if (verb == "trace") {
        journal_->trace().flush();
        return {true, text_of(status()["service"]["trace"])};
    }
    if (verb == "stop") {
        if (!owner) return {false, "only the service's owner stops it"};
        const bool force = words.size() > 1 && words[1] == "force";
        if (!force && !shell_->sessions().empty()) {
            return {false, std::to_string(shell_->sessions().size()) +
                               " jobs are attached; --force stops the service all the same"};
        }
        stop();
        return {true, "{}"};
    }
    const bool of_a_job = verb == "pause" || verb == "resume" || verb == "kill" || verb == "set";
    if (!of_a_job) return {false, "unknown command '" + std::string(verb) + "'"};
    if (words.size() < 2) return {false, std::string(verb) + " which job?"};
    const auto jobs = jobs_named(peer, words[1]);
    if (!jobs) return {false, jobs.error()};
    const std::uint32_t job = jobs.value().front();
    if (verb == "set") return set(job, {words.begin() + 2, words.end()});
    if (verb == "kill") return kill(job, words.size() > 2 && words[2] == "now");
    return pause(job, verb == "pause");
}

}  // namespace salus::service
