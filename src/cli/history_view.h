// What `salus history` prints. Pure: records in, text out.
#pragma once

#include <string>
#include <vector>

#include "history/store.h"

namespace salus::cli {

/// One line for each command, or "no history". `now_s` is Unix time.
std::string format_history(const std::vector<history::Record>& records, double now_s);
/// The same as JSON.
std::string history_json(const std::vector<history::Record>& records);

}  // namespace salus::cli
