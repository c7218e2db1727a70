#include "wire/assignments.h"

#include <cmath>
#include <set>
#include <string>

#include "base/text.h"

namespace salus::wire {
namespace {

constexpr const char* kNothingToSet = "nothing to set: give priority=N, weight=X, iterations=N or class=batch|interactive";
constexpr const char* kBadPriority = "priority must be a whole number from -1000000 to 1000000";
constexpr const char* kBadWeight = "weight must be from 0.000001 to 1000000";
constexpr const char* kBadClass = "class must be batch or interactive";
constexpr const char* kBadIterations = "iterations must be a whole number from 0 (unknown) to 1000000000000000";

bool is_weight(double value) { return value >= kWeightMin && value <= kWeightMax; }

}  // namespace

Result<Assignments> parse_assignments(const std::vector<std::string_view>& words) {
    if (words.empty()) return Error{kNothingToSet};
    Assignments made;
    std::set<std::string_view> set;
    for (const std::string_view word : words) {
        const std::size_t equals = word.find('=');
        const std::string_view key = word.substr(0, equals);
        if (!set.insert(key).second) return Error{"'" + std::string(key) + "' is set twice"};
        const bool known = key == "priority" || key == "weight" || key == "iterations" || key == "class";
        if (!known)
            return Error{"cannot set '" + std::string(key) + "'; only priority, weight, iterations and class can be set"};
        if (key == "class") {
            const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
            if (value != "batch" && value != "interactive") return Error{kBadClass};
            made.interactive = value == "interactive";
            continue;
        }
        const auto value = equals == std::string_view::npos ? std::nullopt : parse_number(word.substr(equals + 1));
        if (!value) return Error{"'" + std::string(word) + "' is not NAME=NUMBER"};
        const bool whole = *value == std::floor(*value);
        if (key == "priority") {
            if (!whole || std::fabs(*value) > kPriorityMax) return Error{kBadPriority};
            made.priority = static_cast<std::int32_t>(*value);
        } else if (key == "weight") {
            if (!is_weight(*value)) return Error{kBadWeight};
            made.weight = *value;
        } else {
            if (!whole || !(*value >= 0 && *value <= static_cast<double>(kIterationsMax))) return Error{kBadIterations};
            made.iterations = static_cast<std::uint64_t>(*value);
        }
    }
    return made;
}

SetJob set_job(const JobReference& job, const Assignments& wanted) {
    SetJob message;
    message.job = job;
    if (wanted.priority) message.fields |= SetJob::kPriority;
    if (wanted.weight) message.fields |= SetJob::kWeight;
    if (wanted.iterations) message.fields |= SetJob::kIterations;
    if (wanted.interactive) message.fields |= SetJob::kClass;
    message.interactive = wanted.interactive.value_or(false) ? 1 : 0;
    message.priority = wanted.priority.value_or(message.priority);
    message.weight = wanted.weight.value_or(message.weight);
    message.iterations = wanted.iterations.value_or(message.iterations);
    return message;
}

Result<Assignments> assignments_in(const SetJob& message) {
    Assignments wanted;
    if (message.fields & SetJob::kPriority) wanted.priority = message.priority;
    if (message.fields & SetJob::kWeight) wanted.weight = message.weight;
    if (message.fields & SetJob::kIterations) wanted.iterations = message.iterations;
    if (message.fields & SetJob::kClass) wanted.interactive = message.interactive != 0;
    if (!wanted.priority && !wanted.weight && !wanted.iterations && !wanted.interactive) return Error{kNothingToSet};
    const std::int32_t priority = wanted.priority.value_or(0);
    if (priority < -kPriorityMax || priority > kPriorityMax) return Error{kBadPriority};
    if (wanted.weight && !is_weight(*wanted.weight)) return Error{kBadWeight};
    if (wanted.iterations.value_or(0) > kIterationsMax) return Error{kBadIterations};
    return wanted;
}

}  // namespace salus::wire
