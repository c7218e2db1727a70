// A client's memory: every block that its process has from Salus, and the windows that these lie in.
//
// Thread-safe. Threads of the job allocate and free; the helper maps lanes and pages. Nothing here knows of sockets or
// turns: who is inside an iteration is told, and what cannot be had without asking is asked through Provider.
//
// Its parts keep books, each for itself, and know nothing of each other or of locks:
//
//   LaneHeap      the lane's window: what is placed there, what was evacuated, where the lane has to come back
//   PrivateHeap   the private window, the memory behind it, what is kept of it for later, and how much is in use
//   WorkInFlight  the home stream, marks on the device's work, freed blocks that wait for it
//   Profile       what was learned of P and T, and of which blocks die
//   Paging        whether the memory is out, and what was freed meanwhile
//
// Two locks, taken in this order:
//
//   changes_   Whoever changes what the lane's window shows, or pages, holds it from beginning to end, also while it waits
//              for the device or a disk. It guards device::LaneWindow and device::Pager. No allocation ever takes it; a free
//              takes it only if nobody has it.
//   books_     Guards all the books, device::PrivateWindow, and the calls of device::Fences that do not wait. It is held for
//              moments: nobody waits for the device, a disk or the service with it.
//
// So a block may be freed, and others allocated, while somebody waits for the device or moves memory. Three rules make that
// safe. Marks are numbered, and each wait frees only what was freed before its own mark (Note [Streams]). A block that is
// freed while it is evacuated keeps its place until that is done (LaneHeap). And nothing new is placed in a lane that is
// being cleared: it becomes private.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "client/block.h"
#include "client/lane_heap.h"
#include "client/paging.h"
#include "client/private_heap.h"
#include "client/profile.h"
#include "client/work_in_flight.h"
#include "device/device.h"
#include "os/descriptor.h"
#include "wire/control_page.h"

namespace salus::client {

/// Smaller blocks are the C library's business.
inline constexpr std::size_t kManagedMin = std::size_t{1} << 20;

enum class Kind : std::uint8_t { kPersistent, kEphemeral, kAuto };

/// Where more memory comes from. Called without any lock.
class Provider {
public:
    virtual ~Provider() = default;
    /// Inside an iteration: waits until it is given (true) or denied.
    virtual bool ask(Needs all) = 0;
    /// Outside of one: it is taken, and the service told.
    virtual void observe(std::uint64_t persistent) = 0;
};

class Memory {
public:
    /// The page, the device and the provider must outlive this.
    Memory(ControlPage& page, device::ClientDevice& device, Provider& provider);

    /// nullptr if it cannot be had. `inside`: this thread is inside an iteration.
    void* allocate(std::size_t size, Kind kind, bool inside);
    /// For work on this stream; nothing if another allocator should serve it. See Note [Streams].
    std::optional<void*> allocate_on(device::Stream stream, std::size_t size, bool inside);
    /// `inside`: by a thread that is inside an iteration, or works for one that is.
    void free(void* block, bool inside = true);
    /// Work on this stream uses the block as well.
    void used_on(const void* block, device::Stream stream);
    /// What the home stream is given from now on comes after what this one was given so far.
    void wait_for_stream(device::Stream stream);
    bool in_lane(const void* block);
    /// Threads outside of iterations may use the memory, too; see Note [Other threads]. `move_out`: none of them does so
    /// yet, and what is in the lane leaves it now.
    void set_threaded(bool threaded, bool move_out);
    std::uint64_t private_bytes();
    /// Of managed blocks; peaks since reset_peaks().
    struct Usage {
        std::uint64_t in_use = 0, in_use_peak = 0;
        std::uint64_t reserved = 0, reserved_peak = 0;
        std::uint64_t allocations = 0, frees = 0;
        std::uint64_t allocated = 0, freed = 0;  ///< bytes
    };
    Usage usage();
    void reset_peaks();
    /// What was freed and is kept for later goes back to the device. How much that was.
    std::uint64_t give_back();

    // ---- turns; called by the thread that enters first or leaves last ----
    /// An iteration of this kind begins: those of one kind allocate alike.
    void iteration_begins(std::uint64_t kind) { profile_.iteration_begins(kind); }
    /// A grant was taken up. The service knows the demand that is on the page: that much may be used.
    void turn_begins();
    /// Evacuates, learns, and puts the demand on the page. False if something alive is left in the lane.
    bool boundary();

    // ---- work that needs no memory of ours: marks for client/launches.h ----
    bool captures(device::Stream stream) { return device_.fences->captures(stream); }
    void launches_on(device::Stream stream) {
        const Books books = open_books();
        work_.launches_on(stream);
    }
    void mark_launches() {
        const Books books = open_books();
        work_.mark();
    }
    bool launches_passed() { return device_.fences->passed(); }

    /// For tests: in every so many iterations everything is taken for ephemeral. 0: never.
    void mispredict_every(std::uint64_t iterations) { profile_.mispredict_every(iterations); }
    /// For tests: what Note [Streams] forbids is done.
    void reuse_at_once() { work_.reuse_at_once(); }

    // ---- the helper ----
    /// Further pieces of the lane's memory; the first ones replace the lane that was there.
    bool add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces);
    bool map_lane(std::uint64_t size);
    void unmap_lane();
    std::uint64_t mapped();
    void set_room(std::uint64_t persistent);
    bool page_out();
    /// Does nothing if it is not paged out.
    bool page_in();
    bool paged();

    /// Without a service there is nobody to ask and no lane.
    void set_alone(bool alone);

    /// Whether the address is in one of the windows.
    bool owns(const void* block) const { return device_.lane->contains(block) || device_.own->contains(block); }

    // ---- fork; nothing may change in between ----
    /// The child inherits no lane, and is to have a copy of what is alive there.
    void before_fork();
    void after_fork_in_parent();
    /// The lane's descriptor is not for it. What it inherited is the parent's to free.
    void after_fork_in_child();

private:
    using Books = std::unique_lock<std::mutex>;
    using Mark = WorkInFlight::Mark;
    static constexpr Mark kAll = Leftovers::kAll;

    // A function that takes `books` requires that they are locked; it may unlock them while it waits, and leaves them
    // locked. The others say what they require.

    Books open_books() {
        Books books(books_);
        free_deferred();
        return books;
    }
    /// For what takes long: others use the books meanwhile.
    template <typename Wait>
    auto without(Books& books, const Wait& wait) {
        books.unlock();
        if constexpr (std::is_void_v<decltype(wait())>) {
            wait();
            books = open_books();
        } else {
            auto result = wait();
            books = open_books();
            return result;
        }
    }
    /// REQUIRES: books_. See Note [Nobody waits to free].
    void free_deferred() {
        if (any_deferred_.load(std::memory_order_acquire)) free_all_deferred();
    }
    void free_all_deferred();
    void free_now(void* start, bool inside);

    void* allocate_managed(Books& books, std::uint64_t size, Kind kind, bool inside);
    void* allocate_in_lane(Books& books, std::uint64_t size, const Birth& birth);
    void* allocate_private(Books& books, std::uint64_t size, bool inside, const Birth& birth);
    bool back(Books& books, device::Range range);
    std::optional<Mark> settle(Books& books);
    void give_back_leftovers(Books& books, std::optional<Mark> passed, Mark last);
    void change_home(Books& books);
    bool clear_at_boundary(Books& books, Mark mark);

    // REQUIRES: books_.
    void* enter(Place place, device::Range range, const Birth& birth);
    void release(const Block& block, Mark freed_after);
    void release_late(Mark passed);
    void look_after_late();
    std::optional<Mark> mark_midway();
    void learn();
    void count_private(std::int64_t change);
    void note_held();
    std::uint64_t backed() const { return device_.lane->backed() + device_.own->backed(); }

    // REQUIRES: changes_, and not books_.
    bool clear_lane(Mark mark);
    bool evacuate_all();
    void evacuate(device::Range range);
    void bring_back_lane(Mark passed);
    void leave_lane();

    ControlPage& page_;
    device::ClientDevice& device_;
    Provider& provider_;

    std::mutex changes_;
    std::mutex books_;
    struct Freed {
        void* start;
        bool inside;
    };
    std::mutex deferred_mutex_;  ///< the last in the order; held for a moment only
    std::vector<Freed> deferred_;
    std::atomic<bool> any_deferred_{false};

    WorkInFlight work_;
    LaneHeap lane_;
    PrivateHeap private_;
    Profile profile_;
    Paging paging_;
    std::unordered_map<const void*, Block> blocks_;
    std::uint64_t room_ = 0;      ///< of private memory, that may be used inside an iteration
    std::uint64_t observed_ = 0;  ///< what the service was last told that is in use
    Usage usage_;
    bool alone_ = true;
    bool threaded_ = false;
};

}  // namespace salus::client
