#include "attachment/behaviour.h"

#include <algorithm>
#include <bit>

namespace salus::attachment {

void Behaviour::trained(Instant now) {
    trained_at_ = now;
    pauses_ = 0;
    waits_ = 0;
    found_ = {false, ClassReason::kTrains};
}

void Behaviour::answered(const Pause& before, Instant now) {
    if (waited_at_ == Instant{}) waited_at_ = now;  // its first call: patience begins
    if (before.length < kPauseLeast || !before.slept) {
        const bool may_change = found_.interactive || found_.reason == ClassReason::kUnknown;
        if (may_change && now - waited_at_ >= kPatience) found_ = {false, ClassReason::kNoPauses};
        return;
    }
    const bool waited = !before.fetched && before.cpu * 2 <= before.length;
    if (waited) waited_at_ = now;
    else last_work_ = before.fetched ? ClassReason::kFetches : ClassReason::kComputes;
    waits_ = (waits_ << 1 | (waited ? 1u : 0u)) & ((1u << kLooksAt) - 1);
    pauses_ = std::min(pauses_ + 1, kLooksAt);
    judge(now);
}

/// It becomes interactive if it waited in three of four pauses, and batch again if it did not in more than half of them.
void Behaviour::judge(Instant now) {
    if (pauses_ < kNeeds) return;
    const auto waited = static_cast<unsigned>(std::popcount(waits_));
    const bool trained_lately = trained_at_.ns >= 0 && now - trained_at_ < kTrainedLately;
    if (waited * 4 >= pauses_ * 3 && !trained_lately) found_ = {true, ClassReason::kWaits};
    else if (waited * 2 < pauses_) found_ = {false, trained_lately ? ClassReason::kTrains : last_work_};
}

}  // namespace salus::attachment
