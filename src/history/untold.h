// Runs whose end no service was there to record: `salus run` writes them down, and the next service records them.
//
// One small file for each run, in the directory `ended` beside the history of the user who ran it. Whoever removes the file
// has the run, so that no run is recorded twice.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "history/store.h"

namespace salus::history {

struct UntoldRun {
    std::string service;  ///< for whom: the path of its socket, or kUsersOwn, wherever that listens
    Run run;              ///< without uid, figures and use, which only a service knows
};
inline constexpr std::string_view kUsersOwn = "own";
/// No more are kept if no service ever comes.
inline constexpr std::size_t kUntoldMax = 1000;

std::string text_of(const UntoldRun& untold);
Result<UntoldRun> untold_in(std::string_view text);

/// `name` is that of no other run.
Result<bool> keep_untold(const std::string& state, const std::string& name, const UntoldRun& untold);
/// Those that are for this service; their files are removed. Files that others could have written are left alone.
std::vector<UntoldRun> take_untold(const std::string& state, const std::function<bool(const std::string& service)>& is_for);

}  // namespace salus::history
