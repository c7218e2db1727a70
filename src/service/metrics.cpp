// What the service tells monitors: the metrics, and which jobs use a GPU.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "os/clock.h"
#include "os/user.h"
#include "service/job_status.h"
#include "service/log.h"
#include "service/server.h"
#include "status/prometheus.h"

namespace salus::service {
namespace {

/// A port may be in use by the last service for a moment, or by somebody else for longer.
constexpr Duration kServeAgain = seconds(2);

}  // namespace

/// A service that cannot be monitored still serves jobs.
void Server::serve_metrics() {
    const bool first = std::exchange(serve_metrics_again_at_, kNever) == kNever;
    const Result<MetricsAddress> address = metrics_address_from(options_.metrics);
    SALUS_CHECK(address, "the options were checked");
    const Result<bool> serving = metrics_.serve_at(address.value(), options_.all_users);
    if (!serving) {
        serve_metrics_again_at_ = os::now() + kServeAgain;
        if (first) log(LogLevel::kWarning, "no metrics, {}; trying again", serving.error());
    } else if (metrics_.is_serving()) {
        log(LogLevel::kInfo, "metrics at {}", options_.metrics);
    }
}

std::string Server::metrics_for(unsigned viewer) {
    Status status = status_for(viewer, Unseen::kLeftOut);
    for (JobStatus& row : status.jobs) {
        if (row.user != kNoUser) row.user_name = user_name(row.user);
    }
    return to_prometheus(status, totals_of_jobs());
}

std::vector<JobTotals> Server::totals_of_jobs() {
    const Instant at = os::now();
    std::map<std::uint32_t, JobTotals> by_job;
    for (const ClientOn& client : clients()) by_job[client.session->job] += job_totals(client.shell(), *client.session, at);
    std::vector<JobTotals> all;
    for (auto& [id, job] : jobs_) {
        JobTotals totals = job.totals_of_gone;
        totals.job = id;
        totals += by_job[id];
        totals.waited_to_start = job.waited_elsewhere;
        if (job.device) totals.waited_to_start += this->at(*job.device).engine().waited_to_start(JobId{id}, at);
        // An iteration that goes on is estimated, and a monitor would take a counter that falls for one that began anew.
        job.busy_shown = totals.busy = std::max(totals.busy, job.busy_shown);
        all.push_back(totals);
    }
    return all;
}

/// The service must not wait for a directory server.
const std::string& Server::user_name(UserId user) {
    const auto known = user_names_.find(user);
    if (known != user_names_.end()) return known->second;
    return user_names_.emplace(user, os::local_name_of_user(static_cast<unsigned>(user))).first->second;
}

void Server::map_jobs() {
    if (job_mapping_.directory().empty()) return;
    for (const auto& device : devices_) {
        const auto gpu = device->gpu_index();
        std::vector<std::uint32_t> jobs;
        for (const auto& [id, session] : device->shell().sessions()) jobs.push_back(session->job);
        std::ranges::sort(jobs);
        jobs.erase(std::ranges::unique(jobs).begin(), jobs.end());
        const Result<bool> written =
            gpu ? job_mapping_.write(*gpu, jobs) : Result<bool>(Error{"the driver's management library knows no GPU here"});
        const std::string why = written ? "" : written.error();
        if (!why.empty() && why != told_of_no_mapping_) log(LogLevel::kWarning, "no list of a GPU's jobs: {}", why);
        told_of_no_mapping_ = why;
    }
}

}  // namespace salus::service
