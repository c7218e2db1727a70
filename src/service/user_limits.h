// What an administrator lets each user have. Root has no limits.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"

namespace salus::service {

struct UserLimits {
    unsigned jobs = 0;  ///< that may run at once; 0: any number
    Bytes memory;       ///< P and lanes of all of a user's jobs; 0: no limit
    std::optional<double> weight;
    std::optional<int> priority;

    bool apply_to(unsigned uid) const { return uid != 0; }
    /// Why a user may not have this weight and priority, in one line; empty: they may.
    std::string why_not(unsigned uid, double wanted_weight, int wanted_priority) const;
};

}  // namespace salus::service
