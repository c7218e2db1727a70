// fair: device time in proportion to weight.
//
// The client furthest behind in virtual time (time held / weight) goes first; if time is shared by user, of the user who is
// furthest behind. A newcomer starts at the minimum of those that contend, so it neither waits for nor catches up on the
// past. Memory time is only reported (ClientFacts).
// For: several people on one device.
// Bad at: mean completion time: equal jobs all end near the end.
#include "core/policy.h"

namespace salus {
namespace {

class Fair final : public Policy {
public:
    Fair()
        : Policy({.name = "fair",
                  .good_for = "several people on one device: time in proportion to weight",
                  .bad_at = "mean completion time: equal jobs all end near the end",
                  .time_sliced = true,
                  .starvation_free = true}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.user = client.user_time_s, .order = client.virtual_time_s};
    }
};

}  // namespace

const Policy& fair_policy() {
    static const Fair policy;
    return policy;
}

}  // namespace salus
