#include "device/pieces.h"

#include <gtest/gtest.h>

namespace salus::device {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(Pieces, GrowWithTheirDistanceFromTheStart) {
    constexpr Pieces pieces(2 * kMiB, 64 * kMiB, 4);
    const struct {
        std::uint64_t from_mib, to_mib, size_mib;
    } rows[] = {{0, 16, 2}, {16, 32, 4}, {32, 64, 8}, {64, 128, 16}, {128, 256, 32}, {256, 4096, 64}};
    std::size_t number = 0;
    for (const auto& row : rows) {
        for (std::uint64_t at = row.from_mib; at < row.to_mib; at += row.size_mib, ++number) {
            EXPECT_EQ(pieces.start(number), at * kMiB);
            EXPECT_EQ(pieces.size(number), row.size_mib * kMiB);
            EXPECT_EQ(pieces.at(at * kMiB), number);
            EXPECT_EQ(pieces.at((at + row.size_mib) * kMiB - 1), number);
        }
    }
}

TEST(Pieces, RoundingUpAddsLittleAndTakesFew) {
    constexpr Pieces pieces(2 * kMiB, 64 * kMiB, 4);
    EXPECT_EQ(pieces.rounded_up(0), 0u);
    EXPECT_EQ(pieces.count(0), 0u);
    for (std::uint64_t size = 1; size < 2048 * kMiB; size += 777'777) {
        const std::uint64_t rounded = pieces.rounded_up(size);
        ASSERT_GE(rounded, size);
        ASSERT_LT(rounded - size, std::max(2 * kMiB, size / 4)) << size;
        ASSERT_EQ(pieces.rounded_up(rounded), rounded) << size;
        ASSERT_EQ(pieces.start(pieces.count(size)), rounded) << size;
        ASSERT_LE(pieces.count(size), size / (64 * kMiB) + 21) << "few more than with the largest alone: " << size;
    }
}

TEST(Pieces, OfOneByteRoundNothingUp) {
    constexpr Pieces pieces;
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kMiB + 1, std::uint64_t{1} << 60}) {
        EXPECT_EQ(pieces.rounded_up(size), size);
        EXPECT_EQ(pieces.start(pieces.at(size)), size);
    }
}

}  // namespace
}  // namespace salus::device
