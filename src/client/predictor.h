// Which blocks will be dead at the boundary? Learned from what became of the same allocation before.
//
// The same allocation: the same ordinal in the iteration, size and stream. The sequence of an ordinary training loop repeats
// exactly from the second iteration on; where it does not, nothing is known and the block is private. Any doubt means
// private.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace salus::client {

class Predictor {
public:
    /// One allocation of the present iteration.
    using Ticket = std::uint32_t;

    struct Allocation {
        Ticket ticket;
        bool dies;  ///< every time so far it was dead before the boundary
    };

    Allocation allocated(std::uint64_t size, std::uint64_t stream);
    void freed(Ticket ticket) { live_[ticket].dead = true; }

    /// Those of this iteration that are still alive survive it, now and in future; a new iteration starts.
    void boundary();

    bool was_freed(Ticket ticket) const { return live_[ticket].dead; }
    std::size_t allocations() const { return live_.size(); }

private:
    struct Key {
        std::uint64_t ordinal;
        std::uint64_t size;
        std::uint64_t stream;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    enum class Verdict : std::uint8_t { kUnknown, kDies, kSurvives };
    struct Live {
        Key key;
        bool dead;
    };

    std::unordered_map<Key, Verdict, KeyHash> learned_;
    std::vector<Live> live_;  ///< of this iteration, by ticket
};

}  // namespace salus::client
