// fifo: one job at a time, in order of arrival.
//
// For: the baseline to compare with, and the fallback when another policy misbehaves; each job runs as if it were alone.
// Bad at: everything else. A short job waits for the long one before it, and the device idles while that one loads data.
#include "core/policy.h"

namespace salus {
namespace {

class Fifo final : public Policy {
public:
    Fifo()
        : Policy({.name = "fifo",
                  .good_for = "a baseline: each job alone, in order of arrival",
                  .bad_at = "short jobs behind long ones; idles while a job loads data",
                  .exclusive = true}) {}

    Rank rank(const ClientFacts& client, const Situation&) const override {
        return {.order = static_cast<double>(client.sequence)};
    }
};

}  // namespace

const Policy& fifo_policy() {
    static const Fifo policy;
    return policy;
}

}  // namespace salus
