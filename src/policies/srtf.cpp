// srtf: shortest remaining time first, pre-emptive, work-conserving.
//
// For: the lowest mean completion time when lengths are known, from the job itself or from earlier runs.
// Bad at: long jobs, which wait while shorter ones keep coming; and wrong estimates, which it believes.
#include "core/policy.h"

namespace salus {
namespace {

class Srtf final : public Policy {
public:
    Srtf()
        : Policy({.name = "srtf",
                  .good_for = "the lowest mean completion time when lengths are known",
                  .bad_at = "long jobs starve while shorter ones keep coming"}) {}

    Rank rank(const ClientFacts& client, const Situation& now) const override {
        return {.order = estimate_remaining_s(client, now)};
    }
};

}  // namespace

const Policy& srtf_policy() {
    static const Srtf policy;
    return policy;
}

}  // namespace salus
