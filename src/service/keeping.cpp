// What a service takes over from the last one, what it leaves for the next, and how it reads its configuration again.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/file.h"
#include "policies/table.h"
#include "service/log.h"
#include "service/ports.h"
#include "service/reload.h"
#include "service/server.h"
#include "service/startup.h"

namespace salus::service {

/// The number under which the last service knew a process that was started without `salus run`, and so does not know it
/// itself; 0: not known, or taken.
std::uint32_t Server::kept_number_of(const shell::ProcessId& process, unsigned uid) {
    for (const KeptJob& kept : unclaimed_) {
        const bool is_it = kept.uid == uid && std::ranges::find(kept.processes, process) != kept.processes.end();
        if (is_it && !jobs_.find(kept.job)) return kept.job;
    }
    return 0;
}

/// What its user had changed, if this process shows that it is a job of the last service. The number does not show it.
void Server::take_over(Job& job, const shell::ProcessId& process) {
    const auto found = std::ranges::find_if(unclaimed_, [&](const KeptJob& kept) {
        return kept.job == job.id && kept.uid == job.uid &&
               std::ranges::find(kept.processes, process) != kept.processes.end();
    });
    if (found == unclaimed_.end()) return;
    job.said = found->said;
    job.gone = whole_of(job.gone, found->gone);
    unclaimed_.erase(found);
    keep_again_ = true;
    for (const ClientOn& client : clients_of(job.id)) client.shell().apply(*client.session, job.said);
}

Kept Server::what_is_kept() const {
    Kept kept;
    kept.given = options_.given;
    if (options_.policy != options_.configured_policy && !options_.configured_policy.empty()) {
        kept.policy = options_.policy;
        kept.instead_of = options_.configured_policy;
    }
    kept.jobs = unclaimed_;
    for (const auto& [id, job] : jobs_) {
        if (job.said == shell::UserSettings{} && job.gone == RunFigures{}) continue;
        KeptJob of{id, job.uid, {}, job.said, job.gone};
        if (job.runner_pid > 0) of.processes.push_back(job.runner);
        for (const ClientOn& client : clients_of(id)) {
            if (client.session->process.pid > 0) of.processes.push_back(client.session->process);
        }
        if (!of.processes.empty()) kept.jobs.push_back(std::move(of));
    }
    return kept;
}

/// Writes it down if it has changed.
void Server::keep() {
    if (!std::exchange(keep_again_, false)) return;
    map_jobs();
    std::erase_if(unclaimed_, [](const KeptJob& kept) {
        const auto is_alive = [](const shell::ProcessId& process) { return KernelProcesses().is_alive(process); };
        return std::ranges::none_of(kept.processes, is_alive);
    });
    const std::string text = text_of(what_is_kept());
    if (text == kept_) return;
    const Result<os::Written> written = os::replace_file(kept_path(options_.state), text);
    if (!written) log(LogLevel::kWarning, "the next service will not take over settings: {}", written.error());
    kept_ = text;
}

/// Whoever stops a service that has no jobs is done with it: the next one begins with its configuration.
void Server::keep_at_the_end() {
    if (told_to_stop_ && jobs_.size() == 0) {
        options_.given.clear();
        options_.policy = options_.configured_policy;
    }
    keep_again_ = true;
    keep();
}

void Server::hear_hang_up() {
    signalfd_siginfo info{};
    while (::read(hang_ups_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        const Result<std::string> changed = reload();
        if (!changed) log(LogLevel::kError, "nothing is changed: {}", changed.error());
    }
}

Result<std::string> Server::reload() {
    if (!read_options_) return Error{"this service has no configuration"};
    Result<Options> read = read_options_();
    if (!read) return Error{read.error()};
    Reload reload = reload_from(options_, std::move(read).value());
    for (const auto& device : devices_) {
        const std::string why = why_too_much(reload.options.capacity, device->total(), device->traits());
        if (!why.empty()) return Error{why};
    }
    const bool other_policy = reload.options.policy != options_.policy;
    const bool other_metrics = reload.options.metrics != options_.metrics;
    options_ = std::move(reload.options);
    keep_again_ = true;
    set_log_level(options_.log_level);
    for (const auto& device : devices_) device->change(options_);
    groups_of_.clear();
    user_names_.clear();
    job_mapping_.move_to(options_.job_mapping);
    for (const auto& [id, job] : jobs_) {
        if (job.device) tell_limits(at(*job.device), job.uid);
    }
    std::string line = reload.line;
    const std::string note = other_policy ? set_policy(*find_policy(options_.policy)) : offer_mps_everywhere();
    if (!note.empty()) line += "; " + note;
    if (other_metrics) {
        serve_metrics_again_at_ = kNever;
        serve_metrics();
    }
    log(LogLevel::kInfo, "the configuration was read again: {}", line);
    return line;
}

}  // namespace salus::service
