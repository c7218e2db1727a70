#include "cli/web_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace salus::cli {
namespace {

using nlohmann::json;
using Rows = std::vector<const JobStatus*>;

/// A job's clients, which may stand apart in the status.
std::map<std::uint32_t, Rows> by_job(const Status& status) {
    std::map<std::uint32_t, Rows> jobs;
    for (const JobStatus& row : status.jobs) jobs[row.job].push_back(&row);
    return jobs;
}

/// The client that says most about its job: one that runs, or else one that the engine knows.
const JobStatus& speaker_of(const Rows& rows) {
    const auto value = [](const JobStatus* row) {
        return (row->state == JobState::kRunning ? 2 : 0) + (row->activity ? 1 : 0);
    };
    return **std::ranges::max_element(rows, {}, value);
}

bool is_on_device(const JobStatus& row) { return row.activity && row.state != JobState::kPagedOut; }

/// Whether a share of its device's time is its: it is neither beside the others, nor kept from running. One that is idle for
/// a moment counts, or the others' shares would jump.
bool has_share(const JobStatus& row) { return row.activity && !row.activity->beside && takes_turns(row.state); }

/// In the order of the devices in the status.
std::vector<Status> by_device(const Status& status) {
    if (status.service.devices.size() < 2) return {status};
    std::vector<Status> all;
    for (std::size_t i = 0; i < status.service.devices.size(); ++i) all.push_back(status_of_device(status, i));
    return all;
}

json memory_json(const Status& of_device);

/// Under which its waiting is counted; empty: it does not wait.
std::string reason_of(const JobStatus& row) {
    switch (row.state) {
        case JobState::kWaiting:
        case JobState::kGrowing:
        case JobState::kPaging:
        case JobState::kPagedOut: break;
        case JobState::kPaused:
        case JobState::kSuspended:
        case JobState::kStopped:
        case JobState::kStarting: return std::string(name_of(row.state));
        default: return {};
    }
    std::string reason(text_of(row.activity ? row.activity->wait.reason : std::optional(WaitReason::kNothing)));
    if (row.start_wait) reason = "to start: " + std::string(text_of(row.start_wait->reason));
    return reason.empty() ? std::string(name_of(row.state)) : reason;
}

template <typename T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json clients_json(const Rows& rows) {
    json clients = json::array();
    for (const JobStatus* row : rows) {
        json client = {{"pid", row->pid}, {"state", name_of(row->state)}};
        if (row->activity) {
            client["p"] = row->activity->persistent.count;
            client["t"] = row->activity->ephemeral.count;
            client["private"] = row->activity->private_bytes.count;
            client["in_lane"] = row->activity->lane_bytes.count;
        }
        clients.push_back(client);
    }
    return clients;
}

}  // namespace

void WebModel::update(const Status& status, Instant now) {
    const int before = status_.service.pid;
    if (before != 0 && before != status.service.pid) ++restarts_;
    status_ = status;
    now_ = now;
    problem_.clear();
    if (!rated_ || now - *rated_ >= kRateOver) {
        rates_.update(status);
        rated_ = now;
    }
    remember(now);
}

void WebModel::lost(const std::string& why) { problem_ = why; }

void WebModel::remember(Instant now) {
    const std::map<std::uint32_t, Rows> jobs = by_job(status_);
    for (const auto& [number, rows] : jobs) {
        const auto [found, is_new] = past_.try_emplace(number);
        Past& past = found->second;
        if (is_new) past.first = past.last = now;
        const JobStatus& speaker = speaker_of(rows);
        if (const std::string reason = reason_of(speaker); !reason.empty())
            past.waited_s[reason] += (now - past.last).seconds();
        past.last = now;
        const double at_s = Duration{now.ns}.seconds();
        if (!past.samples.empty() && at_s - past.samples.back().ago_base_s < kSampleEvery.seconds()) continue;
        const Rate rate = rates_.of(speaker);
        Sample sample{at_s, rate.iterations_per_s.value_or(0), rate.share.value_or(0), 0, 0, speaker.state};
        for (const JobStatus* row : rows) {
            if (!is_on_device(*row)) continue;
            sample.persistent += row->activity->persistent.count;
            sample.ephemeral += row->activity->ephemeral.count;
        }
        past.samples.push_back(sample);
        if (past.samples.size() > kSamplesMax) past.samples.pop_front();
    }
    // As long as the service knows of them.
    std::erase_if(past_, [&](const auto& entry) { return !row_of(entry.first); });
}

const JobStatus* WebModel::row_of(std::uint32_t number) const {
    Rows rows;
    for (const JobStatus& row : status_.jobs) {
        if (row.job == number) rows.push_back(&row);
    }
    if (!rows.empty()) return &speaker_of(rows);
    const auto ended = std::ranges::find(status_.ended, number, &JobStatus::job);
    return ended == status_.ended.end() ? nullptr : &*ended;
}

json WebModel::job_json(const Rows& rows, double weights) const {
    const JobStatus& row = speaker_of(rows);
    const Rate rate = rates_.of(row);
    const JobCells cells = cells_of(row, rate);
    json job = {{"job", row.job},
                {"name", row.name},
                {"user", cells.user},
                {"mine", row.user == viewer_.user},
                {"may_change", viewer_.may_change(row)},
                {"state", name_of(row.state)},
                {"why", cells.why},
                {"clients", rows.size()},
                {"gpu", or_null(row.gpu_number)},
                {"elapsed_s", row.elapsed.seconds()},
                {"command", row.command}};
    if (!row.activity) return job;
    const Activity& activity = *row.activity;
    std::int64_t persistent = 0, ephemeral = 0;
    for (const JobStatus* one : rows) {
        if (!one->activity) continue;
        persistent += one->activity->persistent.count;
        ephemeral += one->activity->ephemeral.count;
    }
    job.update({{"class", cells.client_class},
                {"lane", activity.lane == kNoLane ? json(nullptr) : json(index_of(activity.lane))},
                {"priority", activity.priority},
                {"weight", activity.weight},
                {"iterations", cells.iterations},
                {"rate", activity.launches > 0 ? json(nullptr) : or_null(rate.iterations_per_s)},
                {"share", or_null(rate.share)},
                {"of_alone", or_null(rate.of_alone)},
                {"fair", has_share(row) && weights > 0 ? json(activity.weight / weights) : json(nullptr)},
                {"left_s", activity.left ? json(activity.left->seconds()) : json(nullptr)},
                {"p", persistent},
                {"t", ephemeral},
                {"paged_out", row.state == JobState::kPagedOut},
                {"waited_s", activity.waited.seconds()},
                {"device_s", std::max(activity.attained, activity.busy).seconds()}});
    if (activity.length && activity.length->iterations > 0 && activity.launches == 0)
        job["progress"] =
            std::min(1.0, static_cast<double>(activity.iterations) / static_cast<double>(activity.length->iterations));
    return job;
}

json WebModel::jobs_json() const {
    const std::map<std::uint32_t, Rows> jobs = by_job(status_);
    std::map<std::optional<unsigned>, double> weights;  // by device
    for (const auto& [number, rows] : jobs) {
        if (const JobStatus& row = speaker_of(rows); has_share(row)) weights[row.gpu_number] += row.activity->weight;
    }
    json out = json::array();
    for (const auto& [number, rows] : jobs) out.push_back(job_json(rows, weights[speaker_of(rows).gpu_number]));
    return out;
}

json WebModel::ended_json() const {
    json out = json::array();
    for (auto row = status_.ended.rbegin(); row != status_.ended.rend(); ++row) {
        out.push_back({{"job", row->job},
                       {"name", row->name},
                       {"user", cells_of(*row, {}).user},
                       {"mine", row->user == viewer_.user},
                       {"elapsed_s", row->elapsed.seconds()},
                       {"ended_unix_s", row->end ? row->end->at_unix_s : 0},
                       {"status", row->end ? or_null(row->end->exit_status) : json(nullptr)},
                       {"command", row->command}});
    }
    return out;
}

namespace {

/// The parts of the capacity in use, and what the jobs' peaks would be without lanes.
json memory_json(const Status& of_device) {
    const ServiceStatus& service = of_device.service;
    json jobs = json::array();
    std::int64_t known = 0;
    std::int64_t ephemeral = 0;
    std::int64_t in_lanes = 0;
    for (const auto& [number, rows] : by_job(of_device)) {
        std::int64_t bytes = 0;
        for (const JobStatus* row : rows) {
            if (!is_on_device(*row)) continue;
            bytes += row->activity->persistent.count;
            if (row->activity->lane != kNoLane) ephemeral += row->activity->ephemeral.count;
        }
        if (bytes > 0) jobs.push_back({{"job", number}, {"bytes", bytes}});
        known += bytes;
    }
    json lanes = json::array();
    for (const LaneStatus& lane : service.lanes) {
        std::uint32_t holder = 0;
        for (const JobStatus& row : of_device.jobs) {
            if (lane.holder != kNoClient && row.client == lane.holder) holder = row.job;
        }
        const Bytes charge = std::max(lane.size, lane.charge);
        lanes.push_back({{"lane", index_of(lane.lane)}, {"bytes", charge.count}, {"holder", holder}});
        in_lanes += charge.count;
    }
    return {{"capacity", service.capacity.count},
            {"reserved", service.reserved.count},
            {"jobs", jobs},
            {"lanes", lanes},
            // Of jobs that start or have just left, and a crew's or a profiling client's part beyond its P.
            {"other", std::max<std::int64_t>(service.reserved.count - known - in_lanes, 0)},
            {"saved", std::max<std::int64_t>(ephemeral - in_lanes, 0)}};
}

}  // namespace

json WebModel::devices_json() const {
    json out = json::array();
    for (const Status& one : by_device(status_)) {
        const ServiceStatus& device = one.service;
        out.push_back({{"number", device.number},
                       {"label", device.label()},
                       {"lost", device.lost},
                       {"busy_share", or_null(device.busy_share)},
                       {"gates_closed_share", device.gates_closed_share},
                       {"memory", memory_json(one)}});
    }
    return out;
}

json WebModel::service_json() const {
    const ServiceStatus& service = status_.service;
    Statistics sums;
    Bytes orphans;
    bool recording = true;
    for (const DeviceStatus& device : devices_of(service)) {
        sums.page_outs += device.statistics.page_outs;
        sums.denials += device.statistics.denials;
        sums.refusals += device.statistics.refusals;
        sums.fallbacks += device.statistics.fallbacks;
        orphans += device.held_by_orphans;
        recording = recording && device.trace.recording;
    }
    return {{"version", service.version},
            {"pid", service.pid},
            {"device", service.device},
            {"gpu", service.gpu},
            {"policy", service.policy},
            {"paging", service.paging},
            {"uptime_s", service.uptime.seconds()},
            {"mps", !service.mps.empty()},
            {"restarts", restarts_},
            {"recording", recording},
            {"page_outs", sums.page_outs},
            {"denials", sums.denials},
            {"refusals", sums.refusals},
            {"fallbacks", sums.fallbacks},
            {"orphans", orphans.count}};
}

json WebModel::overview() const {
    if (!problem_.empty()) return {{"problem", problem_}, {"read_only", viewer_.read_only}};
    return {{"read_only", viewer_.read_only},
            {"service", service_json()},
            {"devices", devices_json()},
            {"jobs", jobs_json()},
            {"ended", ended_json()}};
}

std::optional<json> WebModel::job(std::uint32_t number) const {
    const JobStatus* row = row_of(number);
    if (!row) return std::nullopt;
    Rows rows;
    for (const JobStatus& one : status_.jobs) {
        if (one.job == number) rows.push_back(&one);
    }
    json samples = json::array();
    json waited = json::object();
    if (const auto past = past_.find(number); past != past_.end()) {
        for (const Sample& sample : past->second.samples) {
            const double ago_s = Duration{now_.ns}.seconds() - sample.ago_base_s;
            samples.push_back(
                {ago_s, sample.per_s, sample.share, sample.persistent, sample.ephemeral, name_of(sample.state)});
        }
        for (const auto& [reason, seconds] : past->second.waited_s) waited[reason] = seconds;
    }
    json out = {{"job", number}, {"clients", clients_json(rows)}, {"samples", samples}, {"waited_s", waited}};
    if (row->activity && !row->activity->iteration_memory.most.empty()) {
        const IterationMemory& memory = row->activity->iteration_memory;
        json& curve =
            out["iteration_memory"] = {{"least_bytes", memory.least.count}, {"step_ms", memory.step.seconds() * 1e3}};
        for (const Bytes bytes : memory.most) curve["most_bytes"].push_back(bytes.count);
    }
    return out;
}

}  // namespace salus::cli
