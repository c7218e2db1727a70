#include "client/lane_heap.h"

#include <algorithm>
#include <utility>

namespace salus::client {

void LaneHeap::set_mapped(std::uint64_t size) {
    mapped_ = size;
    arena_.set_limit(std::min(arena_.limit(), size));
}

std::optional<std::uint64_t> LaneHeap::allocate(std::uint64_t size) {
    const std::optional<std::uint64_t> offset = arena_.allocate(size);
    if (offset) ++alive_;
    return offset;
}

void LaneHeap::died(device::Range range) {
    if (is_evacuated(range.offset)) return;
    --alive_;
    ++deaths_;
    if (moving_ && moving_->range.offset == range.offset) moving_->died = true;
}

bool LaneHeap::release(device::Range range, WorkInFlight::Mark freed_after) {
    if (is_evacuated(range.offset)) {
        evacuated_.erase(range.offset);
        dead_.push_back({range, freed_after});
        return false;
    }
    if (moving_ && moving_->range.offset == range.offset) moving_->released = true;
    else arena_.free(range.offset);
    return true;
}

bool LaneHeap::end_move(bool moved) {
    const Move move = *std::exchange(moving_, std::nullopt);
    if (moved) {
        evacuated_[move.range.offset] = move.range.size;
        if (!move.died) --alive_;
    }
    return move.released;
}

std::vector<device::Range> LaneHeap::take_dead(WorkInFlight::Mark passed) {
    std::vector<device::Range> ranges;
    std::erase_if(dead_, [&](const Dead& dead) {
        if (dead.freed_after >= passed) return false;
        ranges.push_back(dead.range);
        return true;
    });
    return ranges;
}

}  // namespace salus::client
