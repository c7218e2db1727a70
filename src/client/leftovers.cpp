#include "client/leftovers.h"

#include <algorithm>
#include <iterator>

namespace salus::client {

void Leftovers::add(device::Range range, std::uint64_t iteration) {
    ranges_[range.offset] = {range.size, iteration};
    bytes_ += range.size;
}

void Leftovers::take(device::Range range) {
    const std::uint64_t end = range.offset + range.size;
    auto it = ranges_.upper_bound(range.offset);
    if (it != ranges_.begin()) --it;
    while (it != ranges_.end() && it->first < end) {
        const std::uint64_t offset = it->first;
        const Freed freed = it->second;
        const std::uint64_t freed_end = offset + freed.size;
        if (freed_end <= range.offset) {
            ++it;
            continue;
        }
        it = ranges_.erase(it);
        bytes_ -= freed.size;
        if (offset < range.offset) add({offset, range.offset - offset}, freed.iteration);
        if (freed_end > end) add({end, freed_end - end}, freed.iteration);
    }
}

void Leftovers::give_back_before(std::uint64_t iteration) {
    for (auto it = ranges_.begin(); it != ranges_.end();) {
        if (it->second.iteration >= iteration) {
            ++it;
            continue;
        }
        give_back_({it->first, it->second.size});
        bytes_ -= it->second.size;
        it = ranges_.erase(it);
    }
}

}  // namespace salus::client
