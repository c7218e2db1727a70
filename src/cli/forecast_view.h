// What `salus forecast` prints. Pure: a forecast in, text out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/forecast.h"

namespace salus::cli {

/// A line for each job, a column for each policy, then the mean.
std::string format_forecast(const sim::Forecast& forecast);

/// The same for programs. Times are seconds from `at_unix_s` on; what is not known is left out:
///
///   {"schema_version": 1, "at_unix_s": 1700000000, "policy": "fair",
///    "policies": [{"policy": "srtf", "mean_left_s": 40.5, "last_left_s": 81.2}, ...],
///    "jobs": [{"job": 3, "name": "vae", "uid": 1000, "state": "running", "length": "history",
///              "left_s": {"srtf": 40.5, ...}}, ...]}
///
/// "length" is stated, history, runs-on, new or aside (sim/forecast.h).
nlohmann::json forecast_json(const sim::Forecast& forecast, std::int64_t at_unix_s);

}  // namespace salus::cli
