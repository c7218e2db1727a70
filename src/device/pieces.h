// How memory is divided into pieces that a device creates, passes on and maps as a whole.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace salus::device {

// Note [Sizes of pieces]
// A piece takes a GPU's driver tens of microseconds to create and map, so large memory should have large pieces. But in
// small memory most of a large piece would be unused. So pieces grow with their distance from the start: after the first
// 2 * per_doubling of the smallest size, each doubling of the offset has per_doubling of them, until they are of the largest
// size. Rounding up to whole pieces adds less than a piece of the smallest size, or 1 / per_doubling. A piece's size depends
// on its place alone: service and client agree on it, and memory grows and shrinks at its end, while the pieces before stay
// as they are.

class Pieces {
public:
    /// Pieces of one byte: for a device that maps any size.
    constexpr Pieces() = default;
    /// REQUIRES: the sizes are powers of two.
    constexpr Pieces(std::uint64_t smallest, std::uint64_t largest, std::size_t per_doubling)
        : smallest_(smallest), doublings_max_(log2(largest / smallest)), per_doubling_(per_doubling) {}

    /// The number of the piece at this offset.
    constexpr std::size_t at(std::uint64_t offset) const {
        const std::uint64_t unit = offset / smallest_;
        const std::size_t doublings = std::min(log2(std::max<std::uint64_t>(unit / per_doubling_, 1)), doublings_max_);
        return doublings * per_doubling_ + (unit >> doublings);
    }
    /// Where the piece with this number starts.
    constexpr std::uint64_t start(std::size_t piece) const {
        const std::size_t doublings = std::min(std::max<std::size_t>(piece / per_doubling_, 1) - 1, doublings_max_);
        return ((piece - doublings * per_doubling_) << doublings) * smallest_;
    }
    constexpr std::uint64_t size(std::size_t piece) const { return start(piece + 1) - start(piece); }

    /// How many pieces memory of this size consists of.
    constexpr std::size_t count(std::uint64_t bytes) const { return bytes == 0 ? 0 : at(bytes - 1) + 1; }
    /// The size of memory that has so many bytes, and consists of whole pieces.
    constexpr std::uint64_t rounded_up(std::uint64_t bytes) const { return start(count(bytes)); }

private:
    static constexpr std::size_t log2(std::uint64_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }

    std::uint64_t smallest_ = 1;
    std::size_t doublings_max_ = 0;  ///< from the smallest size to the largest
    std::size_t per_doubling_ = 1;
};

}  // namespace salus::device
