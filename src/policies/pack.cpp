// pack: fill the device with lanes, for makespan.
//
// Opens lanes until together they can use the whole device, one job each, in order of arrival. No client is paged out to let
// another run: that would only reorder work. (The exception is a newcomer that was profiled and does not fit yet: it is
// paged out to make room for jobs that do.) For: the shortest time until all is done, when one job alone does not fill the
// device. Bad at: single jobs, which run slower side by side. It gains nothing if one job fills the device.
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
        return {.order = static_cast<double>(client.sequence)};
    }

    // Filling the device more than fully does not hurt the makespan; filling it less does.
    bool opens_lane(double share_in_use, double) const override { return share_in_use < 1.0; }
};

}  // namespace

const Policy& pack_policy() {
    static const Pack policy;
    return policy;
}

}  // namespace salus
