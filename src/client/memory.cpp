#include "client/memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>

namespace salus::client {
namespace {

/// What is added to P, so that it need not be asked for bit by bit: some for evacuation, some for the small blocks.
std::uint64_t with_slack(std::uint64_t persistent) { return persistent + persistent / 64 + (std::uint64_t{2} << 20); }

std::uint64_t rounded_up(std::uint64_t size, std::uint64_t unit) { return (size + unit - 1) / unit * unit; }

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

Memory::~Memory() = default;

// Note [Nobody waits to free]
// A function that a stream calls (cuLaunchHostFunc) may free a block, and everything that the stream was given later waits
// for it. If it in turn waited for our lock, whose holder waits for that stream, nothing would ever go on. So a block that
// is freed while the lock is taken is only noted down, and whoever takes or has the lock sees to it.
void Memory::free_all_deferred() {
    std::vector<Freed> freed;
    {
        const std::lock_guard lock(deferred_mutex_);
        freed.swap(deferred_);
        any_deferred_.store(false, std::memory_order_relaxed);
    }
    for (const Freed& block : freed) free_now(block.start, block.inside);
}

// -------------------------------------------------------------------------------------------------------- allocation

void* Memory::allocate(std::size_t size, Kind kind, bool inside) {
    if (size < kManagedMin && device_.is_host()) {
        void* block = nullptr;
        if (::posix_memalign(&block, 64, std::max<std::size_t>(size, 1)) != 0) return nullptr;
        const auto lock = this->lock();
        count_private(static_cast<std::int64_t>(::malloc_usable_size(block)));
        return block;
    }
    auto lock = this->lock();
    return allocate_managed(lock, size, kind, inside);
}

// Note [Streams]
// A device runs what one stream is given in order, and several streams at once. So memory that is free by our books may
// still be in use by work in flight. Memory is therefore managed for one stream, the home stream: what is freed and taken
// again there is used again only after. Other streams are turned away, to the framework's own allocator. A block that work
// on another stream uses, too, or that was taken when another stream was at home, is used again only when a fence shows that
// all work of its last iteration has ended. An iteration that needs nothing at home, but was turned away elsewhere, moves
// the home there, at its boundary. Whatever takes memory out of the address space needs the device to have drained; and if
// the memory is alive, on all streams.
std::optional<void*> Memory::allocate_on(device::Stream stream, std::size_t size, bool inside) {
    if (size < kManagedMin) return std::nullopt;
    auto lock = this->lock();
    if (!has_home_) {
        home_ = stream;
        has_home_ = true;
    }
    if (stream != home_ && !reuse_at_once_) {
        if (inside) refused_ = stream;
        return std::nullopt;
    }
    if (inside) used_home_ = true;
    device_.uses(stream);
    return allocate_managed(lock, size, Kind::kAuto, inside);
}

void Memory::used_on(const void* start, device::Stream stream) {
    const auto lock = this->lock();
    const auto found = blocks_.find(start);
    if (found == blocks_.end() || stream == found->second.stream) return;
    std::vector<device::Stream>& others = found->second.others;
    if (std::find(others.begin(), others.end(), stream) == others.end()) others.push_back(stream);
    device_.uses(stream);
}

void Memory::wait_for_stream(device::Stream stream) {
    const auto lock = this->lock();
    if (!has_home_ || stream == home_) return;
    if (!device_.order(stream, home_)) device_.drain_everything();
}

/// We are told once that a stream uses a block, and it may do so until the block is freed.
void Memory::note_uses(const Block& block) {
    device_.uses(block.stream);
    for (const device::Stream stream : block.others) device_.uses(stream);
}

void* Memory::allocate_managed(std::unique_lock<std::mutex>& lock, std::uint64_t size, Kind kind, bool inside) {
    if (size > device_.window_size()) return nullptr;
    look_after_late();
    size = Arena::rounded(std::max<std::uint64_t>(size, 1));
    // With other threads no iteration is like another: there is nothing to learn.
    if (!inside || kind == Kind::kPersistent || threaded_) return allocate_private(lock, size, inside, nullptr);
    const Predictor::Allocation allocation = predictor_.allocated(size, home_, kind_);
    const bool ephemeral = kind == Kind::kEphemeral || (kind == Kind::kAuto && (allocation.dies || mispredicts()));
    const std::uint64_t iteration = iteration_;
    void* block = ephemeral && mapped_ > 0 ? allocate_in_lane(lock, size, allocation)
                                           : allocate_private(lock, size, true, &allocation);
    if (!block && iteration == iteration_) predictor_.freed(allocation.ticket);  // what never was has not survived
    return block;
}

void* Memory::allocate_in_lane(std::unique_lock<std::mutex>& lock, std::uint64_t size,
                               const Predictor::Allocation& allocation) {
    for (;;) {
        if (threaded_) return allocate_private(lock, size, true, &allocation);  // since it waited
        if (const auto offset = lane_.allocate(size)) {
            ++lane_blocks_;
            page_.lane_bytes.fetch_add(size, std::memory_order_relaxed);
            return enter(Place::kLane, *offset, size, &allocation);
        }
        if (!late_.empty() || leftovers_.bytes() > 0) {  // that may be all that is missing
            if (!device_.asynchronous() || wait_for_late()) {
                leftovers_.give_back_all();
                note_held();
                continue;
            }
        }
        // No less than T: this thread may have come in before the first one has told what may be used.
        const std::uint64_t stated = std::min(mapped_, page_.ephemeral.load(std::memory_order_relaxed));
        const Needs needs{std::max(room_, in_use_),
                          std::max(rounded_up(lane_.limit_for(size), device_.lane_unit()), stated)};
        if (alone_ || needs.ephemeral > device_.window_size()) return allocate_private(lock, size, true, &allocation);
        lock.unlock();
        const bool given = provider_.ask(needs);
        lock.lock();
        free_deferred();
        if (!given && !alone_) return nullptr;
        if (mapped_ >= needs.ephemeral) lane_.set_limit(std::max(lane_.limit(), needs.ephemeral));
    }
}

void* Memory::allocate_private(std::unique_lock<std::mutex>& lock, std::uint64_t size, bool inside,
                               const Predictor::Allocation* allocation) {
    while (inside && !alone_ && in_use_ + size > room_) {
        if (!late_.empty() && wait_for_late()) continue;
        const Needs needs{with_slack(in_use_ + size), mapped_ > 0 ? lane_.limit() : 0};
        lock.unlock();
        const bool given = provider_.ask(needs);
        lock.lock();
        free_deferred();
        if (given) room_ = std::max(room_, needs.persistent);
        else if (!alone_) return nullptr;
    }
    auto offset = private_.allocate(size);
    if (!offset && !late_.empty() && wait_for_late()) offset = private_.allocate(size);
    if (!offset) return nullptr;
    if (!back({*offset, size})) {
        private_.free(*offset);
        return nullptr;
    }
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
    blocks_.emplace(start, Block{offset, size, place, home_, {}, allocation != nullptr, ticket, iteration_});
    ++usage_.allocations;
    usage_.allocated += size;
    usage_.in_use += size;
    usage_.in_use_peak = std::max(usage_.in_use_peak, usage_.in_use);
    usage_.reserved_peak = std::max(usage_.reserved_peak, device_.backed() + lane_.in_use());
    return start;
}

void Memory::note_held() { page_.held_bytes.store(device_.backed(), std::memory_order_relaxed); }

/// Memory behind a private range: what was left over from earlier ones, and new.
bool Memory::back(device::Range range) {
    const std::vector<device::Range> missing = leftovers_.take(range);
    std::size_t done = 0;
    const auto go_on = [&] {
        while (done < missing.size() && device_.back_private(missing[done])) ++done;
        return done == missing.size();
    };
    bool backed = go_on();
    if (!backed && wait_for_late()) {  // what is kept for later may be what is missing now
        leftovers_.give_back_all();
        backed = go_on();
    }
    note_held();
    if (backed) return true;
    leftovers_.add(range, iteration_);
    for (std::size_t i = done; i < missing.size(); ++i) leftovers_.take(missing[i]);
    return false;
}

/// A fence marks these streams once, and until it has passed the next one has to mark them again.
void Memory::mark_streams() {
    device_.uses(home_);
    for (const Late& late : late_) note_uses(late.block);
    device_.fence();
    ++fences_;
}

/// All that is free by our books is free for good. False: a stream captures a graph, and what it did before cannot be waited
/// for.
bool Memory::wait_for_late() {
    mark_streams();
    if (device_.captures()) return false;
    device_.drain();
    release_late();
    for (const auto& [start, block] : blocks_) {
        if (!block.others.empty()) note_uses(block);  // the next fence is to mark what they are given from now on
    }
    return true;
}

/// Where no boundary comes, what other streams have used must not pile up until the device is full.
void Memory::look_after_late() {
    if (late_bytes_ <= in_use_ / 2 + kKeptBytes || !device_.passed()) return;
    release_late();
    if (!late_.empty()) mark_streams();
}

std::uint64_t Memory::give_back() {
    const auto lock = this->lock();
    const std::uint64_t before = device_.backed();
    if (device_.asynchronous() && !wait_for_late()) return 0;
    leftovers_.give_back_all();
    note_held();
    return before - device_.backed();
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

// Note [Other threads]
// A thread that is in no iteration may use a block at any time, also while a boundary would evacuate it: what it writes just
// then would be lost, and what it gives a GPU to do would find nothing mapped. So in a process in which such threads use the
// memory nothing is moved: every block is private, and stays where it is. That such a thread is about to start is told
// (set_threaded), and what the lane holds leaves it before. A second thread that begins an iteration tells by that: what is
// in the lane by then stays there, and the lane is kept, until it is freed. Threads that work for the one inside, and that
// it waits for, are no such threads.
//
// Where we are not told, a block that is freed by a thread in no iteration is taken for a survivor: the next one like it is
// private.
void Memory::set_threaded(bool threaded, bool move_out) {
    const auto lock = this->lock();
    if (threaded && !threaded_ && move_out && lane_blocks_ > 0) {
        mark_streams();
        if (!device_.captures()) clear_lane();
    }
    threaded_ = threaded;
}

void Memory::free(void* start, bool inside) {
    if (!start) return;
    if (!owns(start)) {
        {
            const auto lock = this->lock();
            count_private(-static_cast<std::int64_t>(::malloc_usable_size(start)));
        }
        return ::free(start);
    }
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) {
        free_deferred();
        return free_now(start, inside);
    }
    const std::lock_guard deferred(deferred_mutex_);  // see Note [Nobody waits to free]
    deferred_.push_back({start, inside});
    any_deferred_.store(true, std::memory_order_release);
}

void Memory::free_now(void* start, bool inside) {
    const auto found = blocks_.find(start);
    if (found == blocks_.end()) return;  // freed twice: there is nothing sensible to do in someone else's process
    const Block block = found->second;
    blocks_.erase(found);
    ++usage_.frees;
    usage_.freed += block.size;
    usage_.in_use -= block.size;
    const bool died_inside = inside && block.has_ticket && block.iteration == iteration_;  // see Note [Other threads]
    if (died_inside) predictor_.freed(block.ticket);
    note({false, died_inside, block.ticket, block.size});
    if (paged_) device_.forget_paged(static_cast<std::byte*>(start));
    if (block.place == Place::kLane) --lane_blocks_;
    if (block.place == Place::kPrivate && died_inside) missed_ += block.size;
    const bool in_flight = !block.others.empty() || block.stream != home_;  // see Note [Streams]
    if (!in_flight || reuse_at_once_) return release(block);
    note_uses(block);
    late_.push_back({block, fences_});
    late_bytes_ += block.size;
}

/// Its memory may be used again, by work that comes after what the home stream was given so far.
void Memory::release(const Block& block) {
    switch (block.place) {
        case Place::kLane: return lane_.free(block.offset);
        case Place::kEvacuated:
            if (device_.asynchronous()) dead_.push_back({block.offset, block.size});
            // Where the lane does not come back nothing more is placed.
            else if (device_.restore_lane({block.offset, block.size})) lane_.free(block.offset);
            break;
        case Place::kPrivate:
            private_.free(block.offset);
            let_go({block.offset, block.size});
            break;
    }
    count_private(-static_cast<std::int64_t>(block.size));
}

/// REQUIRES: the last fence has passed. Those that were freed before it are through.
void Memory::release_late() {
    std::erase_if(late_, [&](const Late& late) {
        if (late.fences >= fences_) return false;
        late_bytes_ -= late.block.size;
        release(late.block);
        return true;
    });
}

/// A private range is free. The same is often wanted again in the next iteration.
void Memory::let_go(device::Range range) {
    const bool keep = !alone_ && !paged_ && leftovers_.bytes() + range.size <= in_use_ / 2 + kKeptBytes;
    // What may be in use by work in flight is kept in any case.
    if (keep || device_.asynchronous()) leftovers_.add(range, iteration_);
    else device_.discard_private(range);
}

/// What a profiling turn used is wanted by others; later on, the next iterations want the same.
void Memory::give_back_leftovers(bool drained, bool passed) {
    const std::uint64_t before = mapped_ == 0 ? iteration_ : iteration_ - std::min(iteration_, kKeptIterations);
    const bool too_many = device_.asynchronous() && leftovers_.bytes() > in_use_ / 2 + kKeptBytes;
    if (!too_many && !leftovers_.any_before(before)) return;
    if (!drained && (too_many || mapped_ == 0)) {
        device_.drain();
        drained = true;
    }
    // Older than the fence that has passed: then nothing in flight uses it.
    if (drained && too_many) leftovers_.give_back_all();
    else if (drained || passed) leftovers_.give_back_before(before);
}

bool Memory::in_lane(const void* block) {
    const auto lock = this->lock();
    const auto found = blocks_.find(block);
    return found != blocks_.end() && found->second.place == Place::kLane;
}

std::uint64_t Memory::private_bytes() {
    const auto lock = this->lock();
    return in_use_;
}

Memory::Usage Memory::usage() {
    const auto lock = this->lock();
    Usage usage = usage_;
    usage.reserved = device_.backed() + lane_.in_use();
    return usage;
}

void Memory::reset_peaks() {
    const auto lock = this->lock();
    usage_.in_use_peak = usage_.in_use;
    usage_.reserved_peak = device_.backed() + lane_.in_use();
}

bool Memory::owns(const void* block) const {
    const auto within = [&](const std::byte* window) { return block >= window && block < window + device_.window_size(); };
    return within(device_.lane_window()) || within(device_.private_window());
}

// --------------------------------------------------------------------------------------------------------- iterations

void Memory::turn_begins() {
    const auto lock = this->lock();
    device_.turn_begins(home_);
    const std::uint64_t room = page_.room.load(std::memory_order_relaxed);
    if (room > 0) {  // a profiling turn
        room_ = room;
        return;
    }
    lane_.set_limit(std::min(mapped_, page_.ephemeral.load(std::memory_order_relaxed)));
    room_ = std::max(page_.persistent.load(std::memory_order_relaxed), in_use_);
}

bool Memory::boundary() {
    const auto lock = this->lock();
    // The last fence was at the last boundary: what was freed before that is through. The one below has hardly passed yet.
    const bool in_flight = device_.asynchronous();
    const bool passed = !in_flight || ((!late_.empty() || leftovers_.bytes() > 0) && device_.passed());
    if (passed && !late_.empty()) release_late();
    if (in_flight) mark_streams();
    // What a stream was given before it began to capture a graph cannot be waited for: the lane stays ours meanwhile.
    const bool waitable = !in_flight || !device_.captures();
    const bool wanted = lane_blocks_ > 0 || !dead_.empty() || late_bytes_ > in_use_ / 2 + kKeptBytes;
    const bool drain = wanted && waitable;
    if (drain) {
        device_.drain();
        release_late();
    }
    const bool clean = waitable && clear_lane();
    if (clean) bring_back_lane();
    if (!steps_.empty() || peak_ != at_boundary_ || iteration_ == 0) learn();
    // What one iteration needed beyond P the next may not.
    if (mapped_ > 0) room_ = std::max(std::min(room_, page_.persistent.load(std::memory_order_relaxed)), in_use_);
    if (!clean) page_.boundaries_delayed.fetch_add(1, std::memory_order_relaxed);
    ++iteration_;
    if (leftovers_.bytes() > 0 && waitable) give_back_leftovers(drain, passed);
    if (in_flight) {
        note_held();
        const std::uint64_t backed = device_.backed();
        if (backed > persistent_.get()) page_.persistent.store(with_slack(backed), std::memory_order_relaxed);
        change_home();
    }
    return clean;
}

/// See Note [Streams].
void Memory::change_home() {
    if (!used_home_ && refused_ && device_.order(home_, *refused_)) home_ = *refused_;
    used_home_ = false;
    refused_.reset();
}

void Memory::learn() {
    const Needs needs = missed_ > 0 && !threaded_ ? replay() : Needs{peak_, lane_.peak()};
    persistent_.add(needs.persistent);
    ephemeral_.add(needs.ephemeral);
    page_.persistent.store(with_slack(persistent_.get()), std::memory_order_relaxed);
    page_.ephemeral.store(rounded_up(ephemeral_.get(), device_.lane_unit()), std::memory_order_relaxed);
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

/// Where evacuated blocks have died. What else lies in the same pieces of memory has to be evacuated by then.
void Memory::bring_back_lane() {
    for (const device::Range& range : dead_) {
        if (device_.restore_lane(range)) lane_.free(range.offset);
    }
    dead_.clear();
}

/// True if nothing alive is left in the lane.
bool Memory::clear_lane() {
    if (lane_blocks_ == 0) return true;
    if (threaded_) return false;                    // see Note [Other threads]
    if (!device_.drain_everything()) return false;  // it may be in use on streams that we were never told of
    if (evacuate_all()) return true;
    leftovers_.give_back_all();  // that may be the memory that was missing
    return evacuate_all();
}

bool Memory::evacuate_all() {
    if (lane_blocks_ == 0) return true;
    for (auto& [start, block] : blocks_) {
        if (block.place == Place::kLane) evacuate(block);
    }
    return lane_blocks_ == 0;
}

// -------------------------------------------------------------------------------------------------------------- lanes

bool Memory::add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces) {
    const auto lock = this->lock();
    if (first == 0) leave_lane();
    return device_.add_lane_memory(first, std::move(pieces));
}

bool Memory::map_lane(std::uint64_t size) {
    const auto lock = this->lock();
    size = Arena::rounded(size);
    if (size < mapped_) device_.drain();
    if (!device_.resize_lane(size)) return false;
    mapped_ = size;
    lane_.set_limit(std::min(lane_.limit(), size));
    return true;
}

void Memory::unmap_lane() {
    const auto lock = this->lock();
    leave_lane();
}

void Memory::leave_lane() {
    if (mapped_ > 0) device_.drain();
    device_.drop_lane();
    mapped_ = 0;
    lane_.set_limit(0);
}

std::uint64_t Memory::mapped() {
    const auto lock = this->lock();
    return mapped_;
}

void Memory::set_room(std::uint64_t persistent) {
    const auto lock = this->lock();
    room_ = persistent;
}

// ------------------------------------------------------------------------------------------------------------- paging

bool Memory::page_out() {
    const auto lock = this->lock();
    if (paged_) return true;
    leftovers_.give_back_all();
    std::vector<device::Range> ranges;
    for (const auto& [offset, size] : private_.used()) ranges.push_back({offset, size});
    if (!device_.page_out(ranges)) return false;
    paged_ = true;
    page_.page_outs.fetch_add(1, std::memory_order_relaxed);
    return true;
}

bool Memory::page_in() {
    const auto lock = this->lock();
    if (!paged_) return true;
    if (!device_.page_in()) return false;
    paged_ = false;
    return true;
}

bool Memory::paged() {
    const auto lock = this->lock();
    return paged_;
}

// --------------------------------------------------------------------------------------------------------------- fork

void Memory::before_fork() {
    mutex_.lock();
    deferred_mutex_.lock();
    if (lane_blocks_ == 0) return;
    std::vector<device::Range> alive;
    for (const auto& [start, block] : blocks_) {
        if (block.place == Place::kLane) alive.push_back({block.offset, block.size});
    }
    device_.prepare_fork(alive);
}

void Memory::after_fork_in_parent() {
    device_.in_parent();
    deferred_mutex_.unlock();
    mutex_.unlock();
}

void Memory::after_fork_in_child() {
    deferred_mutex_.unlock();
    mutex_.unlock();
    device_.in_child();
}

// ------------------------------------------------------------------------------------------------------------- alone

void Memory::set_alone(bool alone) {
    const auto lock = this->lock();
    alone_ = alone;
    observed_ = 0;
    if (alone && device_.asynchronous()) return;  // then they are of use as they are
    if (alone) return leftovers_.give_back_all();
    // Nothing was noted down meanwhile: the next replay starts from here.
    steps_.clear();
    missed_ = 0;
    peak_ = at_boundary_ = in_use_;
}

}  // namespace salus::client
