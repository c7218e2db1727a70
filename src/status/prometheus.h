// The state of a service as Prometheus reads it: the text format, version 0.0.4. docs/metrics.md explains the series.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "status/status.h"

namespace salus {

/// `totals`: one for each job, in any order. What the viewer must not see is not in `status` any more; a job without a name,
/// user or command has no such labels.
std::string to_prometheus(const Status& status, std::span<const JobTotals> totals);

/// As the value of a label, without the quotes: escaped, and safe to show to a person.
std::string label_value(std::string_view text);

}  // namespace salus
