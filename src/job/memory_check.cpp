#include "job/memory_check.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/random.h"

namespace salus::job {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kPage = 4096;
/// Words handled at a time: a constant number of them is what lets the compiler use wide registers at -O2.
constexpr std::size_t kRun = 64;
constexpr std::size_t kPieceSize = 16 << 10;
constexpr std::size_t kSlices = 8;
/// One piece in so many of a slice is updated, and at least one if there is any.
constexpr std::size_t kUpdated = 4;
constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ull;

std::uint64_t mixed(std::uint64_t x) { return Random(x).next(); }

std::uint64_t* words_of(Memory memory) { return reinterpret_cast<std::uint64_t*>(memory.data()); }
const std::uint64_t* words_of(std::span<const std::byte> memory) {
    return reinterpret_cast<const std::uint64_t*>(memory.data());
}

/// Each word tells its place, so that moved memory is noticed as much as overwritten memory.
std::uint64_t pattern_word(std::uint64_t key, std::size_t index) { return key + index * kOdd; }

std::optional<std::size_t> change_in(std::span<const std::byte> memory, std::uint64_t key, std::size_t offset,
                                     std::size_t size) {
    for (std::size_t at = offset; at < offset + size; at += kWord) {
        const std::uint64_t expected = pattern_word(key, at / kWord);
        std::array<std::byte, kWord> bytes{};
        std::memcpy(bytes.data(), &expected, kWord);
        for (std::size_t i = 0; i < kWord && at + i < offset + size; ++i) {
            if (memory[at + i] != bytes[i]) return at + i;
        }
    }
    return std::nullopt;
}

/// Each step maps different sums to different sums, so a single changed word never goes unseen. Four sums, because a
/// processor can multiply faster than it can wait for a product.
class Checksum {
public:
    explicit Checksum(std::uint64_t key) : sums_{key, ~key, key * kOdd, ~(key * kOdd)} {}

    void add(std::size_t index, std::uint64_t word) { sums_[index % 4] = (sums_[index % 4] ^ word) * kOdd; }
    std::uint64_t value() const {
        std::uint64_t value = 0;
        for (std::uint64_t sum : sums_) value = mixed(value ^ sum);
        return value;
    }

private:
    std::array<std::uint64_t, 4> sums_;
};

std::uint64_t checksum_of(std::span<const std::byte> memory, std::uint64_t key) {
    Checksum checksum(key);
    const std::uint64_t* words = words_of(memory);
    for (std::size_t i = 0; i < memory.size() / kWord; ++i) checksum.add(i, words[i]);
    return checksum.value();
}

}  // namespace

std::uint64_t pattern_key(std::uint64_t seed, std::uint64_t iteration, std::uint64_t block) {
    return mixed(mixed(mixed(seed) ^ iteration) ^ block);
}

void fill(Memory memory, std::uint64_t key, Touch touch) {
    if (touch == Touch::kPages) {
        for (std::size_t offset = 0; offset < memory.size(); offset += kPage) {
            const std::uint64_t word = pattern_word(key, offset / kWord);
            std::memcpy(memory.data() + offset, &word, std::min(kWord, memory.size() - offset));
        }
        return;
    }
    std::uint64_t* words = words_of(memory);
    const std::size_t whole = memory.size() / kWord / kRun * kRun;
    for (std::size_t first = 0; first < whole; first += kRun) {
        const std::uint64_t start = pattern_word(key, first);
        for (std::size_t i = 0; i < kRun; ++i) words[first + i] = start + i * kOdd;
    }
    for (std::size_t offset = whole * kWord; offset < memory.size(); offset += kWord) {
        const std::uint64_t word = pattern_word(key, offset / kWord);
        std::memcpy(memory.data() + offset, &word, std::min(kWord, memory.size() - offset));
    }
}

std::optional<std::size_t> first_change(std::span<const std::byte> memory, std::uint64_t key, Touch touch) {
    if (touch == Touch::kPages) {
        for (std::size_t offset = 0; offset < memory.size(); offset += kPage) {
            if (const auto at = change_in(memory, key, offset, std::min(kWord, memory.size() - offset))) return at;
        }
        return std::nullopt;
    }
    const std::uint64_t* words = words_of(memory);
    const std::size_t whole = memory.size() / kWord / kRun * kRun;
    for (std::size_t first = 0; first < whole; first += kRun) {
        const std::uint64_t start = pattern_word(key, first);
        std::uint64_t difference = 0;
        for (std::size_t i = 0; i < kRun; ++i) difference |= words[first + i] ^ (start + i * kOdd);
        if (difference != 0) return change_in(memory, key, first * kWord, kRun * kWord);
    }
    return change_in(memory, key, whole * kWord, memory.size() - whole * kWord);
}

void PersistentState::add(Memory block) {
    SALUS_CHECK(block.size() % kWord == 0, "persistent state is made of words");
    for (std::size_t offset = 0; offset < block.size(); offset += kPieceSize) {
        const Memory memory = block.subspan(offset, std::min(kPieceSize, block.size() - offset));
        const std::uint64_t key = pattern_key(~seed_, blocks_, offset);
        // Of what is written and not of what can be read back.
        Checksum checksum(pieces_.size());
        std::uint64_t* words = words_of(memory);
        for (std::size_t i = 0; i < memory.size() / kWord; ++i) {
            const std::uint64_t word = pattern_word(key, i);
            checksum.add(i, word);
            words[i] = word;
        }
        pieces_.push_back({memory, checksum.value(), blocks_, offset});
    }
    size_ += block.size();
    ++blocks_;
}

std::optional<PersistentState::Change> PersistentState::verify() const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (checksum_of(pieces_[i].memory, i) != pieces_[i].checksum) return pieces_[i].change();
    }
    return std::nullopt;
}

std::optional<PersistentState::Change> PersistentState::step(std::uint64_t iteration) {
    const std::uint64_t addend = mixed(seed_ ^ iteration);
    const std::size_t slice = iteration % kSlices;
    const std::size_t pieces_of_slice = (pieces_.size() + kSlices - 1 - slice) / kSlices;
    const std::size_t chosen = iteration / kSlices % std::clamp<std::size_t>(pieces_of_slice, 1, kUpdated);
    for (std::size_t i = slice; i < pieces_.size(); i += kSlices) {
        Piece& piece = pieces_[i];
        if (i / kSlices % kUpdated != chosen) {
            if (checksum_of(piece.memory, i) != piece.checksum) return piece.change();
            continue;
        }
        // One pass verifies and updates: a change between two passes would be taken into the new checksum.
        Checksum before(i), after(i);
        std::uint64_t* words = words_of(piece.memory);
        for (std::size_t w = 0; w < piece.memory.size() / kWord; ++w) {
            const std::uint64_t word = words[w];
            const std::uint64_t updated = word * kOdd + addend;
            before.add(w, word);
            after.add(w, updated);
            words[w] = updated;
        }
        if (before.value() != piece.checksum) return piece.change();
        piece.checksum = after.value();
    }
    return std::nullopt;
}

std::uint64_t PersistentState::digest() const {
    std::uint64_t digest = mixed(size_);
    for (const Piece& piece : pieces_) digest = mixed(digest ^ piece.checksum);
    return digest;
}

}  // namespace salus::job
