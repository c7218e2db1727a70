// What `salus set` changes: the command line reads it to tell its user, and the service because it believes nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salus::wire {

/// What the service takes, however it is told.
inline constexpr double kWeightMin = 1e-6;
inline constexpr double kWeightMax = 1e6;

struct Assignments {
    std::optional<int> priority;
    std::optional<double> weight;
    std::optional<std::uint64_t> iterations;
};

/// "priority=5", "weight=0.5", "iterations=100", at least one of them. An error gives the range.
Result<Assignments> parse_assignments(const std::vector<std::string_view>& words);

}  // namespace salus::wire
