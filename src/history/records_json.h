// The history as JSON: what `salus history --json` prints, and how the service passes on what is a user's.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "history/store.h"

namespace salus::history {

nlohmann::json records_json(const std::vector<Record>& records);
/// Reads what records_json() wrote. A missing or unexpected field keeps its default.
std::vector<Record> records_from(const nlohmann::json& document);

/// The same of what jobs have used.
nlohmann::json usage_json(const std::vector<Usage>& usage);
std::vector<Usage> usage_from(const nlohmann::json& document);

}  // namespace salus::history
