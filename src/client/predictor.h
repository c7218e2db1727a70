// Which blocks will be dead at the boundary? Learned from what became of the same allocation before.
//
// The same allocation: the same kind of iteration, ordinal in it, size and stream. The sequence of an ordinary training loop
// repeats exactly from the second iteration on (the first also makes what stays); where it does not, nothing is known and
// the block is private. Any doubt means private.
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
        bool dies;  ///< it was dead before the boundary, often enough
    };

    /// `kind` of the iteration: training and evaluation take turns, and allocate differently.
    Allocation allocated(std::uint64_t size, std::uint64_t stream, std::uint64_t kind);
    void freed(Ticket ticket) { live_[ticket].dead = true; }

    /// Those of this iteration that are still alive survive it, and are expected to; a new iteration starts.
    void boundary();

    bool was_freed(Ticket ticket) const { return live_[ticket].dead; }
    std::size_t allocations() const { return live_.size(); }

private:
    struct Key {
        std::uint64_t ordinal;
        std::uint64_t size;
        std::uint64_t stream;
        std::uint64_t kind;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    /// Each time one survives it takes twice as many deaths in a row to believe in the next.
    struct Record {
        std::uint8_t deaths = 0;  ///< in a row
        std::uint8_t needed = 1;
    };
    struct Live {
        Key key;
        bool dead;
    };

    std::unordered_map<Key, Record, KeyHash> learned_;
    std::vector<Live> live_;  ///< of this iteration, by ticket
};

}  // namespace salus::client
