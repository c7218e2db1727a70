// What an administrator lets each user have. Root has no limits.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace salus::service {

/// Those of one user.
struct UserLimits {
    unsigned jobs = 0;  ///< that may run at once; 0: any number
    Bytes memory = {};  ///< P and lanes of all of a user's jobs; 0: no limit
    std::optional<double> weight = {};
    std::optional<int> priority = {};

    /// Why the user may not have this weight and priority, in one line; empty: they may.
    std::string why_not(double wanted_weight, int wanted_priority) const;

    bool operator==(const UserLimits&) const = default;
};

/// What a table of the configuration, [user.NAME] or [group.NAME], sets; nothing: it says nothing about that.
struct LimitTable {
    std::optional<unsigned> jobs = {};
    std::optional<Bytes> memory = {};
    std::optional<double> weight = {};
    std::optional<int> priority = {};

    bool operator==(const LimitTable&) const = default;
};
/// By the number of the user, or of the group.
using LimitTables = std::map<unsigned, LimitTable>;

struct ConfiguredLimits {
    UserLimits others;  ///< of users of whom no table says otherwise
    LimitTables users;
    LimitTables groups;

    /// Each limit for itself: that of the user's table, else the most generous among those of the user's groups, else that
    /// of the others.
    UserLimits of(unsigned uid, std::span<const unsigned> groups_of_user) const;
};

}  // namespace salus::service
