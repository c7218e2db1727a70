// Amounts of memory.
#pragma once

#include <compare>
#include <cstdint>

namespace salus {

struct Bytes {
    std::int64_t count = 0;

    constexpr auto operator<=>(const Bytes&) const = default;
    constexpr double mib() const { return static_cast<double>(count) / (1024.0 * 1024.0); }
    constexpr Bytes& operator+=(Bytes b) {
        count += b.count;
        return *this;
    }
    constexpr Bytes& operator-=(Bytes b) {
        count -= b.count;
        return *this;
    }
};

constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }

constexpr Bytes mebibytes(std::int64_t n) { return {n << 20}; }
constexpr Bytes gibibytes(std::int64_t n) { return {n << 30}; }

/// Rounds to the nearest byte. REQUIRES: finite.
constexpr Bytes mebibytes_of(double n) { return {static_cast<std::int64_t>(n * 1048576.0 + 0.5)}; }

}  // namespace salus
