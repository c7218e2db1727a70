// What `salus history` prints. Pure: records in, text out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "history/store.h"

namespace salus::cli {

/// A long command, cut in the middle: commands of one script differ at their ends.
std::string shortened_command(std::string_view command);

/// One line for each command, or "no history". `now_s` is Unix time.
std::string format_history(const std::vector<history::Record>& records, double now_s);
/// The same as JSON.
std::string history_json(const std::vector<history::Record>& records);

}  // namespace salus::cli
