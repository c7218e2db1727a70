#include "service/user_limits.h"

#include <algorithm>

#include <fmt/format.h>

namespace salus::service {
namespace {

/// 0 stands for no limit.
unsigned more_generous(unsigned a, unsigned b) { return a == 0 || b == 0 ? 0 : std::max(a, b); }
Bytes more_generous(Bytes a, Bytes b) { return a == Bytes{} || b == Bytes{} ? Bytes{} : std::max(a, b); }
double more_generous(double a, double b) { return std::max(a, b); }
int more_generous(int a, int b) { return std::max(a, b); }

}  // namespace

std::string UserLimits::why_not(double wanted_weight, int wanted_priority) const {
    if (weight && wanted_weight > *weight)
        return fmt::format("this service allows a weight of at most {:g} (user-weight-max); got {:g}", *weight,
                           wanted_weight);
    if (priority && wanted_priority > *priority)
        return fmt::format("this service allows a priority of at most {} (user-priority-max); got {}", *priority,
                           wanted_priority);
    return "";
}

UserLimits ConfiguredLimits::of(unsigned uid, std::span<const unsigned> groups_of_user) const {
    if (uid == 0) return {};
    const auto own = users.find(uid);
    const auto set = [&]<typename T>(std::optional<T> LimitTable::*limit) {
        if (own != users.end() && own->second.*limit) return own->second.*limit;
        std::optional<T> most;
        for (const unsigned group : groups_of_user) {
            const auto table = groups.find(group);
            if (table == groups.end() || !(table->second.*limit)) continue;
            most = most ? more_generous(*most, *(table->second.*limit)) : *(table->second.*limit);
        }
        return most;
    };
    UserLimits limits = others;
    limits.jobs = set(&LimitTable::jobs).value_or(others.jobs);
    limits.memory = set(&LimitTable::memory).value_or(others.memory);
    if (const auto weight = set(&LimitTable::weight)) limits.weight = weight;
    if (const auto priority = set(&LimitTable::priority)) limits.priority = priority;
    return limits;
}

}  // namespace salus::service
