// Jobs: the commands that users started, their numbers, names and runners. The clients of a job are sessions of the shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/command.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/run_figures.h"
#include "base/time.h"
#include "core/placement.h"
#include "history/store.h"
#include "os/socket.h"
#include "shell/ports.h"
#include "shell/roster.h"
#include "shell/shell.h"
#include "status/status.h"
#include "wire/messages.h"

namespace salus::service {

/// What a job's user has said, or its environment says, about where it is to run.
struct Wishes {
    std::vector<DeviceId> devices;    ///< empty: any
    bool has_several = false;         ///< it was assigned several GPUs, of which the service shares `devices`
    bool is_assigned = false;         ///< by CUDA_VISIBLE_DEVICES; else by --gpu
    bool was_there = false;           ///< under the last service
    std::optional<bool> interactive;  ///< its class
    Bytes persistent, ephemeral;      ///< 0: not said

    bool operator==(const Wishes&) const = default;
};

/// A command that a user started. Its runner lives as long as the job: its `salus run`, or the process that joined by
/// itself.
struct Job {
    std::uint32_t id = 0;
    std::string name;
    unsigned uid = 0;
    int runner_pid = 0;  ///< 0: none
    shell::ProcessId runner;
    shell::UserSettings said;
    shell::ConnectionId runner_connection = 0;
    std::string log;                                     ///< path, if it was detached
    std::optional<DeviceId> device;                      ///< the device that it was placed on ...
    PlacementReason placement = PlacementReason::kNone;  ///< ... and why there
    Wishes wishes;
    Duration waited_elsewhere;  ///< to start, on devices that it was placed on before
    Instant started;

    CommandKeys keys;
    std::string command;
    bool joins_mps = false;
    bool told_of_start = false;  ///< its runner was told why it does not start
    bool told_of_wait = false;   ///< ... and that it waits for the device
    history::Figures past;       ///< of earlier runs
    history::Figures gone;       ///< of its clients that have left
    RunUse used_by_gone;
    JobTotals totals_of_gone;        ///< the same, for the metrics
    Duration busy_shown;             ///< there, so that it never falls
    std::optional<int> exit_status;  ///< of its command, when that has ended
    std::optional<Duration> took;    ///< how long it ran, by its runner, which may have seen several services
    std::string why_unshared;        ///< what a process of it, or its runner, has said
    bool took_part = false;          ///< it has had a runner or a client
    bool announced = false;          ///< it has had a runner, so its processes count as one job
    bool joined = false;             ///< its runner is its own process, which has joined by itself
    bool came_back = false;          ///< it ran before this service did, so how long it has run is not known here
};

struct EndedJob {
    Job job;
    Instant at;
    std::int64_t at_unix_s = 0;
};

class Jobs {
public:
    /// `numbers` is a file with the next number. So after a restart of the service, no new job gets the number of a job that
    /// may come back. Empty: there is no file.
    /// `hides_others`: users hear nothing of the names of others' jobs.
    explicit Jobs(std::string numbers = {}, bool hides_others = false);

    /// The job with the number `wanted` if it is the user's, else a new one. The new one gets the number `wanted` if that is
    /// free, because a job keeps the number that the last service assigned.
    Job& add(std::uint32_t wanted, std::string_view name, unsigned uid, Instant now);
    /// Removes the jobs that have neither a runner nor clients. Returns their numbers.
    std::vector<std::uint32_t> drop_ended(const std::function<bool(const Job&)>& has_clients, Instant now,
                                          std::int64_t now_unix_s);
    /// The last jobs that were removed, the latest last.
    static constexpr std::size_t kEndedMax = 50;
    const std::deque<EndedJob>& ended() const { return ended_; }
    const EndedJob* find_ended(std::uint32_t id) const;

    /// The service ends. If it has no jobs, the next service counts from 1 again.
    void service_ends();

    Job* find(std::uint32_t id);
    Job& at(std::uint32_t id) { return jobs_.at(id); }
    const Job& at(std::uint32_t id) const { return jobs_.at(id); }
    /// A name means the peer's own job, if they have one of that name. An error, in one line, if there is no such job, if
    /// several have that name, or if the job is not the peer's and the peer is not root.
    Result<Job*> named(const os::Peer& peer, const wire::JobReference& which);
    /// The peer's latest job of that number or name that has ended; null: none is remembered, or one runs.
    const EndedJob* ended_named(const os::Peer& peer, const wire::JobReference& which) const;
    /// The number of jobs that were placed on a device.
    std::size_t on(DeviceId device) const;
    std::size_t on_mps_of(DeviceId device) const;

    std::size_t size() const { return jobs_.size(); }
    auto begin() { return jobs_.begin(); }
    auto end() { return jobs_.end(); }
    auto begin() const { return jobs_.begin(); }
    auto end() const { return jobs_.end(); }

private:
    void keep_next() const;
    std::vector<std::string_view> names_for(const os::Peer& peer) const;

    std::map<std::uint32_t, Job> jobs_;
    std::deque<EndedJob> ended_;
    std::string numbers_;
    bool hides_others_ = false;
    std::uint32_t next_ = 1;  ///< the number of the next new job
};

}  // namespace salus::service
