// A small seeded generator (SplitMix64): the same seed gives the same draws on every machine and library, which the
// standard library's distributions do not promise.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace salus {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    /// Uniform in [0, 1).
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    double between(double low, double high) { return low + (high - low) * uniform(); }

    /// Uniform in [0, n). REQUIRES: n > 0. The bias of the modulo is below 2^-32 for the small n used here.
    std::uint64_t below(std::uint64_t n) {
        SALUS_CHECK(n > 0, "an empty range has no element to draw");
        return next() % n;
    }
    /// Uniform in [low, high]. REQUIRES: low <= high.
    std::int64_t integer(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
    }

    bool chance(double probability) { return uniform() < probability; }

    /// Exponentially distributed with the given mean.
    double exponential(double mean) { return -mean * std::log1p(-uniform()); }

private:
    std::uint64_t state_;
};

}  // namespace salus
