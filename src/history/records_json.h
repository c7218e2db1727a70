// Records of the history as JSON: what `salus history --json` prints, and how the service passes a user's records on.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "history/store.h"

namespace salus::history {

nlohmann::json records_json(const std::vector<Record>& records);
/// Reads what records_json() wrote. A missing or unexpected field keeps its default.
std::vector<Record> records_from(const nlohmann::json& document);

}  // namespace salus::history
