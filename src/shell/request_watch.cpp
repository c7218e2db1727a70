#include "shell/request_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace salus::shell {

void RequestWatch::begin(const GatePage& page) {
    for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i] = {page.marks[i].begun.load(), kNever};
}

bool RequestWatch::look(const GatePage& page, Instant now) {
    const std::uint32_t before = in_flight_;
    in_flight_ = begun_ = 0;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
        Seen& seen = seen_[i];
        const bool in_flight = page.marks[i].in_flight();
        const std::uint32_t number = page.marks[i].begun.load(std::memory_order_relaxed);
        if (number != seen.number) {
            if (seen.begun_at != kNever) answered(now - seen.begun_at);  // since the last look
            begun_ += number - seen.number;
            seen = {number, now};
        }
        if (in_flight) ++in_flight_;
        else if (seen.begun_at != kNever) answered(now - std::exchange(seen.begun_at, kNever));
    }
    return begun_ > 0 || in_flight_ != before;
}

void RequestWatch::answered(Duration time) {
    histogram_.add(time);
    if (times_.size() < kKept) times_.push_back(time);
    else times_[answered_ % kKept] = time;
    ++answered_;
}

RequestWatch::Times RequestWatch::times() const {
    Times times{answered_, {}, {}};
    if (times_.empty()) return times;
    std::vector<Duration> sorted = times_;
    std::ranges::sort(sorted);
    const auto quantile = [&](double share) {
        return sorted[static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()))) - 1];
    };
    times.p50 = quantile(0.5);
    times.p99 = quantile(0.99);
    return times;
}

}  // namespace salus::shell
