// The changes to whole windows, under Memory's changes_: evacuation, mapping of lanes, paging, fork.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "client/memory.h"

namespace salus::client {

// --------------------------------------------------------------------------------------------------------- evacuation

// Note [Other threads]
// A thread outside of iterations may use a block at any time, also while a boundary evacuates it. Then what it writes would
// be lost, and work that it gives a GPU would find nothing mapped. So where such threads use the memory, nothing is moved:
// every block is private, and stays where it is.
// - We are told before such a thread starts (set_threaded); the blocks in the lane are moved out first.
// - A second thread that begins an iteration tells us by that. Blocks that are in the lane by then stay there, and the
//   client keeps the lane until they are freed.
// - Threads that work for the thread inside, while it waits for them, are not such threads.
// - A thread of ours that ends a turn (Survivors::kStay) does not know what the program's threads do at that moment: one may
//   have entered the turn, and left it with a block that it goes on to use.
//
// In case we are not told: a block freed by a thread outside of iterations counts as a survivor, so the next one like it is
// private.
void Memory::set_threaded(bool threaded, bool move_out) {
    const std::lock_guard change(changes_);  // a block that is being moved is in place before another thread uses it
    std::optional<Mark> mark;
    {
        const Books books = open_books();
        if (threaded && !threaded_ && move_out && lane_.alive() > 0) mark = mark_midway();
        threaded_ = threaded;
    }
    if (mark) clear_lane(*mark);
}

/// Moves live blocks out of the lane, and restores it where evacuated blocks have died. False if the lane is not clean.
bool Memory::clear_at_boundary(Books& books, Mark mark, Survivors survivors) {
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
            stays = threaded_ || survivors == Survivors::kStay;
        }
        if (clean || (!stays && clear_lane(mark))) bring_back_lane(mark);
    });
    lane_.set_closed(false);
    if (lane_.alive() > 0) return false;
    // Meanwhile another thread may have given the device more work with its block and freed the block. The earlier mark does
    // not cover that work, and the next client in the lane has to wait for it.
    return lane_.deaths() == deaths || work_.mark().has_value();
}

/// Evacuates all live blocks. `mark`: an earlier mark, which passes in here. True if none is left.
bool Memory::clear_lane(Mark mark) {
    if (!work_.drain_everything()) return false;  // streams that we were never told of may use the blocks
    if (evacuate_all()) return true;
    {
        const Books books = open_books();
        private_.leftovers().give_back_before(kAll, mark);  // this may be the memory that was missing
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

/// Restores the lane where evacuated blocks were freed before this mark. Other blocks in the same pieces of memory must have
/// been evacuated.
void Memory::bring_back_lane(Mark passed) {
    std::vector<device::Range> dead;
    {
        const Books books = open_books();
        dead = lane_.take_dead(passed);
    }
    for (const device::Range& range : dead) {
        paging_.forget(device_.lane->start() + range.offset);
        if (!device_.lane->restore(range)) continue;  // then nothing is placed there any more
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
            mark_midway();  // the memory beyond is free, but work since the last mark may still use it
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

bool Memory::page_out(PageMove* move, bool idle) {
    const std::lock_guard change(changes_);
    if (!paging_.can_page()) return false;
    std::vector<device::Part> parts;
    {
        Books books = open_books();
        if (paging_.is_out()) {
            note_paged(move);
            return true;
        }
        const std::optional<Mark> passed = work_.asynchronous() ? settle(books) : kAll;
        if (passed) private_.leftovers().give_back_before(kAll, *passed);
        for (const auto& [offset, size] : private_.used()) parts.push_back({device_.own->start() + offset, size});
        for (const auto& [offset, size] : lane_.evacuated()) parts.push_back({device_.lane->start() + offset, size});
        paging_.goes_out();
    }
    // Streams that we were never told of may use the memory, and the device must not find it gone.
    const bool at_rest = device_.pager->serves_meanwhile() || work_.drain_everything();
    const bool out = at_rest && paging_.move_out(parts, idle);
    const Books books = open_books();
    paging_.went_out(out);
    if (out) page_.page_outs.fetch_add(1, std::memory_order_relaxed);
    note_paged(move);
    if (move && !out) {
        move->because = at_rest ? StayReason::kNoPlace : StayReason::kBusy;
        move->may_work_later = idle || !device_.pager->serves_meanwhile();
    }
    return out;
}

bool Memory::page_in(PageMove* move) {
    const std::lock_guard change(changes_);
    std::vector<const std::byte*> freed;
    {
        const Books books = open_books();
        if (!paging_.is_out()) return true;
        freed = paging_.take_freed();
    }
    const bool in = paging_.move_in(freed);
    const Books books = open_books();
    note_paged(move);
    if (in) paging_.came_in();
    return in;
}

/// Pages have moved. REQUIRES: books_.
void Memory::note_paged(PageMove* move) {
    note_held();
    const auto places = device_.pager->places();
    for (std::size_t i = 0; i < places.size(); ++i) page_.paged_bytes[i].store(places[i], std::memory_order_relaxed);
    if (!move) return;
    const device::Pager::Moved moved = device_.pager->moved();
    move->left = backed();
    move->bytes += moved.bytes;
    move->ns += moved.ns;
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

/// Without before_fork(), if the client was attached after that: then threads that the child does not have may hold the
/// locks.
void Memory::after_fork_in_child() {
    for (std::mutex* const mutex : {&deferred_mutex_, &books_, &changes_}) std::construct_at(mutex);
    device_.lane->after_fork_in_child();
    if (device_.pager) device_.pager->after_fork_in_child();
}

}  // namespace salus::client
