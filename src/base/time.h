// Durations and instants in whole nanoseconds.
//
// These are not std::chrono types, so that pure code cannot reach a clock even by accident: an Instant comes only from a
// shell (the service or the simulator).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace salus {

struct Duration {
    std::int64_t ns = 0;

    constexpr auto operator<=>(const Duration&) const = default;
    constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
    constexpr Duration& operator+=(Duration d) {
        ns += d.ns;
        return *this;
    }
    constexpr Duration& operator-=(Duration d) {
        ns -= d.ns;
        return *this;
    }
};

constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
constexpr Duration operator*(Duration a, std::int64_t k) { return {a.ns * k}; }
constexpr Duration operator/(Duration a, std::int64_t k) { return {a.ns / k}; }

constexpr Duration nanoseconds(std::int64_t n) { return {n}; }
constexpr Duration microseconds(std::int64_t n) { return {n * 1'000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }
constexpr Duration minutes(std::int64_t n) { return seconds(n * 60); }

/// For what others say: figures of any size. REQUIRES: neither is negative.
constexpr Duration sum_within_reason(Duration a, Duration b) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    return {a.ns > kMost - b.ns ? kMost : a.ns + b.ns};
}

/// Rounds to the nearest nanosecond. REQUIRES: finite and within +-292 years.
constexpr Duration seconds_of(double s) { return {static_cast<std::int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5))}; }

struct Instant {
    std::int64_t ns = 0;

    constexpr auto operator<=>(const Instant&) const = default;
};

inline constexpr Instant kNever{std::numeric_limits<std::int64_t>::max()};

constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
constexpr Instant operator+(Instant a, Duration d) { return {a.ns + d.ns}; }
constexpr Instant operator-(Instant a, Duration d) { return {a.ns - d.ns}; }

}  // namespace salus
