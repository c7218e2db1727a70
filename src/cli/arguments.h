// Arguments and output that several commands share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "core/policy.h"
#include "sim/report.h"
#include "wire/messages.h"

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

/// A job's number or its name. An error, in one line, if no job can be called so.
Result<wire::JobReference> job_called(const std::string& text);

nlohmann::ordered_json figures_json(const sim::Figures& figures);

}  // namespace salus::cli
