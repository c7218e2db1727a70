// What changes the windows as a whole, under Memory's changes_: evacuation, lanes that come and go, paging, fork.
#include <algorithm>
#include <utility>

#include "client/memory.h"

namespace salus::client {

// --------------------------------------------------------------------------------------------------------- evacuation

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
    const std::lock_guard change(changes_);  // what is being moved is in its place before another thread uses it
    std::optional<Mark> mark;
    {
        const Books books = open_books();
        if (threaded && !threaded_ && move_out && lane_.alive() > 0) mark = mark_midway();
        threaded_ = threaded;
    }
    if (mark) clear_lane(*mark);
}

/// Nothing alive stays in the lane, and it comes back where evacuated blocks have died. False if something does.
bool Memory::clear_at_boundary(Books& books, Mark mark) {
    lane_.set_closed(true);
    const std::uint64_t deaths = lane_.deaths();
    without(books, [&] {
        const std::lock_guard change(changes_);
        work_.drain();
        bool clean = false;
        bool stays = false;
        {
            const Books inner = open_books();
            release_late(mark);
            clean = lane_.alive() == 0;
            stays = threaded_;  // see Note [Other threads]
        }
        if (clean || (!stays && clear_lane(mark))) bring_back_lane(mark);
    });
    lane_.set_closed(false);
    if (lane_.alive() > 0) return false;
    // Another thread may have given the device more to do with its block and freed it meanwhile: that is not covered by
    // the mark from before, and whoever gets the lane next has to wait for it.
    return lane_.deaths() == deaths || work_.mark().has_value();
}

/// Evacuates what is alive. `mark`: made since then. True if nothing is left.
bool Memory::clear_lane(Mark mark) {
    if (!work_.drain_everything()) return false;  // it may be in use on streams that we were never told of
    if (evacuate_all()) return true;
    {
        const Books books = open_books();
        private_.leftovers().give_back_before(kAll, mark);  // that may be the memory that was missing
    }
    return evacuate_all();
}

bool Memory::evacuate_all() {
    std::vector<device::Range> alive;
    {
        const Books books = open_books();
        for (const auto& [start, block] : blocks_) {
            if (block.place == Place::kLane && !lane_.is_evacuated(block.range.offset)) alive.push_back(block.range);
        }
    }
    for (const device::Range& range : alive) evacuate(range);
    const Books books = open_books();
    return lane_.alive() == 0;
}

void Memory::evacuate(device::Range range) {
    {
        const Books books = open_books();
        const auto found = blocks_.find(device_.lane->start() + range.offset);
        if (found == blocks_.end()) return;  // it was freed meanwhile
        lane_.begin_move(range);
    }
    const bool moved = device_.lane->make_private(range);
    const Books books = open_books();
    const bool released = lane_.end_move(moved);
    if (moved) {
        count_private(static_cast<std::int64_t>(range.size));
        page_.evacuations.fetch_add(1, std::memory_order_relaxed);
        page_.evacuated_bytes.fetch_add(range.size, std::memory_order_relaxed);
    }
    if (released) release(Block{range, Place::kLane}, work_.last());
}

/// Where evacuated blocks had died before this mark. What else lies in the same pieces of memory has to be evacuated by
/// then.
void Memory::bring_back_lane(Mark passed) {
    std::vector<device::Range> dead;
    {
        const Books books = open_books();
        dead = lane_.take_dead(passed);
    }
    for (const device::Range& range : dead) {
        paging_.forget(device_.lane->start() + range.offset);
        if (!device_.lane->restore(range)) continue;  // nothing more is placed there
        const Books books = open_books();
        lane_.restored(range);
    }
}

// -------------------------------------------------------------------------------------------------------------- lanes

bool Memory::add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces) {
    const std::lock_guard change(changes_);
    if (first == 0) leave_lane();
    return device_.lane->add_memory(first, std::move(pieces));
}

bool Memory::map_lane(std::uint64_t size) {
    const std::lock_guard change(changes_);
    size = Arena::rounded(size);
    bool shrinks = false;
    {
        const Books books = open_books();
        shrinks = size < lane_.mapped();
        if (shrinks) {
            lane_.arena().set_limit(std::min(lane_.arena().limit(), size));
            mark_midway();  // what lies beyond is free, but work since the last mark may still use it
        }
    }
    if (shrinks) work_.drain();
    if (!device_.lane->resize(size)) return false;
    const Books books = open_books();
    lane_.set_mapped(size);
    return true;
}

void Memory::unmap_lane() {
    const std::lock_guard change(changes_);
    leave_lane();
}

void Memory::leave_lane() {
    bool was_mapped = false;
    {
        const Books books = open_books();
        was_mapped = lane_.mapped() > 0;
        lane_.set_mapped(0);
    }
    if (was_mapped) work_.drain();
    device_.lane->drop();
}

// ------------------------------------------------------------------------------------------------------------- paging

bool Memory::page_out() {
    const std::lock_guard change(changes_);
    if (!paging_.can_page()) return false;
    std::vector<device::Part> parts;
    {
        Books books = open_books();
        if (paging_.is_out()) return true;
        const std::optional<Mark> passed = work_.asynchronous() ? settle(books) : kAll;
        if (passed) private_.leftovers().give_back_before(kAll, *passed);
        for (const auto& [offset, size] : private_.used()) parts.push_back({device_.own->start() + offset, size});
        for (const auto& [offset, size] : lane_.evacuated()) parts.push_back({device_.lane->start() + offset, size});
        paging_.goes_out();
    }
    const bool out = paging_.move_out(parts);
    const Books books = open_books();
    paging_.went_out(out);
    if (out) page_.page_outs.fetch_add(1, std::memory_order_relaxed);
    return out;
}

bool Memory::page_in() {
    const std::lock_guard change(changes_);
    std::vector<const std::byte*> freed;
    {
        const Books books = open_books();
        if (!paging_.is_out()) return true;
        freed = paging_.take_freed();
    }
    if (!paging_.move_in(freed)) return false;
    const Books books = open_books();
    paging_.came_in();
    return true;
}

// --------------------------------------------------------------------------------------------------------------- fork

void Memory::before_fork() {
    changes_.lock();
    books_.lock();
    deferred_mutex_.lock();
    if (lane_.alive() == 0) return;
    std::vector<device::Range> alive;
    for (const auto& [start, block] : blocks_) {
        if (block.place == Place::kLane && !lane_.is_evacuated(block.range.offset)) alive.push_back(block.range);
    }
    device_.lane->before_fork(alive);
}

void Memory::after_fork_in_parent() {
    device_.lane->after_fork_in_parent();
    if (device_.pager) device_.pager->after_fork_in_parent();
    deferred_mutex_.unlock();
    books_.unlock();
    changes_.unlock();
}

void Memory::after_fork_in_child() {
    deferred_mutex_.unlock();
    books_.unlock();
    changes_.unlock();
    device_.lane->after_fork_in_child();
    if (device_.pager) device_.pager->after_fork_in_child();
}

}  // namespace salus::client
