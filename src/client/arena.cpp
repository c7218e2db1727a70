#include "client/arena.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace salus::client {

std::optional<std::uint64_t> Arena::allocate(std::uint64_t size) {
    SALUS_CHECK(size > 0, "an empty block has no place");
    size = rounded(size);
    std::uint64_t offset = 0;
    // Gaps above a limit that was lowered do not count.
    auto gap = gaps_by_size_.lower_bound({size, 0});
    while (gap != gaps_by_size_.end() && gap->second + size > limit_) ++gap;
    if (gap != gaps_by_size_.end()) {
        const auto [gap_size, gap_offset] = *gap;
        remove_gap(gap_offset, gap_size);
        if (gap_size > size) add_gap(gap_offset + size, gap_size - size);
        offset = gap_offset;
    } else {
        if (end_ > limit_ || size > limit_ - end_) return std::nullopt;
        offset = end_;
        end_ += size;
    }
    used_.emplace(offset, size);
    in_use_ += size;
    peak_ = std::max(peak_, offset + size);
    return offset;
}

void Arena::free(std::uint64_t offset) {
    const auto block = used_.find(offset);
    SALUS_CHECK(block != used_.end(), "only what is in use can be freed");
    std::uint64_t size = block->second;
    used_.erase(block);
    in_use_ -= size;
    const auto after = gaps_.find(offset + size);
    if (after != gaps_.end()) {
        const std::uint64_t more = after->second;
        remove_gap(after->first, more);
        size += more;
    }
    auto before = gaps_.lower_bound(offset);
    if (before != gaps_.begin() && std::prev(before)->first + std::prev(before)->second == offset) {
        --before;
        const auto [start, length] = *before;
        remove_gap(start, length);
        offset = start;
        size += length;
    }
    if (offset + size == end_) end_ = offset;
    else add_gap(offset, size);
}

void Arena::reset_peak() { peak_ = used_.empty() ? 0 : std::prev(used_.end())->first + std::prev(used_.end())->second; }

std::uint64_t Arena::limit_for(std::uint64_t size) const { return end_ + rounded(size); }

void Arena::add_gap(std::uint64_t offset, std::uint64_t size) {
    gaps_.emplace(offset, size);
    gaps_by_size_.emplace(size, offset);
}

void Arena::remove_gap(std::uint64_t offset, std::uint64_t size) {
    gaps_.erase(offset);
    gaps_by_size_.erase({size, offset});
}

}  // namespace salus::client
