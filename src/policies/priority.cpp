// priority: the highest priority first, pre-empting at the next boundary; fair among equals.
//
// If time is shared by user, priorities count among the clients of one user.
// For: inference or a deadline beside training that can wait.
// Bad at: low priorities, which starve while higher ones want to run.
#include "core/policy.h"

namespace salus {
namespace {

class Priority final : public Policy {
public:
    Priority()
        : Policy({.name = "priority",
                  .good_for = "inference or a deadline beside training that can wait",
                  .bad_at = "low priorities starve while higher ones want to run",
                  .time_sliced = true}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.user = client.user_time_s, .tier = -static_cast<double>(client.priority), .order = client.virtual_time_s};
    }

    // Urgency overrides the minimum turn: a request waits for one iteration of the running client, not for a whole turn.
    bool urgent(const ClientFacts& waiting, const ClientFacts& holder) const override {
        return waiting.account == holder.account && waiting.priority > holder.priority;
    }

    bool profiles_before(const ClientFacts& newcomer, const ClientFacts& other) const override {
        return newcomer.account != other.account || newcomer.priority >= other.priority;
    }
};

}  // namespace

const Policy& priority_policy() {
    static const Priority policy;
    return policy;
}

}  // namespace salus
