// How often durations of which size occurred. The bounds are those that Prometheus shows: 1, 2, 5, 10 ... times the least.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/time.h"

namespace salus {

struct Histogram {
    /// Six decades.
    static constexpr std::array<std::int64_t, 19> kSteps = {1,      2,       5,       10,      20,       50,     100,
                                                            200,    500,     1'000,   2'000,   5'000,    10'000, 20'000,
                                                            50'000, 100'000, 200'000, 500'000, 1'000'000};
    static constexpr std::size_t kPlaces = kSteps.size() + 1;  ///< the last is for what exceeds all bounds

    Duration least;  ///< the first bound
    std::array<std::uint64_t, kPlaces> counts{};
    Duration sum{};

    bool operator==(const Histogram&) const = default;

    /// A bound belongs to the place below it.
    static constexpr std::size_t place_of(Duration time, Duration least) {
        const std::int64_t steps = time.ns <= 0 ? 0 : (time.ns - 1) / least.ns + 1;  // rounded up
        return static_cast<std::size_t>(std::ranges::lower_bound(kSteps, steps) - kSteps.begin());
    }
    /// REQUIRES: place < kSteps.size().
    constexpr Duration bound(std::size_t place) const { return least * kSteps[place]; }

    constexpr void add(Duration time) {
        ++counts[place_of(time, least)];
        sum = sum_within_reason(sum, std::max(time, Duration{}));
    }
    constexpr std::uint64_t count() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

    /// REQUIRES: the same bounds.
    constexpr Histogram& operator+=(const Histogram& other) {
        for (std::size_t i = 0; i < kPlaces; ++i) counts[i] += other.counts[i];
        sum = sum_within_reason(sum, other.sum);
        return *this;
    }
};

}  // namespace salus
