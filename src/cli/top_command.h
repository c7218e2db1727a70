// `salus top`: the jobs, live, on the whole screen.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/top_keys.h"
#include "status/status.h"

namespace salus::cli {

struct TopAnswer {
    Result<Status> status;
    std::string said = {};  ///< what came of the command, for the user
};
/// Passes the command on, if there is one, and asks for the status.
using TopService = std::function<TopAnswer(const std::optional<Pressed>&)>;

/// Runs until the user quits; returns the exit status. `service` runs in a thread of its own and may never return, so it
/// must own what it captures. Throws UsageError if there is no terminal. The terminal is always restored.
int run_top(const TopService& service, double interval_s);

}  // namespace salus::cli
