// `salus top`: the jobs, live, on the whole screen.
#pragma once

#include <functional>

#include "base/result.h"
#include "status/status.h"

namespace salus::cli {

/// Runs until the user quits; returns the exit status. `ask` gives the service's status. It runs in a thread of its own and
/// may never return, so it must own what it captures. Throws UsageError if there is no terminal. The terminal is always
/// restored.
int run_top(const std::function<Result<Status>()>& ask, double interval_s);

}  // namespace salus::cli
