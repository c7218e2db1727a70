// What the jobs of each user may have together: Note [Limits of a user] in admission.cpp.
#pragma once

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/ids.h"

namespace salus {

struct Limits {
    unsigned jobs = 0;  ///< announced jobs that may run at once; 0: any number
    Bytes memory;       ///< P and lanes; 0: no limit

    bool operator==(const Limits&) const = default;
};

class LimitsByUser {
public:
    /// `others`: of users for whom none are set.
    explicit LimitsByUser(Limits others) : others_(others) {}

    /// `is_here`: the user has clients. A lower limit refuses none of them: they came in under the one before.
    void set(UserId user, Limits limits, bool is_here) {
        const Bytes most = is_here ? larger(most_memory(user), limits.memory) : limits.memory;
        of_[user] = {limits, most};
    }
    /// Root has none.
    Limits of(UserId user) const {
        if (user == kRoot) return {};
        const auto known = of_.find(user);
        return known == of_.end() ? others_ : known->second.now;
    }
    /// Whoever needs more is refused; 0: nobody is.
    Bytes most_memory(UserId user) const {
        if (user == kRoot) return {};
        const auto known = of_.find(user);
        return known == of_.end() ? others_.memory : known->second.most_memory;
    }

private:
    static Bytes larger(Bytes a, Bytes b) { return a == Bytes{} || b == Bytes{} ? Bytes{} : std::max(a, b); }

    struct OfUser {
        Limits now;
        Bytes most_memory;
    };
    Limits others_;
    std::map<UserId, OfUser> of_;
};

}  // namespace salus
