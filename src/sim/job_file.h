// Job files: jobs as a CSV that people write and the simulator reads.
//
//   name,arrival_s,iterations,iteration_ms,persistent_mib,ephemeral_mib,priority
//   resnet50,0,1000,225.7,339,6217.6,
//   "chat, small",12.5,400,18,71.7,512,10
//
// The header names the columns, in any order. The columns after ephemeral_mib are optional (docs/simulator.md), and may be
// empty in a row: then the default holds. Blank lines and lines that start with '#' are skipped. A field may stand in double
// quotes, with "" for a quote inside; it ends on its line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/simulated_job.h"

namespace salus::sim {

/// `file_name` is used only in the error, which is one line: "jobs.csv:3: column 4 (iteration_ms): 'abc' is not a number".
Result<std::vector<SimulatedJob>> parse_job_file(std::string_view text, std::string_view file_name);

/// Writes every column, so that parse_job_file gives equal values. Members without a column (growth and what else the
/// swarm adds) are not written. REQUIRES: names are not blank and have no control characters; figures are in the
/// ranges that parse_job_file accepts.
std::string format_job_file(std::span<const SimulatedJob> jobs);

}  // namespace salus::sim
