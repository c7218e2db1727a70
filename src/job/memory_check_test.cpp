#include "job/memory_check.h"

#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace salus::job {
namespace {

constexpr std::byte kFlip{0x10};

/// Aligned memory of any size.
struct Buffer {
    explicit Buffer(std::size_t size) : words((size + 7) / 8), memory(reinterpret_cast<std::byte*>(words.data()), size) {}
    std::vector<std::uint64_t> words;
    Memory memory;
};

TEST(Pattern, IsFoundUnchanged) {
    for (const Touch touch : {Touch::kFull, Touch::kPages}) {
        for (const std::size_t size : {0u, 1u, 7u, 8u, 9u, 511u, 512u, 513u, 4095u, 4096u, 4097u, 4100u, 100'003u}) {
            Buffer buffer(size);
            fill(buffer.memory, 42, touch);
            EXPECT_EQ(first_change(buffer.memory, 42, touch), std::nullopt) << size;
        }
    }
}

TEST(Pattern, OneChangedByteAnywhereIsSeen) {
    for (const std::size_t size : {1u, 7u, 8u, 13u, 512u, 1024u, 1031u}) {
        Buffer buffer(size);
        fill(buffer.memory, 42, Touch::kFull);
        for (std::size_t at = 0; at < size; ++at) {
            buffer.memory[at] ^= kFlip;
            EXPECT_EQ(first_change(buffer.memory, 42, Touch::kFull), at) << size;
            buffer.memory[at] ^= kFlip;
        }
    }
}

TEST(Pattern, OfPagesSeesTheFirstWordOfEach) {
    Buffer buffer(3 * 4096 + 5);
    fill(buffer.memory, 42, Touch::kPages);
    for (const std::size_t at : {0u, 7u, 4096u, 2 * 4096u + 3, 3 * 4096u + 4}) {
        buffer.memory[at] ^= kFlip;
        EXPECT_EQ(first_change(buffer.memory, 42, Touch::kPages), at);
        buffer.memory[at] ^= kFlip;
    }
    buffer.memory[8] ^= kFlip;
    EXPECT_EQ(first_change(buffer.memory, 42, Touch::kPages), std::nullopt);
}

TEST(Pattern, IsAnotherForEachJobIterationBlockAndPlace) {
    std::set<std::uint64_t> keys;
    for (std::uint64_t seed : {0u, 1u, 2u}) {
        for (std::uint64_t iteration : {0u, 1u, 2u}) {
            for (std::uint64_t block : {0u, 1u, 2u}) keys.insert(pattern_key(seed, iteration, block));
        }
    }
    EXPECT_EQ(keys.size(), 27u);
    Buffer buffer(4096);
    fill(buffer.memory, 42, Touch::kFull);
    EXPECT_EQ(first_change(buffer.memory, 43, Touch::kFull), 0u);
    std::memmove(buffer.memory.data(), buffer.memory.data() + 64, 4096 - 64);
    EXPECT_EQ(first_change(buffer.memory, 42, Touch::kFull), 0u);
}

TEST(PersistentState, StaysValidAsItEvolves) {
    Buffer first(1 << 20), second(200'000);
    PersistentState state(7);
    state.add(first.memory);
    EXPECT_EQ(state.verify(), std::nullopt);
    std::set<std::uint64_t> digests{state.digest()};
    for (std::uint64_t k = 0; k < 100; ++k) {
        if (k == 50) state.add(second.memory);
        ASSERT_EQ(state.step(k), std::nullopt) << k;
        digests.insert(state.digest());
    }
    EXPECT_EQ(state.verify(), std::nullopt);
    EXPECT_EQ(state.size(), (1u << 20) + 200'000u);
    EXPECT_GT(digests.size(), 20u);
}

TEST(PersistentState, OneChangedByteIsSeenByTheNextEightSteps) {
    constexpr std::size_t kSize = (1 << 20) + 24;
    for (std::size_t at = 0; at < kSize; at += 32'749) {  // a prime, so that every place in a word has its turn
        Buffer buffer(kSize);
        PersistentState state(7);
        state.add(buffer.memory);
        for (std::uint64_t k = 0; k < 11; ++k) ASSERT_EQ(state.step(k), std::nullopt);
        buffer.memory[at] ^= kFlip;
        const auto change = state.verify();
        ASSERT_TRUE(change) << at;
        EXPECT_LE(change->offset, at);
        EXPECT_LT(at, change->offset + change->size);
        bool seen = false;
        for (std::uint64_t k = 11; k < 19; ++k) seen |= state.step(k) == change;
        EXPECT_TRUE(seen) << at;
    }
}

TEST(PersistentState, DigestDependsOnSeedAndIterationsOnly) {
    const auto digest = [](std::uint64_t seed, std::uint64_t iterations) {
        Buffer buffer(128 << 10);  // few enough pieces that a step could find nothing to update
        PersistentState state(seed);
        state.add(buffer.memory);
        for (std::uint64_t k = 0; k < iterations; ++k) EXPECT_EQ(state.step(k), std::nullopt);
        return state.digest();
    };
    EXPECT_EQ(digest(1, 10), digest(1, 10));
    for (std::uint64_t k = 0; k < 20; ++k) EXPECT_NE(digest(1, k), digest(1, k + 1));
    EXPECT_NE(digest(1, 10), digest(2, 10));
}

}  // namespace
}  // namespace salus::job
