// What `salus usage` prints: who has used how much of the device, for which commands. Figures in, text out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "history/store.h"

namespace salus::cli {

using NameOfUser = std::function<std::string(unsigned uid)>;

/// "90s", "12h", "7d": so many seconds.
std::optional<double> parse_span_s(std::string_view text);

/// The Unix time that a user means by "7d", "12h", "30m" (ago), "2026-11-18" or "2026-11-18 09:30" (local time).
std::optional<double> parse_since(std::string_view text, double now_s);

/// For each user a line with the sum and one for each command, or "no jobs have ended".
std::string format_usage(const std::vector<history::Usage>& usage, const NameOfUser& name_of);
/// The same as JSON. `since_s` is 0 if everything recorded counts.
std::string usage_json(const std::vector<history::Usage>& usage, double since_s, const NameOfUser& name_of);

}  // namespace salus::cli
