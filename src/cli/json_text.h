// JSON for standard output.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace salus::cli {

/// In ASCII alone: names come from other people's programs, and a terminal would obey the control and bidirectional
/// characters in them. Bytes that are no text are replaced.
template <typename Json>
std::string json_text(const Json& document) {
    return document.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace salus::cli
