// pack: fill the device with lanes, for makespan.
//
// Opens lanes until together they can use the whole device, one job each, in order of arrival. Nobody is paged out to let
// another run: that would move work around without getting more of it done. (A newcomer that was profiled and does not fit
// yet is: it makes room for those that do.)
// For: the shortest time until all is done, when one job alone does not fill the device.
// Bad at: single jobs, which run slower side by side; brings nothing where one job fills the device.
#include "core/policy.h"

namespace salus {
namespace {

class Pack final : public Policy {
public:
    Pack()
        : Policy({.name = "pack",
                  .good_for = "makespan, when one job alone does not fill the device",
                  .bad_at = "the completion time of a single job, which runs slower beside others",
                  .pages_by_rank = false,
                  .shares_lanes = false}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {0, static_cast<double>(client.sequence)};
    }

    // More than a device full is no loss for the makespan, less than a device full is.
    bool opens_lane(double share_in_use, double) const override { return share_in_use < 1.0; }
};

}  // namespace

const Policy& pack_policy() {
    static const Pack policy;
    return policy;
}

}  // namespace salus
