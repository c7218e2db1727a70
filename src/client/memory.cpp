#include "client/memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "os/clock.h"

namespace salus::client {
namespace {

/// P with a reserve for evacuation and for small blocks, so that the client need not ask bit by bit.
std::uint64_t with_slack(std::uint64_t persistent) { return persistent + persistent / 64 + (std::uint64_t{2} << 20); }

/// Outside of iterations, the service hears of growth in steps of this size.
constexpr std::uint64_t kObserveStep = std::uint64_t{16} << 20;

/// For how many iterations freed memory is kept for reuse.
constexpr std::uint64_t kKeptIterations = 2;

}  // namespace

Memory::Memory(ControlPage& page, device::ClientDevice& device, Provider& provider, Limit* limit)
    : page_(page),
      device_(device),
      provider_(provider),
      limit_(limit),
      work_(*device.fences, device.traits),
      private_(*device.own),
      paging_(device.pager.get()) {}

// -------------------------------------------------------------------------------------------------------- allocation

void* Memory::allocate(std::size_t size, Kind kind, bool inside) {
    if (size < kManagedMin && device_.traits.is_host) {
        void* block = nullptr;
        if (::posix_memalign(&block, 64, std::max<std::size_t>(size, 1)) != 0) return nullptr;
        const Books books = open_books();
        count_private(static_cast<std::int64_t>(::malloc_usable_size(block)));
        return block;
    }
    Books books = open_books();
    return allocate_managed(books, size, kind, inside);
}

std::optional<void*> Memory::allocate_on(device::Stream stream, std::size_t size, bool inside) {
    if (size < kManagedMin) return std::nullopt;
    Books books = open_books();
    if (!work_.serves(stream, inside) || paging_.is_away()) return std::nullopt;
    return allocate_managed(books, size, Kind::kAuto, inside);
}

void* Memory::allocate_managed(Books& books, std::uint64_t size, Kind kind, bool inside) {
    if (size > device_.own->size() || paging_.is_away()) return nullptr;
    look_after_late();
    size = Arena::rounded(std::max<std::uint64_t>(size, 1));
    // Before the service is asked: others would make room in vain.
    if (limit_ && !limit_->fits(usage_.in_use + size)) return nullptr;
    // With other threads, no iteration is like another, so there is nothing to learn.
    if (!inside || kind == Kind::kPersistent || threaded_) return allocate_private(books, size, inside, Birth{});
    const auto [birth, dies] = profile_.wanted(size, work_.home());
    const bool ephemeral = kind == Kind::kEphemeral || (kind == Kind::kAuto && dies);
    void* block =
        ephemeral && lane_.mapped() > 0 ? allocate_in_lane(books, size, birth) : allocate_private(books, size, true, birth);
    if (!block) profile_.not_had(birth);
    return block;
}

void* Memory::allocate_in_lane(Books& books, std::uint64_t size, const Birth& birth) {
    bool settled = false;
    for (;;) {
        if (!may_hold(books, size)) return nullptr;
        if (threaded_ || lane_.is_closed()) return allocate_private(books, size, true, birth);
        if (const auto offset = lane_.allocate(size)) {
            page_.lane_bytes.fetch_add(size, std::memory_order_relaxed);
            return enter(Place::kLane, {*offset, size}, birth);
        }
        if (!settled && (work_.any_late() || private_.leftovers().bytes() > 0)) {  // this may free enough
            settled = true;
            if (const auto passed = settle(books)) {
                private_.leftovers().give_back_before(kAll, *passed);
                note_held();
                continue;
            }
        }
        // Ask for no less than T: this thread may have entered before the first one has called turn_begins().
        const std::uint64_t stated = std::min(lane_.mapped(), page_.wanted_ephemeral.load(std::memory_order_relaxed));
        const std::uint64_t wanted = device_.traits.lane_pieces.rounded_up(lane_.arena().limit_for(size));
        const Needs needs{std::max(room_, private_.in_use()), std::max(wanted, stated)};
        if (alone_ || needs.ephemeral > device_.lane->size()) return allocate_private(books, size, true, birth);
        const bool given = without(books, [&] { return provider_.ask(needs); });
        if (!given && !alone_) return nullptr;
        settled = false;
        if (lane_.mapped() >= needs.ephemeral) lane_.arena().set_limit(std::max(lane_.arena().limit(), needs.ephemeral));
    }
}

void* Memory::allocate_private(Books& books, std::uint64_t size, bool inside, const Birth& birth) {
    bool settled = false;
    while (inside && !alone_ && private_.in_use() + size > room_) {
        if (!settled && work_.any_late()) {
            settled = true;
            if (settle(books)) continue;
        }
        const Needs needs{with_slack(private_.in_use() + size), lane_.mapped() > 0 ? lane_.arena().limit() : 0};
        const bool given = without(books, [&] { return provider_.ask(needs); });
        if (given) room_ = std::max(room_, needs.persistent);
        else if (!alone_) return nullptr;
        settled = false;
    }
    auto offset = private_.place(size);
    if (!offset && work_.any_late() && settle(books)) offset = private_.place(size);
    if (!offset) return nullptr;
    const device::Range range{*offset, size};
    for (unsigned times = 0; !back(books, range); ++times) {
        if (inside && !alone_ && !waited_in_vain_) {
            if (without(books, [&] { return provider_.wait_for_device(times); })) continue;
            waited_in_vain_ = true;  // whoever asks again is answered at once
        }
        private_.unplace(range);
        return nullptr;
    }
    void* block = enter(Place::kPrivate, range, birth);
    count_private(static_cast<std::int64_t>(size));
    if (!inside && !alone_ && private_.in_use() >= observed_ + kObserveStep) {
        const std::uint64_t observed = observed_ = private_.in_use();
        without(books, [&] { provider_.observe(observed); });
    }
    return block;
}

/// Puts memory behind a placed private range.
bool Memory::back(Books& books, device::Range range) {
    PrivateHeap::Backing backing = private_.start_backing(range);
    std::uint64_t missing = 0;
    const device::Pieces& pieces = device_.traits.private_pieces;
    for (const device::Range& part : backing.missing)
        missing += pieces.rounded_up(part.offset + part.size) - pieces.start(pieces.at(part.offset));
    const bool allowed = missing == 0 || may_hold(books, missing);
    bool may_help = true;
    while (allowed && !private_.go_on(backing) && may_help) {  // memory that is kept for later may be enough
        const std::optional<Mark> passed = settle(books);
        if (passed) private_.leftovers().give_back_before(kAll, *passed);
        may_help = passed && (work_.any_late() || private_.leftovers().bytes() > 0);  // more was freed meanwhile
    }
    note_held();
    if (backing.complete()) return true;
    private_.break_off(backing, {profile_.iteration(), work_.last()});
    return false;
}

// Note [The limit of a process]
// What counts is what the process holds: the memory behind its private blocks, freed memory that it keeps for later, and the
// lane's memory that its blocks are in. So a block that fits into kept memory is always served, and kept memory is given
// back before a block is refused.

/// Whether the process may hold so much more.
bool Memory::may_hold(Books& books, std::uint64_t more) {
    if (!limit_ || limit_->hold(held() + more)) return true;
    if (private_.leftovers().bytes() == 0 && !work_.any_late()) return false;
    if (const std::optional<Mark> passed = settle(books)) private_.leftovers().give_back_before(kAll, *passed);
    note_held();
    return limit_->hold(held() + more);
}

std::uint64_t Memory::held() const {
    std::uint64_t in_lane = lane_.arena().in_use();
    for (const auto& [offset, size] : lane_.evacuated()) in_lane -= size;  // they are backed
    return backed() + in_lane;
}

void* Memory::enter(Place place, device::Range range, const Birth& birth) {
    const device::Window& window = place == Place::kLane ? static_cast<device::Window&>(*device_.lane) : *device_.own;
    std::byte* start = window.start() + range.offset;
    profile_.allocated(birth, range.size, private_.in_use());
    blocks_.emplace(start, Block{range, place, work_.home(), {}, birth});
    ++usage_.allocations;
    usage_.allocated += range.size;
    count_in_use(static_cast<std::int64_t>(range.size));
    usage_.in_use_peak = std::max(usage_.in_use_peak, usage_.in_use);
    usage_.reserved_peak = std::max(usage_.reserved_peak, backed() + lane_.arena().in_use());
    return start;
}

void Memory::note_held() {
    page_.held_bytes.store(backed(), std::memory_order_relaxed);
    if (limit_) limit_->holds(held());
}

void Memory::count_private(std::int64_t change) {
    private_.count(change);
    page_.private_bytes.store(private_.in_use(), std::memory_order_relaxed);
}

// ------------------------------------------------------------------------------------------------------------ freeing

// Note [Nobody waits to free]
// A function that a stream calls (cuLaunchHostFunc) may free a block, and all later work of the stream waits for that
// function. A thread that holds the books never waits for a stream itself. But it calls the driver, which may wait for room
// in a stream's queue. So if the books are locked, free() only records the block, and the next thread that locks the books
// frees it.
void Memory::free(void* start, bool inside) {
    if (!start) return;
    if (!owns(start)) {
        {
            const Books books = open_books();
            count_private(-static_cast<std::int64_t>(::malloc_usable_size(start)));
        }
        return ::free(start);
    }
    {
        const Books books(books_, std::try_to_lock);
        if (!books.owns_lock()) {
            const std::lock_guard deferred(deferred_mutex_);
            deferred_.push_back({start, inside});
            any_deferred_.store(true, std::memory_order_release);
            return;
        }
        free_deferred();
        free_now(start, inside);
        if (work_.asynchronous() || !lane_.any_dead()) return;
    }
    // If nothing is in flight, the lane is restored at once; if another thread is changing it now, at the next boundary.
    const std::unique_lock change(changes_, std::try_to_lock);
    if (change.owns_lock()) bring_back_lane(kAll);
}

void Memory::free_all_deferred() {
    std::vector<Freed> freed;
    {
        const std::lock_guard lock(deferred_mutex_);
        freed.swap(deferred_);
        any_deferred_.store(false, std::memory_order_relaxed);
    }
    for (const Freed& block : freed) free_now(block.start, block.inside);
}

void Memory::free_now(void* start, bool inside) {
    const auto found = blocks_.find(start);
    if (found == blocks_.end()) return;  // freed twice: nothing sensible can be done in the job's process
    const Block block = std::move(found->second);
    blocks_.erase(found);
    ++usage_.frees;
    usage_.freed += block.range.size;
    count_in_use(-static_cast<std::int64_t>(block.range.size));
    profile_.freed(block, inside, private_.in_use());
    paging_.freed(start);
    if (block.place == Place::kLane) lane_.died(block.range);
    if (!work_.keep_if_late(block)) release(block, work_.last());
}

/// Makes the block's memory available to work that the home stream is given from now on.
void Memory::release(const Block& block, Mark freed_after) {
    const device::Range range = block.range;
    if (block.place == Place::kLane) {
        const bool in_lane = lane_.release(range, freed_after);
        if (limit_) limit_->holds(held());
        if (in_lane) return;
    } else {
        const bool few = private_.leftovers().bytes() + range.size <= private_.may_be_kept();
        // Memory that work in flight may use is kept in any case.
        const bool keep = (!alone_ && paging_.is_in() && few) || work_.asynchronous();
        private_.free(range, keep, {profile_.iteration(), freed_after});
    }
    count_private(-static_cast<std::int64_t>(range.size));
}

// ----------------------------------------------------------------------------------------------------- work in flight

void Memory::used_on(const void* start, device::Stream stream) {
    const Books books = open_books();
    const auto found = blocks_.find(start);
    if (found != blocks_.end()) work_.used_on(found->second, stream);
}

void Memory::wait_for_stream(device::Stream stream) {
    {
        const Books books = open_books();
        if (work_.order_before_home(stream)) return;
    }
    work_.drain_everything();
}

void Memory::release_late(Mark passed) {
    if (!work_.any_late()) return;
    for (const auto& [block, freed_after] : work_.take_late(passed)) release(block, freed_after);
}

/// Makes a mark between boundaries.
std::optional<Memory::Mark> Memory::mark_midway() {
    const std::optional<Mark> mark = work_.mark();
    for (const auto& [start, block] : blocks_) {
        if (!block.others.empty()) work_.note_uses(block);  // the next mark must cover later work of these streams
    }
    return mark;
}

/// Waits until all memory that is free in our books now is free for good. Nothing: a stream captures a graph, and its
/// earlier work cannot be waited for.
std::optional<Memory::Mark> Memory::settle(Books& books) {
    const std::optional<Mark> mark = mark_midway();
    if (!mark) return std::nullopt;
    without(books, [&] { work_.drain(); });
    release_late(*mark);
    return mark;
}

/// If no boundary comes, blocks that other streams have used must not pile up until the device is full.
void Memory::look_after_late() {
    if (work_.late_bytes() <= private_.may_be_kept() || !work_.passed()) return;
    release_late(work_.last());
    if (work_.any_late()) work_.mark();
}

std::uint64_t Memory::give_back() {
    Books books = open_books();
    const std::uint64_t before = backed();
    const std::optional<Mark> passed = work_.asynchronous() ? settle(books) : kAll;
    if (!passed) return 0;
    private_.leftovers().give_back_before(kAll, *passed);
    note_held();
    return before - std::min(before, backed());
}

/// After a profiling turn, others want the memory that it used. Later, this client's next iterations want it again.
/// `passed`: the latest mark known to have passed; `last`: the boundary's mark, which can be waited for.
void Memory::give_back_leftovers(Books& books, std::optional<Mark> passed, Mark last) {
    const std::uint64_t iteration = profile_.iteration();
    const bool profiling = lane_.mapped() == 0;
    const std::uint64_t before = profiling ? iteration : iteration - std::min(iteration, kKeptIterations);
    const bool too_many = work_.asynchronous() && private_.leftovers().bytes() > private_.may_be_kept();
    if (!too_many && !private_.leftovers().any_before(before)) return;
    if ((too_many || profiling) && (!passed || *passed < last)) {
        without(books, [&] { work_.drain(); });
        passed = last;
    }
    if (passed) private_.leftovers().give_back_before(too_many ? kAll : before, *passed);
}

/// See Note [Streams].
void Memory::change_home(Books& books) {
    const std::optional<device::Stream> next = work_.next_home();
    if (!next) return;
    device::Fences::Order order = work_.order_after_home(*next);
    if (order == device::Fences::Order::kGone && without(books, [&] { return work_.drain_everything(); }))
        order = device::Fences::Order::kDone;
    if (order == device::Fences::Order::kDone) work_.move_home(*next);
}

// --------------------------------------------------------------------------------------------------------- iterations

void Memory::turn_begins() {
    const Books books = open_books();
    work_.turn_begins();
    lane_.arena().set_limit(std::min(lane_.mapped(), page_.wanted_ephemeral.load(std::memory_order_relaxed)));
    room_ = std::max(page_.allowed_private.load(std::memory_order_relaxed), private_.in_use());
}

bool Memory::boundary(Survivors survivors) {
    Books books = open_books();
    end_curve();
    const bool in_flight = work_.asynchronous();
    waited_in_vain_ = false;
    // The last mark is usually the last boundary's: memory freed before it is free for good. The mark made below has hardly
    // passed yet.
    std::optional<Mark> passed;
    if (!in_flight) passed = kAll;
    else if ((work_.any_late() || private_.leftovers().bytes() > 0) && work_.passed()) passed = work_.last();
    if (passed) release_late(*passed);
    // If a stream captures a graph, its earlier work cannot be waited for: the client keeps the lane meanwhile.
    const std::optional<Mark> mark = work_.mark();
    const bool wanted = lane_.alive() > 0 || lane_.any_dead() || work_.late_bytes() > private_.may_be_kept();
    bool clean = mark && lane_.alive() == 0;
    if (mark && wanted) {
        clean = clear_at_boundary(books, *mark, survivors);
        if (in_flight) passed = mark;
    }
    if (!profile_.uneventful(private_.peak())) learn();
    // Room that one iteration needed beyond P ends with it.
    if (lane_.mapped() > 0)
        room_ = std::max(std::min(room_, page_.wanted_persistent.load(std::memory_order_relaxed)), private_.in_use());
    if (!clean) page_.boundaries_delayed.fetch_add(1, std::memory_order_relaxed);
    profile_.next_iteration();
    if (mark && private_.leftovers().bytes() > 0) give_back_leftovers(books, passed, *mark);
    if (in_flight) {
        note_held();
        if (backed() > profile_.persistent()) page_.wanted_persistent.store(with_slack(backed()), std::memory_order_relaxed);
        change_home(books);
    }
    return clean;
}

// Note [The curve of an iteration]
// How much memory is in use over an iteration is recorded for people: of the first iteration, and then of one a second. Each
// block of such an iteration costs a look at the clock; of the others, a comparison. Nothing is called when an iteration
// begins: the first block after the last boundary finds on the page when it did.

void Memory::count_in_use(std::int64_t change) {
    const std::uint64_t before = usage_.in_use;
    usage_.in_use += static_cast<std::uint64_t>(change);
    const std::uint64_t begun_ns = page_.begun_ns.load(std::memory_order_relaxed);
    if (begun_ns == ended_ns_ || begun_ns < next_curve_ns_) return;  // between two iterations, or too soon
    if (drawn_ns_ == kUndrawn) {
        drawn_ns_ = begun_ns;
        curve_.begin(begun_ns, before);
    }
    curve_.change(os::now_ns(), usage_.in_use);
}

void Memory::end_curve() {
    constexpr std::uint64_t kEveryNs = 1'000'000'000;
    ended_ns_ = page_.begun_ns.load(std::memory_order_relaxed);
    if (drawn_ns_ == kUndrawn) return;
    const std::uint64_t now_ns = os::now_ns();
    curve_.end(now_ns);
    drawn_ns_ = kUndrawn;
    next_curve_ns_ = now_ns + kEveryNs;
    page_.curve_steps.store(0, std::memory_order_release);
    for (std::size_t i = 0; i < curve_.most().size(); ++i) page_.curve[i].store(curve_.most()[i], std::memory_order_relaxed);
    page_.curve_least.store(curve_.least(), std::memory_order_relaxed);
    page_.curve_step_ns.store(curve_.step_ns(), std::memory_order_relaxed);
    page_.curve_steps.store(curve_.most().size(), std::memory_order_release);
}

void Memory::learn() {
    page_.missed_bytes.fetch_add(profile_.missed(), std::memory_order_relaxed);
    const std::uint64_t lane_peak = lane_.arena().peak();
    const Needs needs = profile_.learn({private_.in_use(), private_.peak(), lane_peak, threaded_});
    page_.wanted_persistent.store(with_slack(needs.persistent), std::memory_order_relaxed);
    page_.wanted_ephemeral.store(device_.traits.lane_pieces.rounded_up(needs.ephemeral), std::memory_order_relaxed);
    if (lane_peak > page_.lane_peak.load(std::memory_order_relaxed))
        page_.lane_peak.store(lane_peak, std::memory_order_relaxed);
    observed_ = private_.in_use();
    private_.reset_peak();
    lane_.arena().reset_peak();
}

// ------------------------------------------------------------------------------------------------ what others want to know

bool Memory::in_lane(const void* block) {
    const Books books = open_books();
    const auto found = blocks_.find(block);
    return found != blocks_.end() && found->second.place == Place::kLane && !lane_.is_evacuated(found->second.range.offset);
}

std::uint64_t Memory::private_bytes() {
    const Books books = open_books();
    return private_.in_use();
}

Memory::Usage Memory::usage() {
    const Books books = open_books();
    Usage usage = usage_;
    usage.reserved = backed() + lane_.arena().in_use();
    return usage;
}

void Memory::reset_peaks() {
    const Books books = open_books();
    usage_.in_use_peak = usage_.in_use;
    usage_.reserved_peak = backed() + lane_.arena().in_use();
}

std::uint64_t Memory::mapped() {
    const Books books = open_books();
    return lane_.mapped();
}

bool Memory::paged() {
    const Books books = open_books();
    return paging_.is_out();
}

bool Memory::is_away() {
    const Books books = open_books();
    return paging_.is_away();
}

void Memory::set_room(std::uint64_t persistent) {
    const Books books = open_books();
    room_ = persistent;
}

void Memory::set_alone(bool alone) {
    const Books books = open_books();
    alone_ = alone;
    observed_ = 0;
    profile_.set_alone(alone, private_.in_use());
    if (!alone) private_.reset_peak();
    else if (!work_.asynchronous()) private_.leftovers().give_back_before(kAll, kAll);  // else they stay, for reuse
}

}  // namespace salus::client
