#include "shell/speed_watch.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace salus::shell {

void InsideWatch::look(Instant now, Duration total) {
    seen_.push_back({now, total});
    while (seen_.size() > 2 && now - seen_[1].at >= kWindow) seen_.pop_front();
}

std::optional<double> InsideWatch::share(Instant now, Duration total) const {
    const auto younger = std::ranges::find_if(seen_, [&](const Look& look) { return now - look.at < kWindow; });
    if (seen_.empty()) return std::nullopt;
    const Look& since = younger == seen_.begin() ? *younger : *(younger - 1);
    if (now - since.at < kEvery) return std::nullopt;
    return std::clamp((total - since.total).seconds() / (now - since.at).seconds(), 0.0, 1.0);
}

void PaceWatch::add(const Iterations& iterations) {
    gone_.push_back(iterations);
    if (gone_.size() > kKept) gone_.pop_front();
}

std::optional<PaceWatch::Median> PaceWatch::median(std::span<const Iterations> present) const {
    std::vector<Iterations> all(gone_.begin(), gone_.end());
    all.insert(all.end(), present.begin(), present.end());
    if (all.empty()) return std::nullopt;
    const auto of = [&](const auto& figure) {
        const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
        std::ranges::nth_element(all, middle, {}, figure);
        return figure(*middle);
    };
    return Median{of([](const Iterations& one) { return one.actual.seconds() / one.expected.seconds(); }),
                  of([](const Iterations& one) { return one.actual - one.expected; })};
}

}  // namespace salus::shell
