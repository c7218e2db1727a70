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
    const UserLimits &had = now.user_limits, &has = read.user_limits;
    if (had.weight != has.weight) changed.push_back(limit_text("user-weight-max", has.weight));
    if (had.priority != has.priority) changed.push_back(limit_text("user-priority-max", has.priority));
    compare("connections-per-user", now.connections_per_user, read.connections_per_user);
    compare("log-level", now.log_level, read.log_level);
    compare("trace-limit", now.trace_limit, read.trace_limit);

    std::vector<std::string> later;
    const auto stays = [&](const char* name, const auto& is, auto& wanted) {
        if (std::exchange(wanted, is) != is) later.emplace_back(name);
    };
    stays("device", now.device, read.device);
    stays("mps", now.mps, read.mps);
    stays("users", now.all_users, read.all_users);
    stays("share-by", now.share_by_user, read.share_by_user);
    stays("show-others", now.hides_others, read.hides_others);
    stays("user-jobs-max", now.user_limits.jobs, read.user_limits.jobs);
    stays("user-memory-max", now.user_limits.memory, read.user_limits.memory);
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
