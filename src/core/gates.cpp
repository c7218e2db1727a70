#include "core/gates.h"

#include <algorithm>

namespace salus {

void TimeLately::turn_on(Instant now) {
    if (!is_on()) since_ = now;
}

void TimeLately::turn_off(Instant now) {
    if (!is_on()) return;
    while (!spans_.empty() && spans_.front().to <= now - kWindow) spans_.pop_front();
    spans_.push_back({since_, now});
    total_ += now - since_;
    since_ = kNever;
}

Duration TimeLately::sum(Instant now) const {
    const Instant begin = now - kWindow;
    Duration sum = is_on() ? now - std::max(since_, begin) : Duration{};
    for (const Span& span : spans_) {
        if (span.to > begin) sum += span.to - std::max(span.from, begin);
    }
    return sum;
}

Instant Gates::deadline() const {
    if (!are_closed()) return kNever;
    return holds_ ? std::min(closed_until_, hold_until_) : closed_until_;
}

bool Gates::decide(bool in_flight, bool of_use, Instant now) {
    if (in_flight) in_flight_.turn_on(now);
    else in_flight_.turn_off(now);
    if (!in_flight) wanted_ = false;
    if (are_closed()) {
        const bool spent = now >= closed_until_;
        holds_ = !in_flight;
        if (of_use && !spent && (in_flight || now < hold_until_)) return false;
        if (spent) wanted_ = false;
        closed_.turn_off(now);
        closed_until_ = kNever;
        return true;
    }
    if (!wanted_ || !of_use) return false;
    const Duration left = budget(now) - closed_lately(now);
    if (left < kLeast) {
        wanted_ = false;
        return false;
    }
    closed_.turn_on(now);
    closed_until_ = now + std::min(left, kLongest);
    holds_ = false;
    return true;
}

}  // namespace salus
