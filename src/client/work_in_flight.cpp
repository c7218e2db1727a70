#include "client/work_in_flight.h"

#include <algorithm>

namespace salus::client {

bool WorkInFlight::serves(device::Stream stream, bool inside) {
    if (!has_home_) {
        home_ = stream;
        has_home_ = true;
    }
    if (stream != home_ && !reuse_at_once_) {
        if (inside) refused_ = stream;
        return false;
    }
    if (inside) used_home_ = true;
    fences_.uses(stream);
    return true;
}

void WorkInFlight::used_on(Block& block, device::Stream stream) {
    if (stream == block.stream) return;
    if (std::find(block.others.begin(), block.others.end(), stream) == block.others.end()) block.others.push_back(stream);
    fences_.uses(stream);
}

bool WorkInFlight::order_before_home(device::Stream stream) {
    return !has_home_ || stream == home_ || fences_.order(stream, home_) == device::Fences::Order::kDone;
}

std::optional<device::Stream> WorkInFlight::next_home() {
    const std::optional<device::Stream> refused = std::exchange(refused_, std::nullopt);
    return std::exchange(used_home_, false) ? std::nullopt : refused;
}

/// Marks the home stream and the streams of late blocks. Each fence has to mark them anew.
bool WorkInFlight::fence() {
    fences_.uses(home_);
    for (const Late& late : late_) note_uses(late.block);
    return fences_.fence();
}

bool WorkInFlight::keep_if_late(const Block& block) {
    if ((block.others.empty() && block.stream == home_) || reuse_at_once_) return false;
    note_uses(block);
    late_.push_back({block, marks_});
    late_bytes_ += block.range.size;
    return true;
}

std::vector<WorkInFlight::Late> WorkInFlight::take_late(Mark passed) {
    std::vector<Late> through;
    std::erase_if(late_, [&](Late& late) {
        if (late.freed_after >= passed) return false;
        late_bytes_ -= late.block.range.size;
        through.push_back(std::move(late));
        return true;
    });
    return through;
}

void WorkInFlight::note_uses(const Block& block) {
    fences_.uses(block.stream);
    for (const device::Stream stream : block.others) fences_.uses(stream);
}

}  // namespace salus::client
