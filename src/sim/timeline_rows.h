// The rows of a timeline, and what is in them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/timeline.h"

namespace salus::sim {

struct TimelineTurn {
    std::size_t job = 0;
    Instant start;
    Instant end;
    bool profiling = false;
};

struct TimelineRow {
    std::string name = {};
    std::vector<TimelineTurn> turns = {};       ///< in order of start
    std::vector<TimelineTurn> requests = {};    ///< the same
    std::optional<TimelineTurn> presence = {};  ///< from when to when the row's job was there
};

/// At least one row. See Note [Rows].
std::vector<TimelineRow> rows_by_lane(const Panel& panel, std::span<const SimulatedJob> jobs);

/// One for each job that was there, in order of the jobs; at least one.
std::vector<TimelineRow> rows_by_job(const Panel& panel, std::span<const SimulatedJob> jobs);

}  // namespace salus::sim
