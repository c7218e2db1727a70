#include "status/prometheus.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/characters.h"

namespace salus {
namespace {

/// Writes samples. All samples of a family stand together, after its head.
class Page {
public:
    void family(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    }
    void sample(std::string_view labels, std::integral auto value) { line("", labels, value); }
    void sample(std::string_view labels, double value) { line("", labels, value); }
    void sample(std::string_view labels, Bytes value) { line("", labels, std::max(value, Bytes{}).count); }
    void sample(std::string_view labels, Duration value) { line("", labels, in_seconds(value)); }

    void histogram(std::string_view labels, const Histogram& times) {
        const std::vector<std::string>& ends = ends_of_buckets(times);
        std::uint64_t so_far = 0;
        for (std::size_t i = 0; i < times.counts.size(); ++i) {
            so_far += times.counts[i];
            add({name_, "_bucket{", labels, ends[i]});
            add_value(so_far);
        }
        line("_sum", labels, in_seconds(times.sum));
        line("_count", labels, so_far);
    }

    std::string take() { return std::move(text_); }

private:
    /// A division: 0.0002, where a product would be 0.00019999999999999998.
    static double in_seconds(Duration time) { return static_cast<double>(time.ns) / 1e9; }

    void line(std::string_view suffix, std::string_view labels, const auto& value) {
        add({name_, suffix, "{", labels, "} "});
        add_value(value);
    }
    /// Most of a scrape's time is spent here: so pieces are put together without a format.
    void add(std::initializer_list<std::string_view> pieces) {
        for (const std::string_view piece : pieces) text_ += piece;
    }
    void add_value(std::integral auto value) {
        const fmt::format_int digits(value);
        add({std::string_view(digits.data(), digits.size()), "\n"});
    }
    void add_value(double value) { fmt::format_to(std::back_inserter(text_), "{}\n", value); }

    /// What follows the labels of each bucket.
    const std::vector<std::string>& ends_of_buckets(const Histogram& times) {
        std::vector<std::string>& ends = ends_[times.least.ns];
        for (std::size_t i = ends.size(); i < Histogram::kSteps.size(); ++i)
            ends.push_back(fmt::format(",le=\"{}\"}} ", in_seconds(times.bound(i))));
        if (ends.size() < Histogram::kPlaces) ends.emplace_back(",le=\"+Inf\"} ");
        return ends;
    }

    std::string text_;
    std::string_view name_;
    std::map<std::int64_t, std::vector<std::string>> ends_;  ///< by the first bound
};

/// The earlier a state stands here, the more it says about a job of which a process is in it. To know of unseen processes,
/// the device would have to be asked at each scrape.
constexpr std::array kStatesByRank = {
    JobState::kRunning, JobState::kGrowing, JobState::kPaging,    JobState::kWaiting,  JobState::kAsleep,
    JobState::kStopped, JobState::kPaused,  JobState::kSuspended, JobState::kIdle,     JobState::kPagedOut,
    JobState::kRefused, JobState::kLost,    JobState::kLeaving,   JobState::kUnshared, JobState::kStarting,
};

/// All rows of one job.
struct JobRows {
    const JobStatus* first = nullptr;
    const JobTotals* totals = nullptr;
    std::string labels{};
    JobState state = JobState::kUnknown;
    bool interactive = false;
    Bytes on_device{};
    Bytes paged_out{};
    Bytes ephemeral{};
};

std::string with(std::string_view labels, std::string_view name, std::string_view value) {
    return fmt::format("{},{}=\"{}\"", labels, name, value);
}

std::string labels_of(const DeviceStatus& device) { return fmt::format("device_uuid=\"{}\"", label_value(device.label())); }

std::string user_of(const JobStatus& row) {
    if (!row.user_name.empty()) return row.user_name;
    return row.user == kNoUser ? "" : fmt::format("{}", static_cast<std::uint32_t>(row.user));
}

std::string labels_of(const JobStatus& row, const Status& status) {
    std::string labels = fmt::format("job_id=\"{}\"", row.job);
    // A label without a value is the same as none.
    if (!row.name.empty()) labels += fmt::format(",job_name=\"{}\"", label_value(row.name));
    if (const std::string user = user_of(row); !user.empty()) labels += fmt::format(",user=\"{}\"", label_value(user));
    return labels + fmt::format(",device_uuid=\"{}\"", label_value(row.gpu.empty() ? status.service.label() : row.gpu));
}

void add(JobRows& job, const JobStatus& row) {
    const auto rank = [](JobState state) { return std::ranges::find(kStatesByRank, state) - kStatesByRank.begin(); };
    if (rank(row.state) < rank(job.state)) job.state = row.state;
    if (!row.activity) return;
    job.interactive = job.interactive || row.activity->interactive;
    job.on_device += row.activity->on_device;
    job.paged_out += row.activity->paged_out;
    job.ephemeral += row.activity->ephemeral;
}

std::vector<JobRows> jobs_of(const Status& status, std::span<const JobTotals> totals) {
    std::map<std::uint32_t, JobRows> jobs;
    for (const JobStatus& row : status.jobs) {
        JobRows& job = jobs[row.job];
        if (!job.first) job = {.first = &row, .labels = labels_of(row, status)};
        add(job, row);
    }
    for (const JobTotals& of_job : totals) {
        if (const auto job = jobs.find(of_job.job); job != jobs.end()) job->second.totals = &of_job;
    }
    std::vector<JobRows> all;
    for (JobRows& job : jobs | std::views::values) all.push_back(std::move(job));
    return all;
}

// ------------------------------------------------------------------------------------------------------- the device

/// Calls `write` for each device, with its labels.
void for_each_device(const Status& status, const auto& write) {
    for (const DeviceStatus& device : devices_of(status.service)) write(device, labels_of(device));
}

/// T of all jobs that have a lane there.
Bytes needed_on(const DeviceStatus& device, const Status& status) {
    Bytes needed;
    for (const JobStatus& row : status.jobs) {
        const bool is_there = row.gpu_number.value_or(device.number) == device.number;
        if (is_there && row.activity && row.activity->lane != kNoLane) needed += row.activity->ephemeral;
    }
    return needed;
}

Bytes lanes_of(const DeviceStatus& device) {
    Bytes lanes;
    for (const LaneStatus& lane : device.lanes) lanes += lane.charge;
    return lanes;
}

void write_devices(Page& page, const Status& status) {
    const ServiceStatus& service = status.service;
    page.family("salus_service_info", "gauge", "What the service is; always 1.");
    for_each_device(status, [&](const DeviceStatus&, const std::string& labels) {
        page.sample(with(with(labels, "version", label_value(service.version)), "policy", label_value(service.policy)), 1);
    });
    page.family("salus_device_memory_bytes", "gauge",
                "The device's memory: persistent and lanes of the jobs, orphans of an earlier service, others, and free.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        const Bytes lanes = lanes_of(device);
        page.sample(with(labels, "kind", "persistent"), device.reserved - lanes);
        page.sample(with(labels, "kind", "lanes"), lanes);
        page.sample(with(labels, "kind", "orphans"), device.held_by_orphans);
        page.sample(with(labels, "kind", "others"), device.used_by_others);
        page.sample(with(labels, "kind", "free"), device.capacity - device.reserved);
    });
    page.family("salus_device_memory_saved_bytes", "gauge",
                "What the jobs' ephemeral memory would take beyond the lanes if they did not share them.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        page.sample(labels, needed_on(device, status) - lanes_of(device));
    });
    page.family("salus_device_busy_ratio", "gauge",
                "The part of the last second in which the GPU worked; of other devices, that jobs were inside iterations.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        if (device.busy_share) page.sample(labels, *device.busy_share);
    });
    page.family("salus_device_gates_closed_ratio", "gauge", "The part of the last second in which gates were closed.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        page.sample(labels, device.gates_closed_share);
    });
    page.family("salus_device_lost", "gauge", "1: the device has failed or was taken away, and takes no jobs any more.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        page.sample(labels, device.lost.empty() ? 0 : 1);
    });

    Bytes pinned, memory, paged;
    for (const JobStatus& row : status.jobs) {
        if (!row.activity) continue;
        pinned += row.activity->paged_pinned;
        memory += row.activity->paged_memory;
        paged += row.activity->paged_out;
    }
    page.family("salus_host_pool_bytes", "gauge", "Memory of jobs that is paged out to the host.");
    page.sample("tier=\"pinned\",kind=\"used\"", pinned);
    page.sample("tier=\"memory\",kind=\"used\"", memory);
    page.sample("tier=\"file\",kind=\"used\"", paged - pinned - memory);
}

void write_times(Page& page, const Status& status) {
    page.family("salus_page_bytes_total", "counter", "Memory of jobs that was paged out to the host, and back in.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        page.sample(with(labels, "direction", "out"), device.statistics.paged_out);
        page.sample(with(labels, "direction", "in"), device.statistics.paged_in);
    });
    page.family("salus_page_seconds", "histogram", "How long it took to page a job out or in.");
    for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
        page.histogram(with(labels, "direction", "out"), device.statistics.page_out_times);
        page.histogram(with(labels, "direction", "in"), device.statistics.page_in_times);
    });
    const auto family = [&](std::string_view name, std::string_view help, const Histogram Statistics::*times) {
        page.family(name, "histogram", help);
        for_each_device(status, [&](const DeviceStatus& device, const std::string& labels) {
            page.histogram(labels, device.statistics.*times);
        });
    };
    family("salus_turn_seconds", "How long turns lasted.", &Statistics::turn_times);
    family("salus_handover_seconds",
           "How long it took a job to give its lane back, once it was asked to: the rest of its iteration.",
           &Statistics::handover_times);
    family("salus_admission_wait_seconds", "How long newcomers waited to start and for their first turn.",
           &Statistics::admission_waits);
}

// --------------------------------------------------------------------------------------------------------- the jobs

void write_states(Page& page, std::span<const JobRows> jobs) {
    page.family("salus_jobs", "gauge", "The number of jobs in each state.");
    for (const JobState state : kStatesByRank) {
        const auto count = std::ranges::count(jobs, state, &JobRows::state);
        page.sample(fmt::format("state=\"{}\"", name_of(state)), count);
    }
}

void write_facts(Page& page, std::span<const JobRows> jobs) {
    page.family("salus_job_info", "gauge", "What a job is; always 1.");
    for (const JobRows& job : jobs) {
        std::string labels = with(job.labels, "class", job.interactive ? "interactive" : "batch");
        if (!job.first->command.empty()) labels = with(labels, "command", label_value(job.first->command));
        page.sample(labels, 1);
    }
    page.family("salus_job_memory_bytes", "gauge",
                "A job's memory: persistent on the device, persistent but paged out, and ephemeral in its lane.");
    for (const JobRows& job : jobs) {
        page.sample(with(job.labels, "kind", "persistent"), job.on_device);
        page.sample(with(job.labels, "kind", "paged_out"), job.paged_out);
        page.sample(with(job.labels, "kind", "ephemeral"), job.ephemeral);
    }
}

void write_waits(Page& page, const JobRows& job) {
    page.sample(with(job.labels, "reason", "start"), job.totals->waited_to_start);
    for (std::size_t i = 1; i < kWaitReasons; ++i) {
        const Duration time = job.totals->waited_for[i];
        const WaitReason reason{static_cast<std::uint8_t>(i)};
        // All jobs wait for turns now and then; a series for each other reason would be a dozen zeros.
        if (time != Duration{} || reason == WaitReason::kTurn)
            page.sample(with(job.labels, "reason", name_of(reason)), time);
    }
}

void write_totals(Page& page, std::span<const JobRows> jobs) {
    const auto for_each = [&](const auto& write) {
        for (const JobRows& job : jobs) {
            if (job.totals) write(job);
        }
    };
    page.family("salus_job_device_seconds_total", "counter", "Time that a job spent inside iterations.");
    for_each([&](const JobRows& job) { page.sample(job.labels, job.totals->busy); });
    page.family("salus_job_iterations_total", "counter", "Iterations that a job has completed.");
    for_each([&](const JobRows& job) { page.sample(job.labels, job.totals->iterations); });
    page.family("salus_job_wait_seconds_total", "counter", "Time that a job waited, by what it waited for.");
    for_each([&](const JobRows& job) { write_waits(page, job); });
    page.family("salus_job_iteration_seconds", "histogram", "How long a job's iterations took.");
    for_each([&](const JobRows& job) { page.histogram(job.labels, job.totals->iteration_times); });
    page.family("salus_job_request_seconds", "histogram",
                "How long the requests of an interactive job took, while batch jobs were beside it.");
    for_each([&](const JobRows& job) {
        if (job.interactive || job.totals->request_times.count() > 0) page.histogram(job.labels, job.totals->request_times);
    });
}

}  // namespace

std::string label_value(std::string_view text) {
    std::string value;
    for (const char c : printable(text)) {  // there is no end of line in it any more
        if (c == '\\' || c == '"') value += '\\';
        value += c;
    }
    return value;
}

std::string to_prometheus(const Status& status, std::span<const JobTotals> totals) {
    const std::vector<JobRows> jobs = jobs_of(status, totals);
    Page page;
    write_devices(page, status);
    write_times(page, status);
    write_states(page, jobs);
    write_facts(page, jobs);
    write_totals(page, jobs);
    return page.take();
}

}  // namespace salus
