// Predicts which blocks will be dead at the boundary, from what became of the same allocation in earlier iterations.
//
// Two allocations are the same if the kind of iteration, the size, the stream, and the number among those of that size in
// the iteration agree. An ordinary training loop repeats its allocations exactly from the second iteration on (the first
// also makes the blocks that stay). Where sizes vary from iteration to iteration, what has a fixed size, gradients above
// all, is still recognised.
//
// Note [Allocations not seen before]
// Once a kind of iteration is known, an allocation that is not is expected to die, as most do; if it survives, it is moved
// out of the lane at the boundary, and its record says so from then on. Two exceptions: where blocks of about that size and
// at that place in the iteration have survived twice (outputs that the program keeps, a cache that grows with each call),
// and blocks much larger than any that has died (something that is loaded, or made to stay).
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
        bool dies;  ///< before the boundary
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
        std::uint64_t number;  ///< among those of this size
        std::uint64_t size;
        std::uint64_t stream;
        std::uint64_t kind;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    template <typename Value>
    using Map = std::unordered_map<Key, Value, KeyHash>;

    /// Each time the block survives, it needs twice as many deaths in a row before we expect it to die again.
    struct Record {
        std::uint8_t deaths = 0;  ///< in a row
        std::uint8_t needed = 1;
    };
    /// What became of blocks of about one size at one place.
    struct Doubt {
        std::uint8_t survivals = 0;  ///< 2 at most
        std::uint8_t deaths = 0;     ///< in a row
    };
    struct Kind {
        unsigned iterations = 0;
        std::uint64_t largest_death = 0;
    };
    struct Live {
        Key key;
        Key about;  ///< the same with the ordinal in the iteration, and the size's order of magnitude
        bool dead;
    };

    bool is_expected_to_die(const Key& key, const Key& about) const;

    Map<Record> learned_;
    Map<Doubt> doubts_;
    std::unordered_map<std::uint64_t, Kind> kinds_;
    Map<std::uint32_t> count_of_size_;  ///< in this iteration
    std::vector<Live> live_;            ///< of this iteration, by ticket
};

}  // namespace salus::client
