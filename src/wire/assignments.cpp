#include "wire/assignments.h"

#include <cmath>
#include <string>

#include "base/text.h"

namespace salus::wire {

Result<Assignments> parse_assignments(const std::vector<std::string_view>& words) {
    if (words.empty()) return Error{"set what? priority=N, weight=X or iterations=N"};
    Assignments made;
    for (const std::string_view word : words) {
        const std::size_t equals = word.find('=');
        const std::string_view key = word.substr(0, equals);
        const bool known = key == "priority" || key == "weight" || key == "iterations";
        if (!known) return Error{"cannot set '" + std::string(key) + "': there are priority, weight and iterations"};
        const auto value = equals == std::string_view::npos ? std::nullopt : parse_number(word.substr(equals + 1));
        if (!value) return Error{"'" + std::string(word) + "' is not NAME=NUMBER"};
        const bool whole = *value == std::floor(*value);
        if (key == "priority") {
            if (!whole || std::fabs(*value) > 1e6) return Error{"priority: is a whole number from -1000000 to 1000000"};
            made.priority = static_cast<int>(*value);
        } else if (key == "weight") {
            if (!(*value >= kWeightMin && *value <= kWeightMax)) return Error{"weight: is from 0.000001 to 1000000"};
            made.weight = *value;
        } else {
            if (!whole || !(*value >= 0 && *value <= 1e15))
                return Error{"iterations: is a whole number from 0 (not known) to 1000000000000000"};
            made.iterations = static_cast<std::uint64_t>(*value);
        }
    }
    return made;
}

}  // namespace salus::wire
