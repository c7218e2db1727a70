// JSON for standard output.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace salus::cli {

/// Only ASCII: names come from other people's programs, and a terminal would obey control and bidirectional characters in
/// them. Invalid bytes are replaced.
template <typename Json>
std::string json_text(const Json& document) {
    return document.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace salus::cli
