#include "service/user_limits.h"

#include <fmt/format.h>

namespace salus::service {

std::string UserLimits::why_not(unsigned uid, double wanted_weight, int wanted_priority) const {
    if (!apply_to(uid)) return "";
    if (weight && wanted_weight > *weight)
        return fmt::format("this service allows a weight of at most {:g} (user-weight-max); got {:g}", *weight,
                           wanted_weight);
    if (priority && wanted_priority > *priority)
        return fmt::format("this service allows a priority of at most {} (user-priority-max); got {}", *priority,
                           wanted_priority);
    return "";
}

}  // namespace salus::service
