#include "service/jobs.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace salus::service {
namespace {

/// A number beyond this was not given by a service.
constexpr std::uint32_t kNumberMax = 1'000'000;

}  // namespace

Job& Jobs::add(std::uint32_t wanted, std::string_view name, unsigned uid, Instant now) {
    Job* known = find(wanted);
    if (known && known->uid == uid) return *known;
    const bool keep = wanted != 0 && !known && wanted < kNumberMax;
    const std::uint32_t id = keep ? wanted : next_;
    next_ = std::max(next_, id + 1);
    Job& job = jobs_[id];
    job = Job{};
    job.id = id;
    job.name = std::string(name);
    job.uid = uid;
    job.started = now;
    return job;
}

std::vector<std::uint32_t> Jobs::drop_ended(const std::function<bool(const Job&)>& has_clients) {
    std::vector<std::uint32_t> ended;
    for (const auto& [id, job] : jobs_) {
        if (job.runner_pid == 0 && !has_clients(job)) ended.push_back(id);
    }
    for (const std::uint32_t id : ended) jobs_.erase(id);
    return ended;
}

Job* Jobs::find(std::uint32_t id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
}

Result<Job*> Jobs::named(const os::Peer& peer, const wire::JobReference& which) {
    std::vector<Job*> found;
    const std::string_view name = which.name.view();
    for (auto& [id, job] : jobs_) {
        if (which.number != 0 ? id == which.number : job.name == name) found.push_back(&job);
    }
    if (found.empty())
        return Error{
            fmt::format("there is no job '{}'", which.number != 0 ? std::to_string(which.number) : std::string(name))};
    if (found.size() > 1) return Error{fmt::format("there are {} jobs named '{}'; give a number", found.size(), name)};
    Job& job = *found.front();
    if (peer.uid != job.uid && peer.uid != 0) return Error{fmt::format("job {} is another user's", job.id)};
    return &job;
}

std::size_t Jobs::on(DeviceId device) const {
    return static_cast<std::size_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job.second.device == device; }));
}

std::size_t Jobs::on_mps_of(DeviceId device) const {
    return static_cast<std::size_t>(std::count_if(
        jobs_.begin(), jobs_.end(), [&](const auto& job) { return job.second.device == device && job.second.joins_mps; }));
}

}  // namespace salus::service
