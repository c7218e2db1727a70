#include "service/reload.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace salus::service {
namespace {

std::string text_of(bool value) { return value ? "on" : "off"; }
std::string text_of(unsigned value) { return fmt::format("{}", value); }
std::string text_of(Bytes value) { return value == Bytes{} ? "as the device has" : format_bytes(value); }
std::string text_of(LogLevel value) { return std::string(name_of(value)); }
std::string text_of(const std::string& value) { return value; }

template <typename T>
std::string limit_text(const char* name, const std::optional<T>& limit) {
    return limit ? fmt::format("{} {:g}", name, static_cast<double>(*limit)) : fmt::format("no {}", name);
}

}  // namespace

Reload reload_from(const Options& now, Options read) {
    std::vector<std::string> changed;
    const auto compare = [&](const char* name, const auto& was, const auto& is) {
        if (was != is) changed.push_back(fmt::format("{} {}", name, text_of(is)));
    };
    compare("policy", now.configured_policy, read.configured_policy);
    compare("lanes", now.lanes, read.lanes);
    compare("paging", now.paging, read.paging);
    compare("capacity", now.capacity, read.capacity);
    if (now.min_turn != read.min_turn) {
        changed.push_back(read.min_turn ? fmt::format("min-turn-ms {}", read.min_turn->seconds() * 1e3)
                                        : "min-turn-ms by the cost of a switch");
    }
    if (now.rehome_after != read.rehome_after)
        changed.push_back(fmt::format("rehome-after-s {}", read.rehome_after.seconds()));
    if (now.page_idle_after != read.page_idle_after)
        changed.push_back(fmt::format("page-idle-s {:g}", read.page_idle_after.seconds()));
    const UserLimits &had = now.user_limits.others, &has = read.user_limits.others;
    if (had.jobs != has.jobs)
        changed.push_back(has.jobs == 0 ? "no user-jobs-max" : fmt::format("user-jobs-max {}", has.jobs));
    if (had.memory != has.memory)
        changed.push_back(has.memory == Bytes{} ? "no user-memory-max" : "user-memory-max " + format_bytes(has.memory));
    if (had.weight != has.weight) changed.push_back(limit_text("user-weight-max", has.weight));
    if (had.priority != has.priority) changed.push_back(limit_text("user-priority-max", has.priority));
    if (now.user_limits.users != read.user_limits.users) changed.emplace_back("limits of single users");
    if (now.user_limits.groups != read.user_limits.groups) changed.emplace_back("limits of groups");
    if (now.placement != read.placement)
        changed.emplace_back(read.placement == Packing::kPack ? "placement pack" : "placement spread");
    compare("connections-per-user", now.connections_per_user, read.connections_per_user);
    compare("log-level", now.log_level, read.log_level);
    compare("trace-limit", now.trace_limit, read.trace_limit);
    compare("metrics", now.metrics, read.metrics);
    if (now.job_mapping != read.job_mapping)
        changed.push_back(read.job_mapping.empty() ? "no job-mapping-dir" : "job-mapping-dir " + read.job_mapping);

    std::vector<std::string> later;
    const auto stays = [&](const char* name, const auto& is, auto& wanted) {
        if (std::exchange(wanted, is) != is) later.emplace_back(name);
    };
    stays("device", now.device, read.device);
    stays("page-gpu", now.page_gpu, read.page_gpu);
    stays("page-dir", now.page_directory, read.page_directory);
    stays("mps", now.mps, read.mps);
    stays("users", now.all_users, read.all_users);
    stays("overlap", now.overlap, read.overlap);
    stays("share-by", now.share_by_user, read.share_by_user);
    stays("show-others", now.hides_others, read.hides_others);
    stays("socket", now.socket, read.socket);
    stays("state", now.state, read.state);
    read.given = now.given;
    read.policy = read.configured_policy == now.configured_policy ? now.policy : read.configured_policy;

    Reload reload{std::move(read),
                  changed.empty() ? "nothing has changed" : fmt::format("changed: {}", fmt::join(changed, ", "))};
    if (!later.empty()) reload.line += fmt::format("; needs a restart: {}", fmt::join(later, ", "));
    return reload;
}

}  // namespace salus::service
