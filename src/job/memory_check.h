// Memory with known content, so that a change by anybody else is detected.
//
// Scratch is filled with a pattern of its own for each iteration and block. Persistent state evolves, as weights do, and is
// kept under checksums that live in ordinary memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace salus::job {

using Memory = std::span<std::byte>;

enum class Touch : std::uint8_t {
    kFull,  ///< every byte
    kPages  ///< one word a page
};

/// Each key has its own pattern.
std::uint64_t pattern_key(std::uint64_t seed, std::uint64_t iteration, std::uint64_t block);

/// REQUIRES: aligned to 8 bytes.
void fill(Memory memory, std::uint64_t key, Touch touch);

/// The offset of the first byte that is not as filled. REQUIRES: aligned to 8 bytes.
std::optional<std::size_t> first_change(std::span<const std::byte> memory, std::uint64_t key, Touch touch);

class PersistentState {
public:
    /// Somewhere in these bytes of a block.
    struct Change {
        std::size_t block;
        std::size_t offset;
        std::size_t size;
        bool operator==(const Change&) const = default;
    };

    explicit PersistentState(std::uint64_t seed) : seed_(seed) {}

    /// Adds the memory and writes its first content. REQUIRES: whole, aligned words; the memory stays at its address.
    void add(Memory block);
    std::size_t size() const { return size_; }

    std::optional<Change> verify() const;
    /// Verifies an eighth of the state, another one each iteration, and updates a part of that.
    std::optional<Change> step(std::uint64_t iteration);

    /// The same for the same seed, blocks and iterations, whoever else was on the device.
    std::uint64_t digest() const;

private:
    /// What one checksum covers.
    struct Piece {
        Memory memory;
        std::uint64_t checksum;
        std::size_t block;
        std::size_t offset;
        Change change() const { return {block, offset, memory.size()}; }
    };

    std::uint64_t seed_;
    std::size_t size_ = 0;
    std::size_t blocks_ = 0;
    std::vector<Piece> pieces_;
};

}  // namespace salus::job
