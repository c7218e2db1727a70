// What `salus report` prints: what a job has cost, and what sharing has gained. Pure: a recorded run and a status in, text
// out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/recorded_run.h"
#include "status/status.h"

namespace salus::cli {

/// Sums over the job's clients.
struct JobReport {
    std::uint32_t job = 0;
    std::string name;
    std::string command;
    JobState state = JobState::kUnknown;
    std::optional<int> exit_status;
    Duration wall;                         ///< since its first client attached
    Duration device;                       ///< in its turns
    std::map<WaitReason, Duration> waits;  ///< why it did not run, and for how long
    std::uint64_t turns = 0;
    std::uint64_t iterations = 0;
    std::optional<Activity::Length> length;
    Bytes persistent, ephemeral;         ///< the most
    IterationMemory iteration_memory;    ///< of one that runs: over one of its last iterations
    double memory_time_gib_s = 0;        ///< P while on the device, T while running
    double memory_time_alone_gib_s = 0;  ///< P and T all the time, as if it had a part of the device of its own

    Duration waited() const;
    /// Share of its speed alone: of the time in which it did not wait.
    std::optional<double> of_alone() const;
    std::optional<double> iterations_per_s() const;
};

/// The job that the user means, by number or by name: of those in the status the one that runs, else the one that ended
/// last; of those in the trace alone the last one. 0: there is none.
std::uint32_t number_of_job(const std::string& text, const Status& status, const sim::RecordedRun& run);

/// From what the trace has recorded, and what the service says now.
JobReport report_of(std::uint32_t job, const Status& status, const sim::RecordedRun& run);

/// One screen.
std::string format_report(const JobReport& report);
/// The same for programs; keys end in their units.
nlohmann::json report_json(const JobReport& report);

}  // namespace salus::cli
