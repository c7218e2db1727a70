#include "service/jobs.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "os/file.h"
#include "service/log.h"

namespace salus::service {
namespace {

/// No service assigns a number from here on.
constexpr std::uint32_t kNumberMax = 1'000'000;

/// The number that an earlier service would have assigned next.
std::uint32_t next_number_in(const std::string& path) {
    const Result<std::string> text = os::read_file(path);
    const auto number = text ? parse_integer(text.value()) : std::nullopt;
    // From half of the numbers on we begin again with 1: jobs that have run for so long are rare.
    const bool usable = number && *number > 0 && *number < kNumberMax / 2;
    return usable ? static_cast<std::uint32_t>(*number) : 1;
}

bool is(const Job& job, const wire::JobReference& which) {
    return which.number != 0 ? job.id == which.number : job.name == which.name.view();
}

}  // namespace

Jobs::Jobs(std::string numbers, bool hides_others) : numbers_(std::move(numbers)), hides_others_(hides_others) {
    if (!numbers_.empty()) next_ = next_number_in(numbers_);
}

void Jobs::keep_next() const {
    if (numbers_.empty()) return;
    const Result<os::Written> written = os::replace_file_at_once(numbers_, std::to_string(next_));
    if (!written) log(LogLevel::kWarning, "the next service may give a job's number again: {}", written.error());
}

Job& Jobs::add(std::uint32_t wanted, std::string_view name, unsigned uid, Instant now) {
    Job* known = find(wanted);
    if (known && known->uid == uid) return *known;
    const bool keep = wanted != 0 && !known && wanted < kNumberMax;
    const std::uint32_t id = keep ? wanted : next_;
    if (id >= next_) {
        next_ = id + 1;
        keep_next();
    }
    Job& job = jobs_[id];
    job = Job{};
    job.id = id;
    job.name = std::string(name);
    job.uid = uid;
    job.started = now;
    return job;
}

std::vector<std::uint32_t> Jobs::drop_ended(const std::function<bool(const Job&)>& has_clients, Instant now,
                                            std::int64_t now_unix_s) {
    std::vector<std::uint32_t> ended;
    for (const auto& [id, job] : jobs_) {
        if (job.runner_pid == 0 && !has_clients(job)) ended.push_back(id);
    }
    for (const std::uint32_t id : ended) {
        auto left = jobs_.extract(id);
        if (left.mapped().took_part) ended_.push_back({std::move(left.mapped()), now, now_unix_s});
        if (ended_.size() > kEndedMax) ended_.pop_front();
    }
    return ended;
}

const EndedJob* Jobs::find_ended(std::uint32_t id) const {
    const auto found = std::find_if(ended_.rbegin(), ended_.rend(), [&](const EndedJob& e) { return e.job.id == id; });
    return found == ended_.rend() ? nullptr : &*found;
}

void Jobs::service_ends() {
    if (!jobs_.empty()) return;
    next_ = 1;
    keep_next();
}

Job* Jobs::find(std::uint32_t id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
}

/// Of the jobs that the peer may control.
std::vector<std::string_view> Jobs::names_for(const os::Peer& peer) const {
    std::vector<std::string_view> names;
    for (const auto& [id, job] : jobs_) {
        if (peer.uid == job.uid || peer.uid == 0) names.push_back(job.name);
    }
    return names;
}

Result<Job*> Jobs::named(const os::Peer& peer, const wire::JobReference& which) {
    std::vector<Job*> found;
    const std::string_view name = which.name.view();
    for (auto& [id, job] : jobs_) {
        if (is(job, which)) found.push_back(&job);
    }
    const auto is_anothers = [&](const Job* job) { return job->uid != peer.uid; };
    const bool has_own = std::ranges::any_of(found, [&](const Job* job) { return !is_anothers(job); });
    if (which.number == 0 && (has_own || (hides_others_ && peer.uid != 0))) std::erase_if(found, is_anothers);
    if (found.empty() && which.number != 0) return Error{fmt::format("there is no job '{}'", which.number)};
    if (found.empty()) return Error{fmt::format("there is no job '{}'{}", name, did_you_mean(name, names_for(peer)))};
    if (found.size() > 1) return Error{fmt::format("there are {} jobs named '{}'; give a number", found.size(), name)};
    Job& job = *found.front();
    if (peer.uid != job.uid && peer.uid != 0) return Error{fmt::format("job {} is another user's", job.id)};
    return &job;
}

const EndedJob* Jobs::ended_named(const os::Peer& peer, const wire::JobReference& which) const {
    const auto is_meant = [&](const Job& job) { return is(job, which); };
    if (std::ranges::any_of(jobs_ | std::views::values, is_meant)) return nullptr;
    const auto found = std::find_if(ended_.rbegin(), ended_.rend(), [&](const EndedJob& ended) {
        return is_meant(ended.job) && (peer.uid == ended.job.uid || peer.uid == 0);
    });
    return found == ended_.rend() ? nullptr : &*found;
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
