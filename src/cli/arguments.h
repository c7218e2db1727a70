// Arguments and output that several commands share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/policy.h"
#include "sim/report.h"

namespace salus::cli {

/// "A..B" or "N".
struct SeedRange {
    unsigned long long first = 1;
    unsigned long long last = 1;
};
SeedRange parse_seed_range(const std::string& text);

/// If there is no such policy, throws a UsageError that names the nearest one.
const Policy* find_policy_or_complain(std::string_view name);

/// "fifo,srtf" or "all".
std::vector<const Policy*> parse_policies(const std::string& list);

nlohmann::ordered_json figures_json(const sim::Figures& figures);

}  // namespace salus::cli
