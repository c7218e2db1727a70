// The settings of a job that `salus set` changes. The command line checks them to tell its user at once; the service checks
// them again because it trusts no peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages.h"

namespace salus::wire {

/// The values that the service accepts, from any message.
inline constexpr double kWeightMin = 1e-6;
inline constexpr double kWeightMax = 1e6;
inline constexpr std::int32_t kPriorityMax = 1'000'000;  ///< and its negative
inline constexpr std::uint64_t kIterationsMax = 1'000'000'000'000'000;

struct Assignments {
    std::optional<std::int32_t> priority = {};
    std::optional<double> weight = {};
    std::optional<std::uint64_t> iterations = {};
    std::optional<bool> interactive = {};
};

/// Reads "priority=5", "weight=0.5", "iterations=100", "class=interactive"; needs at least one of them. An error states the
/// range.
Result<Assignments> parse_assignments(const std::vector<std::string_view>& words);

SetJob set_job(const JobReference& job, const Assignments& wanted);
/// Fails with the same errors as parse_assignments().
Result<Assignments> assignments_in(const SetJob& message);

}  // namespace salus::wire
