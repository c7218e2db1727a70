#include "cli/arguments.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "policies/table.h"

namespace salus::cli {

SeedRange parse_seed_range(const std::string& text) {
    const auto dots = text.find("..");
    const auto first = parse_integer(text.substr(0, dots));
    const auto last = dots == std::string::npos ? first : parse_integer(text.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first) {
        throw UsageError{fmt::format("'{}' is neither a seed such as 7 nor a range of seeds such as 1..20", text)};
    }
    return {static_cast<unsigned long long>(*first), static_cast<unsigned long long>(*last)};
}

const Policy* find_policy_or_complain(std::string_view name) {
    if (const Policy* policy = find_policy(name)) return policy;
    std::vector<std::string_view> names;
    for (const Policy* policy : all_policies()) names.push_back(policy->info.name);
    const std::string hint = did_you_mean(name, names);
    throw UsageError{fmt::format("unknown policy '{}'{}", name,
                                 hint.empty() ? fmt::format("; there are {}", fmt::join(names, ", ")) : hint)};
}

std::vector<const Policy*> parse_policies(const std::string& list) {
    if (list == "all") return {all_policies().begin(), all_policies().end()};
    std::vector<const Policy*> chosen;
    for (std::string_view part : split(list, ',')) chosen.push_back(find_policy_or_complain(trim(part)));
    return chosen;
}

Result<wire::JobReference> job_called(const std::string& text) {
    const auto number = parse_integer(text);
    if (number && *number > 0 && *number <= std::numeric_limits<std::uint32_t>::max())
        return wire::JobReference{static_cast<std::uint32_t>(*number), {}};
    const wire::Text<64> name(text);
    const bool can_be_a_name = !text.empty() && name.view() == text &&
                               std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!can_be_a_name) return Error{fmt::format("there is no job '{}'", text)};
    return wire::JobReference{0, name};
}

nlohmann::ordered_json figures_json(const sim::Figures& f) {
    return {{"policy", f.policy},
            {"makespan_s", f.makespan_s},
            {"mean_queue_s", f.mean_queue_s},
            {"mean_completion_s", f.mean_completion_s},
            {"p95_completion_s", f.p95_completion_s},
            {"busy_share", f.busy_share},
            {"memory_peak_mib", f.memory_peak_mib},
            {"memory_static_mib", f.memory_static_mib},
            {"switches", f.switches},
            {"paged_mib", f.paged_mib},
            {"fairness", f.fairness},
            {"memory_fairness", f.memory_fairness},
            {"batch_progress", f.batch_progress},
            {"request_mean_ms", f.request_mean_ms},
            {"request_p50_ms", f.request_p50_ms},
            {"request_p99_ms", f.request_p99_ms}};
}

}  // namespace salus::cli
