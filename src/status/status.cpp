#include "status/status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

namespace salus {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<JobState, std::string_view>, 17> kStates = {{{JobState::kUnshared, "unshared"},
                                                                            {JobState::kStarting, "starting"},
                                                                            {JobState::kRunning, "running"},
                                                                            {JobState::kWaiting, "waiting"},
                                                                            {JobState::kIdle, "idle"},
                                                                            {JobState::kPaused, "paused"},
                                                                            {JobState::kSuspended, "suspended"},
                                                                            {JobState::kStopped, "stopped"},
                                                                            {JobState::kAsleep, "asleep"},
                                                                            {JobState::kRefused, "refused"},
                                                                            {JobState::kLeaving, "leaving"},
                                                                            {JobState::kPaging, "paging"},
                                                                            {JobState::kPagedOut, "paged out"},
                                                                            {JobState::kGrowing, "growing"},
                                                                            {JobState::kUnseen, "unseen"},
                                                                            {JobState::kLost, "lost"},
                                                                            {JobState::kEnded, "ended"}}};

/// Longer does not fit into a Duration.
constexpr double kLongest_s = 9e9;

template <typename T>
concept Id = std::same_as<T, ClientId> || std::same_as<T, LaneId> || std::same_as<T, UserId>;
/// Of `kNo...`, which is left out.
constexpr bool is_none(UserId id) { return id == kNoUser; }
constexpr bool is_none(ClientId id) { return id == kNoClient; }
constexpr bool is_none(LaneId id) { return id == kNoLane; }

// Note [One list of fields]
// list() names the fields of each struct once. A Writer walks the list to make JSON, a Reader to parse it. So both use the
// same keys and units.

class Writer {
public:
    explicit Writer(json& object) : object_(object) { object_ = json::object(); }

    template <typename T>
    requires std::is_arithmetic_v<T>
    void operator()(const char* key, T value) { object_[key] = value; }
    void operator()(const char* key, const std::string& text) { object_[key] = text; }
    void operator()(const char* key, Bytes bytes) { object_[key] = bytes.count; }
    template <Id T>
    void operator()(const char* key, T id) {
        if (!is_none(id)) object_[key] = static_cast<std::uint32_t>(id);
    }
    void operator()(const char* key, JobState state) {
        if (state != JobState::kUnknown) object_[key] = name_of(state);
    }
    void operator()(const char* key, const std::optional<WaitReason>& reason) { object_[key] = text_of(reason); }

    template <typename T>
    requires std::is_arithmetic_v<T>
    void operator()(const char* key, const std::optional<T>& number) {
        if (number) object_[key] = *number;
    }
    void operator()(const char* key, PlacementReason reason) {
        if (reason != PlacementReason::kNone) object_[key] = name_of(reason);
    }

    void seconds(const char* key, Duration time) { object_[key] = time.seconds(); }
    void seconds(const char* key, const std::optional<Duration>& time) {
        if (time) seconds(key, *time);
    }
    void milliseconds(const char* key, Duration time) { object_[key] = time.seconds() * 1e3; }
    void unless_zero(const char* key, std::uint32_t number) {
        if (number != 0) object_[key] = number;
    }
    void numbers(const char* key, const std::vector<std::uint32_t>& values) { object_[key] = values; }
    void numbers(const char* key, const std::vector<Bytes>& values) {
        json& array = object_[key] = json::array();
        for (const Bytes value : values) array.push_back(value.count);
    }
    void unless_zero(const char* key, Bytes bytes) {
        if (bytes != Bytes{}) object_[key] = bytes.count;
    }
    void choice(const char* key, bool value, const char* if_true, const char* if_false) {
        object_[key] = value ? if_true : if_false;
    }
    /// By reason; those for which nobody waited are left out.
    void seconds(const char* key, const Waits& waits) {
        json& by_reason = object_[key] = json::object();
        for (std::size_t i = 0; i < kWaitReasons; ++i) {
            if (waits[i] != Duration{})
                by_reason[std::string(name_of(WaitReason{static_cast<std::uint8_t>(i)}))] = waits[i].seconds();
        }
    }

    template <typename T>
    void part(const char* key, const T& value) {
        Writer writer(object_[key]);
        list(writer, value);
    }
    template <typename T>
    void parts(const char* key, const std::vector<T>& values) {
        json& array = object_[key] = json::array();
        for (const T& value : values) {
            Writer writer(array.emplace_back());
            list(writer, value);
        }
    }
    template <typename T>
    void part_if(bool holds, const char* key, const T& value) {
        if (holds) part(key, value);
    }
    /// Its fields are written among ours. `key` is a field that it always has.
    template <typename T>
    void among(const char* /*key*/, const std::optional<T>& value) {
        if (value) list(*this, *value);
    }

private:
    json& object_;
};

class Reader {
public:
    explicit Reader(const json& object) : object_(object) {}

    template <std::integral T>
    void operator()(const char* key, T& value) {
        const json* found = find(key);
        if (!found || !found->is_number_integer()) return;
        if (found->is_number_unsigned()) assign(value, found->get<std::uint64_t>());
        else assign(value, found->get<std::int64_t>());
    }
    void operator()(const char* key, bool& value) {
        if (const json* found = find(key); found && found->is_boolean()) value = found->get<bool>();
    }
    void operator()(const char* key, double& value) { value = number(key).value_or(value); }
    void operator()(const char* key, std::string& text) {
        if (const json* found = find(key); found && found->is_string()) text = found->get<std::string>();
    }
    void operator()(const char* key, Bytes& bytes) {
        std::int64_t count = -1;
        (*this)(key, count);
        if (count >= 0) bytes = {count};
    }
    template <Id T>
    void operator()(const char* key, T& id) {
        auto number = static_cast<std::uint32_t>(id);
        (*this)(key, number);
        id = T{number};
    }
    void operator()(const char* key, JobState& state) { state = job_state_from(text(key)); }
    void operator()(const char* key, std::optional<WaitReason>& reason) { reason = wait_reason_from(text(key)); }

    template <std::integral T>
    void operator()(const char* key, std::optional<T>& value) {
        if (find(key)) (*this)(key, value.emplace());
    }
    void operator()(const char* key, std::optional<double>& value) { value = number(key); }
    void operator()(const char* key, PlacementReason& reason) { reason = placement_reason_from(text(key)); }

    void seconds(const char* key, Duration& time) { time = duration(key, 1).value_or(time); }
    void seconds(const char* key, std::optional<Duration>& time) { time = duration(key, 1); }
    void seconds(const char* key, Waits& waits) {
        const json* found = find(key);
        if (!found) return;
        const Reader by_reason(*found);
        for (std::size_t i = 0; i < kWaitReasons; ++i) {
            const std::string reason(name_of(WaitReason{static_cast<std::uint8_t>(i)}));
            waits[i] = by_reason.duration(reason.c_str(), 1).value_or(waits[i]);
        }
    }
    void milliseconds(const char* key, Duration& time) { time = duration(key, 1e-3).value_or(time); }
    void unless_zero(const char* key, std::uint32_t& number) { (*this)(key, number); }
    void numbers(const char* key, std::vector<std::uint32_t>& values) {
        const json* found = find(key);
        if (!found || !found->is_array()) return;
        for (const json& element : *found) {
            if (element.is_number_unsigned()) assign(values.emplace_back(), element.get<std::uint64_t>());
        }
    }
    void numbers(const char* key, std::vector<Bytes>& values) {
        const json* found = find(key);
        if (!found || !found->is_array()) return;
        for (const json& element : *found) {
            if (element.is_number_integer()) values.push_back({std::max(element.get<std::int64_t>(), std::int64_t{0})});
        }
    }
    void unless_zero(const char* key, Bytes& bytes) { (*this)(key, bytes); }
    void choice(const char* key, bool& value, const char* if_true, const char* /*if_false*/) {
        value = text(key) == if_true;
    }

    template <typename T>
    void part(const char* key, T& value) {
        static const json nothing;
        const json* found = find(key);
        Reader reader(found ? *found : nothing);
        list(reader, value);
    }
    template <typename T>
    void part_if(bool /*holds*/, const char* key, T& value) {
        part(key, value);
    }
    template <typename T>
    void parts(const char* key, std::vector<T>& values) {
        const json* found = find(key);
        if (!found || !found->is_array()) return;
        for (const json& element : *found) {
            Reader reader(element);
            list(reader, values.emplace_back());
        }
    }
    template <typename T>
    void among(const char* key, std::optional<T>& value) {
        if (find(key)) list(*this, value.emplace());
    }

private:
    const json* find(const char* key) const {
        if (!object_.is_object()) return nullptr;
        const auto found = object_.find(key);
        return found == object_.end() ? nullptr : &*found;
    }
    template <typename T>
    static void assign(T& value, std::integral auto number) {
        if (std::in_range<T>(number)) value = static_cast<T>(number);
    }
    std::optional<double> number(const char* key) const {
        const json* found = find(key);
        return found && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
    }
    std::optional<Duration> duration(const char* key, double unit_s) const {
        const auto value = number(key);
        if (!value || !(std::fabs(*value) * unit_s <= kLongest_s)) return std::nullopt;
        return seconds_of(*value * unit_s);
    }
    std::string text(const char* key) {
        std::string found;
        (*this)(key, found);
        return found;
    }

    const json& object_;
};

/// S is T, const for a Writer.
template <typename S, typename T>
concept Some = std::same_as<std::remove_const_t<S>, T>;

template <typename Fields, Some<Wait::Behind> S>
void list(Fields& fields, S& behind) {
    fields("behind", behind.name);
    fields.unless_zero("behind_job", behind.job);
}

/// All but the reason, which has another key before a job has started.
template <typename Fields, typename S>
void list_about_wait(Fields& fields, S& wait) {
    fields.among("behind", wait.behind);
    fields.unless_zero("user_jobs_max", wait.user_jobs_max);
    fields.unless_zero("user_memory_max_bytes", wait.user_memory_max);
}

template <typename Fields, Some<Activity::Length> S>
void list(Fields& fields, S& length) {
    fields("iterations_total", length.iterations);
    fields.choice("estimate", length.is_past, "history", "stated");
}

template <typename Fields, Some<Activity::Company> S>
void list(Fields& fields, S& company) {
    fields.numbers("company", company.jobs);
    fields("company_rate", company.rate);
    fields("company_rate_error", company.error);
}

template <typename Fields, Some<IterationMemory> S>
void list(Fields& fields, S& memory) {
    fields("least_bytes", memory.least);
    fields.milliseconds("step_ms", memory.step);
    fields.numbers("most_bytes", memory.most);
}

template <typename Fields, Some<Activity> S>
void list(Fields& fields, S& activity) {
    fields("waits_for", activity.wait.reason);
    list_about_wait(fields, activity.wait);
    fields("lane", activity.lane);
    fields("iterations", activity.iterations);
    fields("iterations_before", activity.iterations_before);
    fields.among("iterations_total", activity.length);
    fields.seconds("left_s", activity.left);
    fields.seconds("busy_s", activity.busy);
    fields.seconds("attained_s", activity.attained);
    fields.milliseconds("iteration_ms", activity.iteration_time);
    fields.choice("iteration_time_is", activity.iteration_time_expected, "expected", "measured");
    fields.seconds("idle_s", activity.idle);
    fields.seconds("waited_s", activity.waited);
    fields.seconds("waiting_now_s", activity.waiting_now);
    fields.seconds("waited_for_s", activity.waited_for);
    fields("persistent_bytes", activity.persistent);
    fields("ephemeral_bytes", activity.ephemeral);
    fields("on_device_bytes", activity.on_device);
    fields("paged_out_bytes", activity.paged_out);
    fields("private_bytes", activity.private_bytes);
    fields("lane_bytes", activity.lane_bytes);
    fields("missed_bytes", activity.missed_bytes);
    fields("lane_peak_bytes", activity.lane_peak);
    fields.part_if(!activity.iteration_memory.most.empty(), "iteration_memory", activity.iteration_memory);
    fields("evacuations", activity.evacuations);
    fields("page_outs", activity.page_outs);
    fields("boundaries_delayed", activity.boundaries_delayed);
    fields("launches", activity.launches);
    fields.choice("class", activity.interactive, "interactive", "batch");
    fields("class_reason", activity.class_reason);
    fields("beside", activity.beside);
    fields.among("company", activity.company);
    fields("requests", activity.requests.answered);
    fields.milliseconds("request_p50_ms", activity.requests.p50);
    fields.milliseconds("request_p99_ms", activity.requests.p99);
    fields("priority", activity.priority);
    fields("weight", activity.weight);
    fields("occupancy", activity.occupancy);
    fields("suspending", activity.suspending);
    fields("pageable", activity.pageable);
    fields("stays_because", activity.stays_because);
    fields("paged_pinned_bytes", activity.paged_pinned);
    fields("paged_memory_bytes", activity.paged_memory);
    fields("paged_file_bytes", activity.paged_file);
    fields("memory_time_gib_s", activity.memory_time_gib_s);
}

template <typename Fields, Some<StartWait> S>
void list(Fields& fields, S& wait) {
    fields("start_waits_for", wait.reason);
    list_about_wait(fields, wait);
}

template <typename Fields, Some<JobEnd> S>
void list(Fields& fields, S& end) {
    fields("ended_unix_s", end.at_unix_s);
    fields("exit_status", end.exit_status);
}

template <typename Fields, Some<RunFigures> S>
void list(Fields& fields, S& past) {
    fields("past_iterations", past.iterations);
    fields.milliseconds("past_iteration_ms", past.iteration_time);
    fields("past_persistent_bytes", past.persistent);
    fields("past_ephemeral_bytes", past.ephemeral);
    fields.choice("past_class", past.interactive, "interactive", "batch");
}

template <typename Fields, Some<JobStatus> S>
void list(Fields& fields, S& job) {
    fields("job", job.job);
    fields("client", job.client);
    fields("name", job.name);
    fields("pid", job.pid);
    fields("uid", job.user);
    fields("user", job.user_name);
    fields.seconds("attached_s", job.attached);
    fields.seconds("elapsed_s", job.elapsed);
    fields("command", job.command);
    fields("state", job.state);
    fields.among("start_waits_for", job.start_wait);
    fields.among("past_iterations", job.past);
    fields("log", job.log);
    fields("why_unshared", job.why_unshared);
    fields("gpu_number", job.gpu_number);
    fields("gpu", job.gpu);
    fields("placement", job.placement);
    fields.among("iterations", job.activity);
    fields.among("ended_unix_s", job.end);
}

template <typename Fields, Some<LaneStatus> S>
void list(Fields& fields, S& lane) {
    fields("lane", lane.lane);
    fields("size_bytes", lane.size);
    fields("charge_bytes", lane.charge);
    fields("uid", lane.user);
    fields("holder", lane.holder);
}

template <typename Fields, Some<TraceStatus> S>
void list(Fields& fields, S& trace) {
    fields("path", trace.path);
    fields("previous", trace.previous);
    fields("recording", trace.recording);
    fields("bytes", trace.bytes);
}

template <typename Fields, Some<Statistics> S>
void list(Fields& fields, S& statistics) {
    fields("turns", statistics.turns);
    fields("switches", statistics.switches);
    fields("yields_asked", statistics.yields_asked);
    fields("revokes", statistics.revokes);
    fields("admissions", statistics.admissions);
    fields("refusals", statistics.refusals);
    fields("denials", statistics.denials);
    fields("page_outs", statistics.page_outs);
    fields("page_ins", statistics.page_ins);
    fields("paged_bytes", statistics.paged);
    fields("profiling_turns", statistics.profiling_turns);
    fields("lanes_opened", statistics.lanes_opened);
    fields("lane_resizes", statistics.lane_resizes);
    fields("rehomings", statistics.rehomings);
    fields("reservations", statistics.reservations);
    fields("fallbacks", statistics.fallbacks);
    fields("gate_closings", statistics.gate_closings);
    fields("reserved_peak_bytes", statistics.reserved_peak);
}

template <typename Fields, Some<DeviceStatus::Pace> S>
void list(Fields& fields, S& pace) {
    fields("iteration_pace", pace.ratio);
    fields.milliseconds("iteration_extra_ms", pace.extra);
}

/// A service with one device has the keys of that among its own.
template <typename Fields, typename S>
void list_device(Fields& fields, S& device) {
    fields("device", device.device);
    fields("gpu", device.gpu);
    fields("mps", device.mps);
    fields.milliseconds("min_turn_ms", device.min_turn);
    fields("capacity_bytes", device.capacity);
    fields("reserved_bytes", device.reserved);
    fields("page_bytes_per_s", device.page_bytes_per_s);
    fields("gates_closed_share", device.gates_closed_share);
    fields("busy_share", device.busy_share);
    fields.among("iteration_pace", device.pace);
    fields("held_by_orphans_bytes", device.held_by_orphans);
    fields("used_by_others_bytes", device.used_by_others);
    fields.part("trace", device.trace);
    fields.part("statistics", device.statistics);
    fields.parts("lanes", device.lanes);
}

template <typename Fields, Some<DeviceStatus> S>
void list(Fields& fields, S& device) {
    fields("number", device.number);
    fields("lost", device.lost);
    list_device(fields, device);
}

template <typename Fields, Some<ServiceStatus> S>
void list(Fields& fields, S& service) {
    fields("pid", service.pid);
    fields("version", service.version);
    fields("socket", service.socket);
    fields("metrics", service.metrics);
    fields("state", service.state_directory);
    fields.seconds("uptime_s", service.uptime);
    fields("policy", service.policy);
    fields("paging", service.paging);
    fields("lanes_max", service.lanes_max);
    fields.choice("share_by", service.share_by_user, "user", "job");
    fields("placement", service.placement);
    list_device(fields, service);
    fields.parts("devices", service.devices);
}

template <typename Fields, Some<Status> S>
void list(Fields& fields, S& status) {
    fields("schema_version", status.schema_version);
    fields.part("service", status.service);
    fields.parts("jobs", status.jobs);
    fields.parts("ended", status.ended);
}

template <typename T>
json written(const T& value) {
    json document;
    Writer writer(document);
    list(writer, value);
    return document;
}

template <typename T>
T read(const json& document) {
    T value;
    Reader reader(document);
    list(reader, value);
    return value;
}

}  // namespace

Duration DeviceStatus::Pace::of(Duration expected) const {
    const Duration slower = seconds_of(expected.seconds() * (ratio - 1));
    const Duration change = std::abs(slower.ns) < std::abs(extra.ns) ? slower : extra;
    return std::max(expected + change, Duration{});
}

JobTotals& JobTotals::operator+=(const JobTotals& other) {
    iterations += other.iterations;
    busy = sum_within_reason(busy, other.busy);
    waited_to_start += other.waited_to_start;
    for (std::size_t i = 0; i < kWaitReasons; ++i) waited_for[i] += other.waited_for[i];
    iteration_times += other.iteration_times;
    request_times += other.request_times;
    return *this;
}

std::string_view name_of(JobState state) {
    for (const auto& [known, name] : kStates) {
        if (known == state) return name;
    }
    return "";
}

bool takes_turns(JobState state) {
    switch (state) {
        case JobState::kStarting:
        case JobState::kRunning:
        case JobState::kWaiting:
        case JobState::kIdle:
        case JobState::kPaging:
        case JobState::kPagedOut:
        case JobState::kGrowing: return true;
        default: return false;
    }
}

JobState job_state_from(std::string_view name) {
    for (const auto& [state, known] : kStates) {
        if (known == name) return state;
    }
    return JobState::kUnknown;
}

std::string_view text_of(const std::optional<WaitReason>& reason) {
    if (!reason) return "?";
    return *reason == WaitReason::kNothing ? "" : name_of(*reason);
}

std::optional<WaitReason> wait_reason_from(std::string_view text) {
    for (auto i = static_cast<unsigned>(WaitReason::kNothing); i <= static_cast<unsigned>(WaitReason::kUserJobs); ++i) {
        const std::optional reason = static_cast<WaitReason>(i);
        if (text_of(reason) == text) return reason;
    }
    return std::nullopt;
}

json to_json(const Status& status) { return written(status); }
json to_json(const TraceStatus& trace) { return written(trace); }
json to_json(const JobStatus& job) { return written(job); }

/// The status of an older service has no list.
Status status_from(const json& document) {
    Status status = read<Status>(document);
    if (status.service.devices.empty()) status.service.devices.push_back(status.service);
    return status;
}

Status status_of_device(const Status& status, std::size_t place) {
    Status of_device = status;
    const DeviceStatus device = status.service.devices.at(place);
    static_cast<DeviceStatus&>(of_device.service) = device;
    of_device.service.devices = {device};
    std::erase_if(of_device.jobs, [&](const JobStatus& job) { return job.gpu_number != device.number; });
    return of_device;
}
JobStatus job_status_from(const json& document) { return read<JobStatus>(document); }
TraceStatus trace_status_from(const json& document) { return read<TraceStatus>(document); }

}  // namespace salus
