// Predicts which blocks will be dead at the boundary, from what became of the same allocation in earlier iterations.
//
// Two allocations are the same if kind of iteration, ordinal in it, size and stream agree. An ordinary training loop repeats
// its allocations exactly from the second iteration on (the first also makes the blocks that stay). Where it does not,
// nothing is known. If in doubt, a block is private.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace salus::client {

class Predictor {
public:
    /// One allocation of the current iteration.
    using Ticket = std::uint32_t;

    struct Allocation {
        Ticket ticket;
        bool dies;  ///< it has died before the boundary often enough
    };

    /// `kind` of the iteration: training and evaluation alternate, and allocate differently.
    Allocation allocated(std::uint64_t size, std::uint64_t stream, std::uint64_t kind);
    void freed(Ticket ticket) { live_[ticket].dead = true; }

    /// Learns which allocations of this iteration have died and which survive, and starts a new iteration.
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
    /// Each time the block survives, it needs twice as many deaths in a row before we expect it to die again.
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
