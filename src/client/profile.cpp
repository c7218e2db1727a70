#include "client/profile.h"

#include <algorithm>

#include "client/arena.h"

namespace salus::client {
namespace {

constexpr std::size_t kStepsMax = 1 << 18;

}  // namespace

void Profile::RecentMax::add(std::uint64_t value) {
    now_ = std::max(now_, value);
    if (++count_ < kWindow) return;
    before_ = now_;
    now_ = 0;
    count_ = 0;
}

Profile::Guess Profile::wanted(std::uint64_t size, device::Stream stream) {
    const Predictor::Allocation allocation = predictor_.allocated(size, stream, kind_);
    return {{true, allocation.ticket, iteration_}, allocation.dies || mispredicts()};
}

void Profile::not_had(const Birth& birth) {
    if (birth.iteration == iteration_) predictor_.freed(birth.ticket);
}

void Profile::allocated(const Birth& birth, std::uint64_t size, std::uint64_t private_bytes) {
    const bool known = birth.has_ticket && birth.iteration == iteration_;
    note({true, known, birth.ticket, size}, private_bytes);
}

void Profile::freed(const Block& block, bool inside, std::uint64_t private_bytes) {
    const bool died_inside = inside && block.birth.has_ticket && block.birth.iteration == iteration_;
    if (died_inside) predictor_.freed(block.birth.ticket);
    note({false, died_inside, block.birth.ticket, block.range.size}, private_bytes);
    if (block.place == Place::kPrivate && died_inside) missed_ += block.range.size;
}

/// Drops all steps at kStepsMax: if no boundary comes, they must not fill memory.
void Profile::note(const Step& step, std::uint64_t private_bytes) {
    if (alone_) return;
    if (steps_.size() == kStepsMax) {
        steps_.clear();
        at_boundary_ = private_bytes;
    }
    steps_.push_back(step);
}

bool Profile::uneventful(std::uint64_t private_peak) const {
    return steps_.empty() && private_peak == at_boundary_ && iteration_ > 0;
}

Needs Profile::learn(const Seen& seen) {
    const Needs needs = missed_ > 0 && !seen.threaded ? replay(seen) : Needs{seen.private_peak, seen.lane_peak};
    persistent_.add(needs.persistent);
    ephemeral_.add(needs.ephemeral);
    predictor_.boundary();
    steps_.clear();
    missed_ = 0;
    at_boundary_ = seen.private_bytes;
    return {persistent_.get(), ephemeral_.get()};
}

/// What the iteration would have needed if every block that died in it had been in the lane.
Needs Profile::replay(const Seen& seen) const {
    Arena lane(std::uint64_t{1} << 60);
    constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
    std::vector<std::uint64_t> offsets(predictor_.allocations(), kNowhere);
    std::uint64_t live = at_boundary_;
    std::uint64_t peak = at_boundary_;
    for (const Step& step : steps_) {
        if (step.has_ticket && predictor_.was_freed(step.ticket)) {
            std::uint64_t& offset = offsets[step.ticket];
            if (step.allocated) offset = lane.allocate(step.size).value_or(kNowhere);
            else if (offset != kNowhere) lane.free(offset);
        } else if (step.allocated) {
            live += step.size;
            peak = std::max(peak, live);
        } else {
            live -= std::min(live, step.size);
        }
    }
    return {std::max(peak, seen.private_bytes), std::max(lane.peak(), seen.lane_peak)};
}

void Profile::set_alone(bool alone, std::uint64_t private_bytes) {
    alone_ = alone;
    if (alone) return;
    steps_.clear();
    missed_ = 0;
    at_boundary_ = private_bytes;
}

}  // namespace salus::client
