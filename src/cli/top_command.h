// `salus top`: the jobs, live, on the whole screen.
#pragma once

#include <functional>

#include "base/result.h"
#include "status/status.h"

namespace salus::cli {

/// Until the user quits; returns the exit status. `ask` gives the service's status. It is called in a
/// thread of its own, and a call that never comes back holds up nobody: so let it own what it captures.
/// Throws UsageError if there is no terminal. Whatever happens, the terminal is left as it was.
int run_top(const std::function<Result<Status>()>& ask, double interval_s);

}  // namespace salus::cli
