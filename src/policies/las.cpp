// las: least attained service first.
//
// For: low mean completion time with no knowledge at all: short jobs end before they have attained much.
// Bad at: jobs of equal length, which all end late together; and long jobs while newcomers keep coming.
#include "core/policy.h"

namespace salus {
namespace {

class Las final : public Policy {
public:
    Las()
        : Policy({.name = "las",
                  .good_for = "low mean completion time with no knowledge of lengths",
                  .bad_at = "jobs of equal length all end late; long ones wait for newcomers",
                  .time_sliced = true}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.user = client.user_time_s, .order = client.attained.seconds()};
    }
};

}  // namespace

const Policy& las_policy() {
    static const Las policy;
    return policy;
}

}  // namespace salus
