// The books of the lane's window: what is placed there, what was evacuated, and what waits for the lane to come back.
//
// Not thread-safe, and touches no memory: who evacuates calls the device between begin_move() and end_move(), without a
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "client/arena.h"
#include "client/work_in_flight.h"
#include "device/device.h"

namespace salus::client {

class LaneHeap {
public:
    /// So much of the lane is mapped. Less than before also lowers the limit.
    void set_mapped(std::uint64_t size);
    std::uint64_t mapped() const { return mapped_; }
    Arena& arena() { return arena_; }
    const Arena& arena() const { return arena_; }

    /// While it is closed the lane takes no block: what is in it is being moved.
    void set_closed(bool closed) { closed_ = closed; }
    bool is_closed() const { return closed_; }

    std::optional<std::uint64_t> allocate(std::uint64_t size);
    /// The block is dead, but its memory may be in use by work in flight until release().
    void died(device::Range range);
    /// Its memory may be used again. False if it was evacuated: then it is private until the lane comes back there.
    bool release(device::Range range, WorkInFlight::Mark freed_after);

    /// Blocks alive in the lane, those that were evacuated aside.
    std::size_t alive() const { return alive_; }
    /// How many blocks have died in the lane so far.
    std::uint64_t deaths() const { return deaths_; }
    bool is_evacuated(std::uint64_t offset) const { return !evacuated_.empty() && evacuated_.contains(offset); }
    /// Offset and size of evacuated ranges that are not dead.
    const std::map<std::uint64_t, std::uint64_t>& evacuated() const { return evacuated_; }

    // ---- evacuation: one block at a time ----
    /// REQUIRES: it is alive in the lane.
    void begin_move(device::Range range) { moving_ = Move{range, false, false}; }
    /// True if the block was freed for good meanwhile; then release() has to be called now.
    bool end_move(bool moved);

    // ---- the lane comes back where evacuated blocks have died ----
    bool any_dead() const { return !dead_.empty(); }
    /// Those that died before this mark, which has passed.
    std::vector<device::Range> take_dead(WorkInFlight::Mark passed);
    /// The lane shows there again.
    void restored(device::Range range) { arena_.free(range.offset); }

private:
    struct Move {
        device::Range range;
        bool died;
        bool released;
    };
    struct Dead {
        device::Range range;
        WorkInFlight::Mark freed_after;
    };

    Arena arena_{0};
    std::uint64_t mapped_ = 0;
    std::size_t alive_ = 0;
    std::uint64_t deaths_ = 0;
    bool closed_ = false;
    std::map<std::uint64_t, std::uint64_t> evacuated_;
    std::optional<Move> moving_;
    std::vector<Dead> dead_;
};

}  // namespace salus::client
