// A client's memory: every block that its process has from Salus, and the windows that the blocks lie in.
//
// Thread-safe. Threads of the job allocate and free; the helper maps lanes and pages. Nothing here knows of sockets or
// turns: the caller says whether its thread is inside an iteration, and Provider asks the service for more memory.
//
// Its parts keep separate books, and know nothing of each other or of locks:
//
//   LaneHeap      the lane's window: which blocks are placed there, which were evacuated, where to restore the lane
//   PrivateHeap   the private window, the memory behind it, freed memory that is kept for later, and how much is in use
//   WorkInFlight  the home stream, marks on the device's work, freed blocks that wait for it
//   Profile       what was learned of P and T, and which blocks die
//   MemoryCurve   how much was in use over one of the last iterations, for people
//   Paging        whether the memory is paged out, and which blocks were freed meanwhile
//
// Two locks, taken in this order:
//
//   changes_   Guards device::LaneWindow and device::Pager. A thread that changes what the lane's window shows, or pages,
//              holds it from beginning to end, also while it waits for the device or a disk. No allocation ever takes it; a
//              free takes it only if nobody holds it.
//   books_     Guards all the books, device::PrivateWindow, and the calls of device::Fences that do not wait. It is held
//              briefly: no thread that holds it waits for the device, a disk or the service.
//
// So blocks can be freed and allocated while a thread waits for the device or moves memory. Three rules make this safe.
// - Marks are numbered. After a wait, only memory that was freed before the awaited mark is reused (Note [Streams]).
// - A block that is freed during its evacuation keeps its place until the evacuation is done (LaneHeap).
// - No new block is placed in a lane that is being cleared: it becomes private.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/stay_reason.h"
#include "client/block.h"
#include "client/lane_heap.h"
#include "client/memory_curve.h"
#include "client/paging.h"
#include "client/private_heap.h"
#include "client/profile.h"
#include "client/work_in_flight.h"
#include "device/device.h"
#include "os/descriptor.h"
#include "wire/control_page.h"

namespace salus::client {

/// Smaller blocks are left to the C library.
inline constexpr std::size_t kManagedMin = std::size_t{1} << 20;

enum class Kind : std::uint8_t { kPersistent, kEphemeral, kAuto };

/// Where more memory comes from. Called without any lock.
class Provider {
public:
    virtual ~Provider() = default;
    /// Inside an iteration: asks the service and waits until it gives the memory (true) or denies it. `all` are the client's
    /// total needs.
    virtual bool ask(Needs all) = 0;
    /// Inside an iteration: the device does not have memory that the service has promised; somebody may be about to release
    /// it. Waits a little. False if that was done so many `times` that nothing will come of it.
    virtual bool wait_for_device(unsigned times) = 0;
    /// Outside of iterations: the client has already taken the memory; tells the service the new total.
    virtual void observe(std::uint64_t persistent) = 0;
};

/// The most device memory that the process may have: what it has from Memory, and what its program takes by itself. Called
/// with the books locked; thread-safe.
class Limit {
public:
    virtual ~Limit() = default;
    /// Whether Memory may hold so much.
    virtual bool fits(std::uint64_t held) = 0;
    /// Memory will hold so much, if it may.
    virtual bool hold(std::uint64_t held) = 0;
    /// Memory holds so much.
    virtual void holds(std::uint64_t held) = 0;
};

class Memory {
public:
    /// The page, the device, the provider and the limit must outlive this. nullptr: there is no limit.
    Memory(ControlPage& page, device::ClientDevice& device, Provider& provider, Limit* limit = nullptr);

    /// nullptr if there is no memory. `inside`: this thread is inside an iteration.
    void* allocate(std::size_t size, Kind kind, bool inside);
    /// A block for work on this stream; nothing if another allocator should serve it. See Note [Streams].
    std::optional<void*> allocate_on(device::Stream stream, std::size_t size, bool inside);
    /// `inside`: this thread is inside an iteration, or works for a thread that is.
    void free(void* block, bool inside = true);
    /// Work on this stream uses the block as well.
    void used_on(const void* block, device::Stream stream);
    /// Later work on the home stream waits for the work given to this stream so far.
    void wait_for_stream(device::Stream stream);
    bool in_lane(const void* block);
    /// Threads outside of iterations may use the memory, too; see Note [Other threads]. `move_out`: none of them uses it
    /// yet, so the blocks in the lane are moved out now.
    void set_threaded(bool threaded, bool move_out);
    std::uint64_t private_bytes();
    /// Counts managed blocks; peaks are since reset_peaks().
    struct Usage {
        std::uint64_t in_use = 0, in_use_peak = 0;
        std::uint64_t reserved = 0, reserved_peak = 0;
        std::uint64_t allocations = 0, frees = 0;
        std::uint64_t allocated = 0, freed = 0;  ///< bytes
    };
    Usage usage();
    void reset_peaks();
    /// Returns freed memory that was kept for later to the device. The result is its size.
    std::uint64_t give_back();

    // ---- turns; called by the thread that enters first or leaves last ----
    /// An iteration of this kind begins. Iterations of one kind allocate alike.
    void iteration_begins(std::uint64_t kind) { profile_.iteration_begins(kind); }
    /// A thread has taken up a grant. The service knows the demand on the page, so that much may be used.
    void turn_begins();
    /// Whether a boundary may move the blocks that are still in the lane: see Note [Other threads].
    enum class Survivors { kMoveOut, kStay };
    /// Evacuates, learns, and puts the demand on the page. False if a live block is left in the lane, or work that cannot be
    /// waited for.
    bool boundary(Survivors survivors = Survivors::kMoveOut);

    // ---- work that needs no memory of ours: marks for client/launches.h ----
    bool captures(device::Stream stream) { return device_.fences->captures(stream); }
    void launches_on(device::Stream stream) {
        const Books books = open_books();
        work_.launches_on(stream);
    }
    bool mark_launches() {
        const Books books = open_books();
        return work_.mark().has_value();
    }
    bool launches_at_rest() { return device_.fences->at_rest(); }
    void stream_ends(device::Stream stream) {
        const Books books = open_books();
        device_.fences->forget(stream);
    }

    /// For tests: every n-th iteration, all blocks are expected to die. 0: never.
    void mispredict_every(std::uint64_t iterations) { profile_.mispredict_every(iterations); }
    /// For tests: breaks the rules of Note [Streams].
    void reuse_at_once() { work_.reuse_at_once(); }

    // ---- the helper ----
    /// Adds pieces of the lane's memory from number `first` on; 0 replaces the previous lane.
    bool add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces);
    bool map_lane(std::uint64_t size);
    void unmap_lane();
    std::uint64_t mapped();
    void set_room(std::uint64_t persistent);
    /// What page_out() or page_in() has done, for the service.
    struct PageMove {
        std::uint64_t left = 0;  ///< private memory on the device
        std::uint64_t bytes = 0, ns = 0;
        StayReason because = StayReason::kUnknown;  ///< if it has failed
        bool may_work_later = false;                ///< the same
    };
    /// `idle`: no thread waits to begin an iteration, so some may touch the memory meanwhile.
    bool page_out(PageMove* move = nullptr, bool idle = false);
    /// Whether it can be paged out while no thread waits.
    bool may_go_idle() const { return paging_.pager() && paging_.pager()->may_go_idle(); }
    /// Does nothing if the memory is not paged out.
    bool page_in(PageMove* move = nullptr);
    bool paged();
    /// What is paged out must not be touched: the device has no memory there.
    bool is_away();

    /// `alone`: there is no service to ask, and no lane.
    void set_alone(bool alone);

    /// Whether the address is in one of the windows.
    bool owns(const void* block) const { return device_.lane->contains(block) || device_.own->contains(block); }

    // ---- fork; all locks are held in between ----
    /// The child does not inherit the lane; it gets a copy of the blocks that are alive there.
    void before_fork();
    void after_fork_in_parent();
    /// The child must not keep the lane's descriptor. Only the parent frees inherited blocks.
    void after_fork_in_child();

private:
    using Books = std::unique_lock<std::mutex>;
    using Mark = WorkInFlight::Mark;
    static constexpr Mark kAll = Leftovers::kAll;

    // A function that takes `books` requires them locked. It may unlock them while it waits, and returns with them locked.
    // The other functions say what they require.

    Books open_books() {
        Books books(books_);
        free_deferred();
        return books;
    }
    /// Calls `wait` with the books unlocked, for calls that take long.
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
    bool may_hold(Books& books, std::uint64_t more);
    std::optional<Mark> settle(Books& books);
    void give_back_leftovers(Books& books, std::optional<Mark> passed, Mark last);
    void change_home(Books& books);
    bool clear_at_boundary(Books& books, Mark mark, Survivors survivors);

    // REQUIRES: books_.
    void* enter(Place place, device::Range range, const Birth& birth);
    void release(const Block& block, Mark freed_after);
    void release_late(Mark passed);
    void look_after_late();
    std::optional<Mark> mark_midway();
    void learn();
    void count_in_use(std::int64_t change);
    void end_curve();
    void count_private(std::int64_t change);
    void note_held();
    std::uint64_t held() const;
    std::uint64_t backed() const { return device_.lane->backed() + device_.own->backed(); }

    // REQUIRES: changes_, and not books_.
    bool clear_lane(Mark mark);
    bool evacuate_all();
    void evacuate(device::Range range);
    void bring_back_lane(Mark passed);
    void leave_lane();
    void note_paged(PageMove* move);

    ControlPage& page_;
    device::ClientDevice& device_;
    Provider& provider_;
    Limit* const limit_;

    std::mutex changes_;
    std::mutex books_;
    struct Freed {
        void* start;
        bool inside;
    };
    std::mutex deferred_mutex_;  ///< taken last; held for a moment only
    std::vector<Freed> deferred_;
    std::atomic<bool> any_deferred_{false};

    WorkInFlight work_;
    LaneHeap lane_;
    PrivateHeap private_;
    Profile profile_;
    Paging paging_;
    std::unordered_map<const void*, Block> blocks_;
    std::uint64_t room_ = 0;      ///< total private memory that may be used inside an iteration
    std::uint64_t observed_ = 0;  ///< private memory in use that the service last heard of
    Usage usage_;
    MemoryCurve curve_;
    /// Note [The curve of an iteration]: which iteration is drawn, by the time it began. kUndrawn: none.
    static constexpr std::uint64_t kUndrawn = ~std::uint64_t{0};
    std::uint64_t drawn_ns_ = kUndrawn;
    std::uint64_t ended_ns_ = 0;       ///< when the last iteration had begun that has ended
    std::uint64_t next_curve_ns_ = 0;  ///< none is drawn before
    bool alone_ = true;
    bool waited_in_vain_ = false;  ///< for the device's memory, in this iteration
    bool threaded_ = false;
};

}  // namespace salus::client
