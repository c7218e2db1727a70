#include "core/policy.h"

#include <algorithm>

namespace salus {

ClientId Policy::choose(Candidates candidates, const Situation& now) const {
    return lowest_rank(*this, candidates, now)->id;
}

bool Policy::urgent(const ClientFacts&, const ClientFacts&) const { return false; }

bool Policy::profiles_before(const ClientFacts&, const ClientFacts&) const { return true; }

// Lanes that together want more than the whole device slow each other down, which defeats any order of turns.
bool Policy::opens_lane(double share_in_use, double newcomer_share) const {
    return share_in_use + newcomer_share <= 1.0 + 1e-9;
}

const ClientFacts* lowest_rank(const Policy& policy, Candidates candidates, const Situation& now) {
    const ClientFacts* best = candidates.front();
    Rank best_rank = policy.rank(*best, now);
    for (const ClientFacts* candidate : candidates.subspan(1)) {
        const Rank rank = policy.rank(*candidate, now);
        if (precedes(rank, *candidate, best_rank, *best)) {
            best = candidate;
            best_rank = rank;
        }
    }
    return best;
}

double estimate_remaining_s(const ClientFacts& client, const Situation& now) {
    const double attained_s = client.attained.seconds();
    if (client.iterations_total > 0 && client.iteration_time.ns > 0) {
        const double iteration_s = client.iteration_time.seconds();
        return std::max(iteration_s * static_cast<double>(client.iterations_total) - attained_s, iteration_s);
    }
    return std::max(attained_s, now.typical_service.seconds());
}

}  // namespace salus
