// rr: round robin, whoever ran longest ago goes first.
//
// For: the same number of turns for everyone; simple to predict.
// Bad at: fairness in time: a job with long iterations gets more of it.
#include "core/policy.h"

namespace salus {
namespace {

class Rr final : public Policy {
public:
    Rr()
        : Policy({.name = "rr",
                  .good_for = "the same number of turns for everyone",
                  .bad_at = "fairness in time: long iterations get more of it",
                  .time_sliced = true,
                  .starvation_free = true}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.user = client.user_time_s, .order = static_cast<double>(client.last_ran.ns)};
    }
};

}  // namespace

const Policy& rr_policy() {
    static const Rr policy;
    return policy;
}

}  // namespace salus
