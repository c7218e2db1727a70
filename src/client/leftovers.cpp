#include "client/leftovers.h"

#include <algorithm>
#include <iterator>

namespace salus::client {

void Leftovers::add(device::Range range, Age age) {
    ranges_[range.offset] = {range.size, age};
    bytes_ += range.size;
}

std::vector<device::Range> Leftovers::take(device::Range range) {
    std::vector<device::Range> missing;
    std::uint64_t seen = range.offset;
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
        if (offset > seen) missing.push_back({seen, offset - seen});
        seen = std::min(freed_end, end);
        if (offset < range.offset) add({offset, range.offset - offset}, freed.age);
        if (freed_end > end) add({end, freed_end - end}, freed.age);
    }
    if (seen < end) missing.push_back({seen, end - seen});
    return missing;
}

bool Leftovers::any_before(std::uint64_t iteration) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const auto& entry) { return entry.second.age.iteration < iteration; });
}

void Leftovers::give_back_before(std::uint64_t iteration, std::uint64_t mark) {
    for (auto it = ranges_.begin(); it != ranges_.end();) {
        if (it->second.age.iteration >= iteration || it->second.age.mark >= mark) {
            ++it;
            continue;
        }
        give_back_({it->first, it->second.size});
        bytes_ -= it->second.size;
        it = ranges_.erase(it);
    }
}

}  // namespace salus::client
