#include "core/gates.h"

#include <algorithm>

namespace salus {

Instant Gates::deadline() const {
    if (!are_closed()) return kNever;
    return holds_ ? std::min(closed_until_, hold_until_) : closed_until_;
}

Duration Gates::closed_lately(Instant now) const {
    Duration sum = are_closed() ? now - std::max(closed_since_, now - kWindow) : Duration{};
    for (const Span& span : lately_) {
        if (span.to > now - kWindow) sum += span.to - std::max(span.from, now - kWindow);
    }
    return sum;
}

Duration Gates::closed_in_total(Instant now) const { return total_ + (are_closed() ? now - closed_since_ : Duration{}); }

bool Gates::decide(bool in_flight, bool of_use, Instant now) {
    if (!in_flight) wanted_ = false;
    if (are_closed()) {
        const bool spent = now >= closed_until_;
        holds_ = !in_flight;
        if (of_use && !spent && (in_flight || now < hold_until_)) return false;
        if (spent) wanted_ = false;
        open(now);
        return true;
    }
    if (!wanted_ || !of_use) return false;
    const Duration left = kBudget - closed_lately(now);
    if (left < kLeast) {
        wanted_ = false;
        return false;
    }
    closed_since_ = now;
    closed_until_ = now + std::min(left, kLongest);
    holds_ = false;
    return true;
}

void Gates::open(Instant now) {
    while (!lately_.empty() && lately_.front().to <= now - kWindow) lately_.pop_front();
    lately_.push_back({closed_since_, now});
    total_ += now - closed_since_;
    closed_since_ = closed_until_ = kNever;
}

}  // namespace salus
