// The state of a service: what it is, its lanes, its jobs. `salus ps`, `top`, `status` and their JSON are views of it.
//
// The service fills it in and sends it as JSON; the command line parses that. The keys name the units: _s for seconds, _ms
// for milliseconds, _bytes for memory, _unix_s for seconds since 1970. docs/service.md explains the keys of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/bytes.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "base/run_figures.h"
#include "base/time.h"
#include "core/engine.h"
#include "core/placement.h"
#include "core/types.h"

namespace salus {

// -------------------------------------------------------------------------------------------------------------- jobs

enum class JobState : std::uint8_t {
    kUnknown,   ///< the engine does not know the client (any more), or the name is of another version
    kStarting,  ///< none of its processes has attached yet
    kRunning,
    kWaiting,
    kIdle,       ///< it does not want to run
    kPaused,     ///< by `salus pause`
    kSuspended,  ///< by `salus suspend`
    kStopped,    ///< by a signal or a debugger
    kAsleep,     ///< it holds a lane in mid-iteration and does nothing
    kRefused,    ///< it could never fit
    kLeaving,    ///< it has hung up or was dropped; its process may still be there
    kPaging,     ///< its memory is being paged out or in
    kPagedOut,
    kGrowing,   ///< it waits in mid-iteration for more memory
    kUnshared,  ///< none of its processes has attached, and one has said that it will not
    kUnseen,    ///< a process of the job that uses the device and has not attached: its calls pass by the shim
    kLost,      ///< its device has failed or was taken away
    kEnded,
};
/// "running", "paged out"; empty for kUnknown.
std::string_view name_of(JobState state);
/// Whether it is one from which a client goes on by itself, so that a share of the device's time is its.
bool takes_turns(JobState state);
JobState job_state_from(std::string_view name);

/// Why a client does not run.
struct Wait {
    struct Behind {
        std::string name;       ///< "?": it has left
        std::uint32_t job = 0;  ///< 0: not known
    };
    std::optional<WaitReason> reason = WaitReason::kNothing;  ///< nothing: one that this version does not know
    std::optional<Behind> behind;  ///< the job that it waits for, or that holds most of the memory
    unsigned user_jobs_max = 0;    ///< the limit, if that is the reason; 0: not known
    Bytes user_memory_max = {};    ///< the same
};
/// The name as in the JSON; empty for kNothing.
std::string_view text_of(const std::optional<WaitReason>& reason);
std::optional<WaitReason> wait_reason_from(std::string_view text);

/// The memory that a client has in use over one of its last iterations: blocks of 1 MiB and more.
struct IterationMemory {
    Bytes least;
    Duration step;
    std::vector<Bytes> most;  ///< in each of equally long steps; empty: nothing is known
};

/// What a client has done, does and uses.
struct Activity {
    struct Length {
        std::uint64_t iterations = 0;
        bool is_past = false;  ///< from an earlier run, and perhaps wrong; otherwise stated by the job
    };
    Wait wait;
    LaneId lane = kNoLane;
    std::uint64_t iterations = 0;
    std::uint64_t iterations_before = 0;  ///< of them, done under an earlier service
    std::optional<Length> length;
    std::optional<Duration> left;          ///< estimated wall time that it still needs
    Duration busy;                         ///< inside iterations, by its own count; earlier services included
    Duration attained;                     ///< on the device, by the engine's count
    Duration iteration_time;               ///< mean on the device, if it has run enough; else as expected
    bool iteration_time_expected = false;  ///< it comes from an earlier run, or is stated
    Duration idle;                         ///< time in which it did not want to run, as far as the engine knows
    Duration waited;
    Duration waiting_now;
    Waits waited_for{};  ///< by the engine's count, also in mid-iteration
    Bytes persistent;
    Bytes ephemeral;
    Bytes on_device;      ///< its P that is there, or for which there is room
    Bytes paged_out;      ///< its P that is in host memory
    Bytes private_bytes;  ///< from here on: what its page says
    Bytes lane_bytes;
    Bytes missed_bytes;
    Bytes lane_peak;
    IterationMemory iteration_memory;
    std::uint64_t evacuations = 0;
    std::uint64_t page_outs = 0;
    std::uint64_t boundaries_delayed = 0;
    bool interactive = false;             ///< its class ...
    std::string class_reason;             ///< ... and why, for people
    bool beside = false;                  ///< it runs whoever else runs
    struct Company {                      ///< of one that runs at once with others, because that was measured to be faster
        std::vector<std::uint32_t> jobs;  ///< the others, by number
        double rate = 0;                  ///< of all at once, relative to taking turns; 0: not known yet
        double error = 0;                 ///< its standard error
    };
    std::optional<Company> company;
    struct Requests {  ///< of one that answers while others have gates
        std::uint64_t answered = 0;
        Duration p50, p99;  ///< of the last ones
    };
    Requests requests;
    std::uint64_t launches = 0;  ///< of one that shows no iterations, and takes turns by launches
    int priority = 0;
    double weight = 1;
    double occupancy = 1;     ///< share of the device that it can use alone
    bool suspending = false;  ///< it is suspended, and still has a turn, or its memory is on its way
    bool pageable = true;
    std::string stays_because;                     ///< why it is not, for people
    Bytes paged_pinned, paged_memory, paged_file;  ///< out of a GPU, by place, as its page says
    double memory_time_gib_s = 0;
};

/// Why a job that has no client yet does not start.
struct StartWait : Wait {};

/// How a job has ended.
struct JobEnd {
    std::int64_t at_unix_s = 0;
    std::optional<int> exit_status;  ///< 128 + the signal that ended it; nothing: its `salus run` was killed, or it had none
};

/// One client of a job, or a job that has none yet or any more.
struct JobStatus {
    std::uint32_t job = 0;
    ClientId client = kNoClient;
    std::string name;
    int pid = 0;            ///< of the client; of `salus run` if there is none yet
    UserId user = kNoUser;  ///< kNoUser: hidden from the viewer
    std::string user_name;  ///< the command line looks it up: that may take long, and the service must not wait
    Duration attached;      ///< time since it attached or, while it is starting, since it was announced
    JobState state = JobState::kUnknown;
    Duration elapsed;          ///< since the service first heard of the job; of a job that has ended, how long it ran
    std::string command;       ///< of `salus run`; for the job's user and root only
    std::string log;           ///< path, if it was detached
    std::string why_unshared;  ///< why it runs without sharing, or a process of it does
    std::optional<unsigned> gpu_number;                  ///< of its device; nothing: it has none yet
    std::string gpu;                                     ///< its UUID; empty: it is the host
    PlacementReason placement = PlacementReason::kNone;  ///< why it is there
    std::optional<StartWait> start_wait;                 ///< of a job that must not start yet
    std::optional<RunFigures> past;                      ///< of an earlier run of its command, if the job has no client yet
    std::optional<Activity> activity;                    ///< of a client that the engine knows
    std::optional<JobEnd> end;                           ///< of a job that has ended
};

// ----------------------------------------------------------------------------------------------------------- service

struct LaneStatus {
    LaneId lane = kNoLane;
    Bytes size;
    Bytes charge;
    UserId user = kNoUser;  ///< kNoUser: hidden from the viewer
    ClientId holder = kNoClient;
};

struct TraceStatus {
    std::string path;
    std::string previous;
    bool recording = true;
    Bytes bytes;
};

/// One device of the service.
struct DeviceStatus {
    unsigned number = 0;  ///< by which users name it: a GPU's in the order of the PCI bus
    std::string device;   ///< "host", "cuda"
    std::string gpu;      ///< its UUID; of one of several host devices, its name
    std::string lost;     ///< why it takes no jobs any more; empty: it does
    std::string mps;      ///< the directory of its pipes; empty: new jobs run without
    Duration min_turn;
    Bytes capacity;
    Bytes reserved;
    Bytes held_by_orphans;
    Bytes used_by_others;           ///< by processes that are no clients, as far as the device tells
    double gates_closed_share = 0;  ///< of the last second
    /// Share of the last second in which the device worked, as a GPU says itself. Else the time that jobs were inside
    /// iterations, all together, at most 1. Nothing: not known yet.
    std::optional<double> busy_share;
    /// How far off expectations of iterations were: medians over the last jobs of which an earlier run, or they themselves,
    /// said how long one takes. Nothing: there were none.
    struct Pace {
        double ratio = 1;  ///< so many times as long ...
        Duration extra;    ///< ... and so much longer, which may be negative

        /// What an iteration is likely to take. Fixed costs add, a slow machine multiplies. Which of them it was is not
        /// known, so the smaller correction is taken.
        Duration of(Duration expected) const;
    };
    std::optional<Pace> pace;
    TraceStatus trace;
    Statistics statistics;
    std::vector<LaneStatus> lanes;
    double page_bytes_per_s = 0;

    /// For people: "GPU-…", "host".
    const std::string& label() const { return gpu.empty() ? device : gpu; }
};

/// What it has of a device is that of the first. With one device there is nothing more to know.
struct ServiceStatus : DeviceStatus {
    int pid = 0;
    std::string version;
    std::string socket;
    std::string metrics;  ///< where they are served; empty: nowhere
    std::string state_directory;
    Duration uptime;
    std::string policy;
    bool paging = false;
    unsigned lanes_max = 0;             ///< that may run at once; 0: as many as the policy wants
    bool share_by_user = false;         ///< time is shared between users first
    std::string placement;              ///< of batch jobs: "spread", "pack"
    std::vector<DeviceStatus> devices;  ///< all
};

/// All devices. A status that was not read or filled in by a service has only what the service itself says.
inline std::span<const DeviceStatus> devices_of(const ServiceStatus& service) {
    const DeviceStatus* const only = &service;
    return service.devices.empty() ? std::span(only, 1) : std::span<const DeviceStatus>(service.devices);
}

/// What a job has done since this service knows it: all its clients together, also those that have left. Only grows. For
/// the metrics; not in the JSON.
struct JobTotals {
    std::uint32_t job = 0;
    std::uint64_t iterations = 0;
    Duration busy;             ///< inside iterations
    Duration waited_to_start;  ///< before its process started
    Waits waited_for{};
    Histogram iteration_times{.least = microseconds(100)};
    Histogram request_times{.least = microseconds(100)};  ///< as far as they were timed

    /// Of another client of the job.
    JobTotals& operator+=(const JobTotals& other);
};

/// Grows when a key is renamed, removed or gets another meaning. New keys may appear at any time.
inline constexpr int kSchemaVersion = 1;

struct Status {
    int schema_version = kSchemaVersion;
    ServiceStatus service;
    std::vector<JobStatus> jobs;
    std::vector<JobStatus> ended;  ///< lately; the last one is the latest
};

nlohmann::json to_json(const Status& status);
nlohmann::json to_json(const TraceStatus& trace);
nlohmann::json to_json(const JobStatus& job);

/// Reads what to_json() wrote. A missing or unexpected field keeps its default: the service may be a little older or newer.
Status status_from(const nlohmann::json& document);
/// The same service as if it had only this device, with the jobs that are there. For views that show one device.
/// REQUIRES: there is one at this place.
Status status_of_device(const Status& status, std::size_t place);
JobStatus job_status_from(const nlohmann::json& document);
TraceStatus trace_status_from(const nlohmann::json& document);

}  // namespace salus
