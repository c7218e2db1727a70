// What `salus set` changes: the command line reads it to tell its user, and the service checks it because it believes
// nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages.h"

namespace salus::wire {

/// What the service takes, however it is told.
inline constexpr double kWeightMin = 1e-6;
inline constexpr double kWeightMax = 1e6;
inline constexpr std::int32_t kPriorityMax = 1'000'000;  ///< and its negative
inline constexpr std::uint64_t kIterationsMax = 1'000'000'000'000'000;

struct Assignments {
    std::optional<std::int32_t> priority = {};
    std::optional<double> weight = {};
    std::optional<std::uint64_t> iterations = {};
};

/// "priority=5", "weight=0.5", "iterations=100", at least one of them. An error gives the range.
Result<Assignments> parse_assignments(const std::vector<std::string_view>& words);

SetJob set_job(const JobReference& job, const Assignments& wanted);
/// An error as from parse_assignments().
Result<Assignments> assignments_in(const SetJob& message);

}  // namespace salus::wire
