// The books of the lane's window: which blocks are placed there, which were evacuated, and where to restore the lane.
//
// Not thread-safe. It touches no memory: to evacuate, the caller calls the device between begin_move() and end_move(),
// without a lock.
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
    /// Sets how much of the lane is mapped. The arena's limit never exceeds it.
    void set_mapped(std::uint64_t size);
    std::uint64_t mapped() const { return mapped_; }
    Arena& arena() { return arena_; }
    const Arena& arena() const { return arena_; }

    /// While the lane is closed, no block may be placed in it: its blocks are being moved.
    void set_closed(bool closed) { closed_ = closed; }
    bool is_closed() const { return closed_; }

    std::optional<std::uint64_t> allocate(std::uint64_t size);
    /// The block is freed, but work in flight may use its memory until release().
    void died(device::Range range);
    /// The block's memory may be used again. False if the block was evacuated: its range stays private until restored().
    bool release(device::Range range, WorkInFlight::Mark freed_after);

    /// Blocks alive in the lane, without evacuated ones.
    std::size_t alive() const { return alive_; }
    /// How many blocks have died in the lane so far.
    std::uint64_t deaths() const { return deaths_; }
    bool is_evacuated(std::uint64_t offset) const { return !evacuated_.empty() && evacuated_.contains(offset); }
    /// Offset and size of evacuated ranges that are still in use.
    const std::map<std::uint64_t, std::uint64_t>& evacuated() const { return evacuated_; }

    // ---- evacuation: one block at a time ----
    /// REQUIRES: the block is alive in the lane.
    void begin_move(device::Range range) { moving_ = Move{range, false, false}; }
    /// True if the block was released meanwhile; then the caller must call release() again.
    bool end_move(bool moved);

    // ---- the lane is restored where evacuated blocks have died ----
    bool any_dead() const { return !dead_.empty(); }
    /// The ranges that were freed before this mark, which has passed.
    std::vector<device::Range> take_dead(WorkInFlight::Mark passed);
    /// The window shows the lane in this range again.
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
