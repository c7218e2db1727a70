// Jobs: what users started, who runs it, and what it is called. The clients of a job are sessions of the shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/run_figures.h"
#include "base/time.h"
#include "history/command.h"
#include "history/store.h"
#include "os/socket.h"
#include "shell/ports.h"
#include "wire/messages.h"

namespace salus::service {

/// What a user started. With `salus run` it has a runner, which lives as long as the job.
struct Job {
    std::uint32_t id = 0;
    std::string name;
    unsigned uid = 0;
    int runner_pid = 0;  ///< 0: none
    shell::ConnectionId runner_connection = 0;
    std::string log;                 ///< path, if it was detached
    std::optional<DeviceId> device;  ///< where it was placed
    Instant started;

    history::CommandKeys keys;
    std::string command;
    bool joins_mps = false;
    bool told_of_wait = false;  ///< its runner was
    history::Figures past;      ///< what earlier runs showed
    history::Figures gone;      ///< what those of its clients showed that have left
};

class Jobs {
public:
    /// `numbers` is a file: after a restart of the service, no new job gets a number that may belong to a job that comes
    /// back. Empty: there is none.
    explicit Jobs(std::string numbers = {});

    /// The job of the number `wanted`, if it is the user's; else a new one. That has the number `wanted` if it is free: a
    /// job keeps the number that the last service gave it.
    Job& add(std::uint32_t wanted, std::string_view name, unsigned uid, Instant now);
    /// Those go that have neither a runner nor clients: their numbers.
    std::vector<std::uint32_t> drop_ended(const std::function<bool(const Job&)>& has_clients);

    /// The service ends. If it has no jobs, the next one counts from 1 again.
    void service_ends();

    Job* find(std::uint32_t id);
    Job& at(std::uint32_t id) { return jobs_.at(id); }
    const Job& at(std::uint32_t id) const { return jobs_.at(id); }
    /// An error, in a line, if there is none, if several have that name, or if it is another user's than the peer.
    Result<Job*> named(const os::Peer& peer, const wire::JobReference& which);
    /// Those that were placed on a device.
    std::size_t on(DeviceId device) const;
    std::size_t on_mps_of(DeviceId device) const;

    std::size_t size() const { return jobs_.size(); }
    auto begin() { return jobs_.begin(); }
    auto end() { return jobs_.end(); }
    auto begin() const { return jobs_.begin(); }
    auto end() const { return jobs_.end(); }

private:
    void keep_next() const;

    std::map<std::uint32_t, Job> jobs_;
    std::string numbers_;
    std::uint32_t next_ = 1;  ///< the number of the next job that has none yet
};

}  // namespace salus::service
