#include "client/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace salus::client {
namespace {

/// What is added to P, so that it need not be asked for bit by bit: some for evacuation, some for the small blocks.
std::uint64_t with_slack(std::uint64_t persistent) { return persistent + persistent / 64 + (std::uint64_t{2} << 20); }

/// Outside of iterations growth is told in steps.
constexpr std::uint64_t kObserveStep = std::uint64_t{16} << 20;

constexpr std::size_t kStepsMax = 1 << 18;

/// How many iterations freed memory is kept for the next one to use.
constexpr std::uint64_t kKeptIterations = 2;
/// A job that is not in iterations keeps this much at most, beyond a share of what it uses.
constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

}  // namespace

void Memory::RecentMax::add(std::uint64_t value) {
    now_ = std::max(now_, value);
    if (++count_ < kWindow) return;
    before_ = now_;
    now_ = 0;
    count_ = 0;
}

Memory::Memory(ControlPage& page, device::ClientMemory& device, Provider& provider)
    : page_(page),
      device_(device),
      provider_(provider),
      private_(device.window_size()),
      leftovers_([this](device::Range range) { device_.discard_private(range); }) {}

Memory::~Memory() {
    if (lane_descriptor_ >= 0) ::close(lane_descriptor_);
}

// -------------------------------------------------------------------------------------------------------- allocation

void* Memory::allocate(std::size_t size, Kind kind, bool inside) {
    if (size < kManagedMin) {
        void* block = nullptr;
        if (::posix_memalign(&block, 64, std::max<std::size_t>(size, 1)) != 0) return nullptr;
        const std::lock_guard lock(mutex_);
        count_private(static_cast<std::int64_t>(::malloc_usable_size(block)));
        return block;
    }
    if (size > device_.window_size()) return nullptr;
    size = Arena::rounded(size);
    std::unique_lock lock(mutex_);
    if (!inside || kind == Kind::kPersistent) return allocate_private(lock, size, inside, nullptr);
    const Predictor::Allocation allocation = predictor_.allocated(size, /*stream=*/0, kind_);
    const bool ephemeral = kind == Kind::kEphemeral || (kind == Kind::kAuto && (allocation.dies || mispredicts()));
    void* block = ephemeral && mapped_ > 0 ? allocate_in_lane(lock, size, allocation)
                                           : allocate_private(lock, size, true, &allocation);
    if (!block) predictor_.freed(allocation.ticket);  // what never was has not survived
    return block;
}

void* Memory::allocate_in_lane(std::unique_lock<std::mutex>& lock, std::uint64_t size,
                               const Predictor::Allocation& allocation) {
    for (;;) {
        if (const auto offset = lane_.allocate(size)) {
            ++lane_blocks_;
            page_.lane_bytes.fetch_add(size, std::memory_order_relaxed);
            return enter(Place::kLane, *offset, size, &allocation);
        }
        const Needs needs{std::max(room_, in_use_), lane_.limit_for(size)};
        if (alone_ || needs.ephemeral > device_.window_size()) return allocate_private(lock, size, true, &allocation);
        lock.unlock();
        const bool given = provider_.ask(needs);
        lock.lock();
        if (!given && !alone_) return nullptr;
        if (mapped_ >= needs.ephemeral) lane_.set_limit(std::max(lane_.limit(), needs.ephemeral));
    }
}

void* Memory::allocate_private(std::unique_lock<std::mutex>& lock, std::uint64_t size, bool inside,
                               const Predictor::Allocation* allocation) {
    while (inside && !alone_ && in_use_ + size > room_) {
        const Needs needs{with_slack(in_use_ + size), mapped_ > 0 ? lane_.limit() : 0};
        lock.unlock();
        const bool given = provider_.ask(needs);
        lock.lock();
        if (given) room_ = std::max(room_, needs.persistent);
        else if (!alone_) return nullptr;
    }
    const auto offset = private_.allocate(size);
    if (!offset) return nullptr;
    leftovers_.take({*offset, size});
    void* block = enter(Place::kPrivate, *offset, size, allocation);
    count_private(static_cast<std::int64_t>(size));
    if (!inside && !alone_ && in_use_ >= observed_ + kObserveStep) {
        const std::uint64_t observed = observed_ = in_use_;
        lock.unlock();
        provider_.observe(observed);
    }
    return block;
}

void* Memory::enter(Place place, std::uint64_t offset, std::uint64_t size, const Predictor::Allocation* allocation) {
    std::byte* start = (place == Place::kLane ? device_.lane_window() : device_.private_window()) + offset;
    const Predictor::Ticket ticket = allocation ? allocation->ticket : 0;
    note({true, allocation != nullptr, ticket, size});
    blocks_.emplace(start, Block{offset, size, place, allocation != nullptr, ticket, iteration_});
    return start;
}

/// For the replay at the next boundary. Where none comes it must not fill memory.
void Memory::note(const Step& step) {
    if (alone_) return;
    if (steps_.size() == kStepsMax) {
        steps_.clear();
        at_boundary_ = in_use_;
    }
    steps_.push_back(step);
}

void Memory::count_private(std::int64_t change) {
    in_use_ += static_cast<std::uint64_t>(change);
    peak_ = std::max(peak_, in_use_);
    page_.private_bytes.store(in_use_, std::memory_order_relaxed);
}

void Memory::free(void* start) {
    if (!start) return;
    if (!owns(start)) {
        {
            const std::lock_guard lock(mutex_);
            count_private(-static_cast<std::int64_t>(::malloc_usable_size(start)));
        }
        return ::free(start);
    }
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(start);
    if (found == blocks_.end()) return;  // freed twice: there is nothing sensible to do in someone else's process
    const Block block = found->second;
    blocks_.erase(found);
    const bool of_this_iteration = block.has_ticket && block.iteration == iteration_;
    if (of_this_iteration) predictor_.freed(block.ticket);
    note({false, of_this_iteration, block.ticket, block.size});
    if (paged_) device_.forget_paged(static_cast<std::byte*>(start));
    switch (block.place) {
        case Place::kLane:
            lane_.free(block.offset);
            --lane_blocks_;
            return;
        case Place::kEvacuated:
            // Where the lane does not come back nothing more is placed.
            if (restore_lane({block.offset, block.size})) lane_.free(block.offset);
            break;
        case Place::kPrivate:
            private_.free(block.offset);
            let_go({block.offset, block.size});
            if (of_this_iteration) missed_ += block.size;
            break;
    }
    count_private(-static_cast<std::int64_t>(block.size));
}

/// A private range is free. The same is often wanted again in the next iteration.
void Memory::let_go(device::Range range) {
    const bool keep = !alone_ && !paged_ && leftovers_.bytes() + range.size <= in_use_ / 2 + kKeptBytes;
    if (keep) leftovers_.add(range, iteration_);
    else device_.discard_private(range);
}

bool Memory::in_lane(const void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    return found != blocks_.end() && found->second.place == Place::kLane;
}

std::uint64_t Memory::private_bytes() {
    const std::lock_guard lock(mutex_);
    return in_use_;
}

bool Memory::owns(const void* block) const {
    const auto within = [&](const std::byte* window) { return block >= window && block < window + device_.window_size(); };
    return within(device_.lane_window()) || within(device_.private_window());
}

// --------------------------------------------------------------------------------------------------------- iterations

void Memory::turn_begins() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t room = page_.room.load(std::memory_order_relaxed);
    if (mapped_ == 0 && room > 0) room_ = room;  // a profiling turn
    if (mapped_ == 0) return;
    lane_.set_limit(std::min(mapped_, page_.ephemeral.load(std::memory_order_relaxed)));
    room_ = std::max(page_.persistent.load(std::memory_order_relaxed), in_use_);
}

bool Memory::boundary() {
    const std::lock_guard lock(mutex_);
    const bool clean = evacuate_all();
    if (!steps_.empty() || peak_ != at_boundary_ || iteration_ == 0) learn();
    if (!clean) page_.boundaries_delayed.fetch_add(1, std::memory_order_relaxed);
    ++iteration_;
    // What a profiling turn used is wanted by others; later on, the next iteration wants the same.
    if (mapped_ == 0) leftovers_.give_back_all();
    else if (iteration_ > kKeptIterations) leftovers_.give_back_before(iteration_ - kKeptIterations);
    return clean;
}

void Memory::learn() {
    const Needs needs = missed_ > 0 ? replay() : Needs{peak_, lane_.peak()};
    persistent_.add(needs.persistent);
    ephemeral_.add(needs.ephemeral);
    page_.persistent.store(with_slack(persistent_.get()), std::memory_order_relaxed);
    page_.ephemeral.store(ephemeral_.get(), std::memory_order_relaxed);
    page_.missed_bytes.fetch_add(missed_, std::memory_order_relaxed);
    if (lane_.peak() > page_.lane_peak.load(std::memory_order_relaxed)) {
        page_.lane_peak.store(lane_.peak(), std::memory_order_relaxed);
    }
    predictor_.boundary();
    steps_.clear();
    missed_ = 0;
    peak_ = at_boundary_ = observed_ = in_use_;
    lane_.reset_peak();
}

/// What the iteration would have needed, had everything that died in it been in the lane.
Needs Memory::replay() const {
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
    return {std::max(peak, in_use_), std::max(lane.peak(), lane_.peak())};
}

// --------------------------------------------------------------------------------------------------------- evacuation

bool Memory::evacuate(Block& block) {
    if (!device_.make_private({block.offset, block.size})) return false;
    block.place = Place::kEvacuated;
    --lane_blocks_;
    count_private(static_cast<std::int64_t>(block.size));
    page_.evacuations.fetch_add(1, std::memory_order_relaxed);
    page_.evacuated_bytes.fetch_add(block.size, std::memory_order_relaxed);
    return true;
}

/// True if nothing alive is left in the lane.
bool Memory::evacuate_all() {
    if (lane_blocks_ == 0) return true;
    for (auto& [start, block] : blocks_) {
        if (block.place == Place::kLane) evacuate(block);
    }
    return lane_blocks_ == 0;
}

/// The lane shows through again where an evacuated block was, as far as the lane reaches.
bool Memory::restore_lane(device::Range range) {
    const std::uint64_t inside = mapped_ > range.offset ? std::min(range.size, mapped_ - range.offset) : 0;
    device_.unmap_lane(range);
    return inside == 0 || device_.map_lane(lane_descriptor_, {range.offset, inside});
}

std::vector<device::Range> Memory::evacuated_ranges() const {
    std::vector<device::Range> ranges;
    for (const auto& [start, block] : blocks_) {
        if (block.place == Place::kEvacuated) ranges.push_back({block.offset, block.size});
    }
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return ranges;
}

// -------------------------------------------------------------------------------------------------------------- lanes

bool Memory::map_lane(int descriptor, std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    size = Arena::rounded(size);
    if (descriptor >= 0) {  // another lane than before, or the first
        if (lane_descriptor_ >= 0) ::close(lane_descriptor_);
        lane_descriptor_ = descriptor;
    }
    if (size > device_.window_size() || lane_descriptor_ < 0) return false;
    const std::vector<device::Range> evacuated = evacuated_ranges();
    bool ok = true;
    if (size > mapped_) {
        device::around(evacuated, mapped_, size,
                       [&](const device::Range& r) { ok = ok && device_.map_lane(lane_descriptor_, r); });
    } else {
        device::around(evacuated, size, mapped_, [&](const device::Range& r) { device_.unmap_lane(r); });
        lane_.set_limit(std::min(lane_.limit(), size));
    }
    if (ok) mapped_ = size;
    return ok;
}

void Memory::unmap_lane() {
    const std::lock_guard lock(mutex_);
    device::around(evacuated_ranges(), 0, mapped_, [&](const device::Range& range) { device_.unmap_lane(range); });
    mapped_ = 0;
    lane_.set_limit(0);
    if (lane_descriptor_ >= 0) ::close(lane_descriptor_);
    lane_descriptor_ = -1;
}

std::uint64_t Memory::mapped() {
    const std::lock_guard lock(mutex_);
    return mapped_;
}

void Memory::set_room(std::uint64_t persistent) {
    const std::lock_guard lock(mutex_);
    room_ = persistent;
}

// ------------------------------------------------------------------------------------------------------------- paging

bool Memory::page_out() {
    const std::lock_guard lock(mutex_);
    if (paged_) return true;
    leftovers_.give_back_all();
    std::vector<device::Range> ranges;
    for (const auto& [offset, size] : private_.used()) ranges.push_back({offset, size});
    if (!device_.page_out(ranges, evacuated_ranges())) return false;
    paged_ = true;
    page_.page_outs.fetch_add(1, std::memory_order_relaxed);
    return true;
}

bool Memory::page_in() {
    const std::lock_guard lock(mutex_);
    if (!paged_) return true;
    if (!device_.page_in()) return false;
    paged_ = false;
    return true;
}

bool Memory::paged() {
    const std::lock_guard lock(mutex_);
    return paged_;
}

// --------------------------------------------------------------------------------------------------------------- fork

void Memory::before_fork(bool quiet) {
    mutex_.lock();
    if (lane_blocks_ == 0 || !quiet) return;
    device_.drain();
    evacuate_all();
}

void Memory::after_fork_in_parent() {
    device_.in_parent();
    mutex_.unlock();
}

void Memory::after_fork_in_child() {
    mutex_.unlock();
    if (lane_descriptor_ >= 0) ::close(lane_descriptor_);
    lane_descriptor_ = -1;
    device_.in_child(evacuated_ranges());
}

// ------------------------------------------------------------------------------------------------------------- alone

void Memory::set_alone(bool alone) {
    const std::lock_guard lock(mutex_);
    alone_ = alone;
    observed_ = 0;
    if (alone) return leftovers_.give_back_all();
    // Nothing was noted down meanwhile: the next replay starts from here.
    steps_.clear();
    missed_ = 0;
    peak_ = at_boundary_ = in_use_;
}

}  // namespace salus::client
