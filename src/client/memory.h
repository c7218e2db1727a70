// A client's memory: lane or private, what it learns of its P and T, evacuation, paging.
//
// Thread-safe. Threads of the job allocate and free; the helper maps lanes and pages. Nothing here knows of sockets or
// turns: who is inside an iteration is told, and what cannot be had without asking is asked through Provider.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/arena.h"
#include "client/leftovers.h"
#include "client/predictor.h"
#include "device/device.h"
#include "os/descriptor.h"
#include "wire/control_page.h"

namespace salus::client {

/// Smaller blocks are the C library's business.
inline constexpr std::size_t kManagedMin = std::size_t{1} << 20;

enum class Kind : std::uint8_t { kPersistent, kEphemeral, kAuto };

/// Bytes that a client needs.
struct Needs {
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
};

/// Where more memory comes from. Called without the memory lock.
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
    Memory(ControlPage& page, device::ClientMemory& device, Provider& provider);
    ~Memory();

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
    void iteration_begins(std::uint64_t kind) { kind_.store(kind, std::memory_order_relaxed); }
    /// A grant was taken up. The service knows the demand that is on the page: that much may be used.
    void turn_begins();
    /// Evacuates, learns, and puts the demand on the page. False if something alive is left in the lane.
    bool boundary();

    /// For tests: in every so many iterations everything is taken for ephemeral. 0: never.
    void mispredict_every(std::uint64_t iterations) { mispredict_every_ = iterations; }
    /// For tests: what Note [Streams] forbids is done.
    void reuse_at_once() { reuse_at_once_ = true; }

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
    bool owns(const void* block) const;

    // ---- fork; nothing may change in between ----
    /// The child inherits no lane, and is to have a copy of what is alive there.
    void before_fork();
    void after_fork_in_parent();
    /// The lane's descriptor is not for it. What it inherited is the parent's to free.
    void after_fork_in_child();

private:
    enum class Place : std::uint8_t { kLane, kEvacuated, kPrivate };
    struct Block {
        std::uint64_t offset = 0;
        std::uint64_t size = 0;  ///< as the arena counts
        Place place{};
        device::Stream stream = 0;
        std::vector<device::Stream> others{};  ///< that use it, too
        bool has_ticket = false;
        Predictor::Ticket ticket{};
        std::uint64_t iteration = 0;  ///< in which it was born
    };
    /// What happened since the last boundary, for the replay.
    struct Step {
        bool allocated;
        bool has_ticket;
        Predictor::Ticket ticket;
        std::uint64_t size;
    };
    /// The largest value of the last iterations; forgets slowly.
    class RecentMax {
    public:
        void add(std::uint64_t value);
        std::uint64_t get() const { return now_ > before_ ? now_ : before_; }

    private:
        static constexpr unsigned kWindow = 16;
        std::uint64_t now_ = 0;
        std::uint64_t before_ = 0;
        unsigned count_ = 0;
    };

    /// Every call from outside takes it. See Note [Nobody waits to free].
    std::unique_lock<std::mutex> lock() {
        std::unique_lock lock(mutex_);
        free_deferred();
        return lock;
    }
    /// REQUIRES: the lock.
    void free_deferred() {
        if (any_deferred_.load(std::memory_order_acquire)) free_all_deferred();
    }
    void free_now(void* start, bool inside);
    void free_all_deferred();
    bool mispredicts() const { return mispredict_every_ > 0 && iteration_ % mispredict_every_ == 0; }
    void* allocate_managed(std::unique_lock<std::mutex>& lock, std::uint64_t size, Kind kind, bool inside);
    void* allocate_in_lane(std::unique_lock<std::mutex>& lock, std::uint64_t size, const Predictor::Allocation& allocation);
    void* allocate_private(std::unique_lock<std::mutex>& lock, std::uint64_t size, bool inside,
                           const Predictor::Allocation* allocation);
    void* enter(Place place, std::uint64_t offset, std::uint64_t size, const Predictor::Allocation* allocation);
    bool back(device::Range range);
    void release(const Block& block);
    void note_uses(const Block& block);
    void release_late();
    void mark_streams();
    bool wait_for_late();
    void look_after_late();
    void change_home();
    void note_held();
    void leave_lane();
    bool evacuate(Block& block);
    void bring_back_lane();
    void learn();
    Needs replay() const;
    void note(const Step& step);
    void count_private(std::int64_t change);
    bool clear_lane();
    bool evacuate_all();
    void let_go(device::Range range);
    void give_back_leftovers(bool drained, bool passed);

    ControlPage& page_;
    device::ClientMemory& device_;
    Provider& provider_;

    std::mutex mutex_;
    struct Freed {
        void* start;
        bool inside;
    };
    std::mutex deferred_mutex_;  ///< held for a moment only, whatever else is
    std::vector<Freed> deferred_;
    std::atomic<bool> any_deferred_{false};
    Predictor predictor_;
    Arena lane_{0};
    Arena private_;
    Leftovers leftovers_;
    std::unordered_map<const void*, Block> blocks_;
    std::vector<Step> steps_;
    std::uint64_t iteration_ = 0;
    std::atomic<std::uint64_t> kind_{0};
    std::size_t lane_blocks_ = 0;  ///< alive in the lane
    std::uint64_t mapped_ = 0;
    std::uint64_t room_ = 0;
    std::uint64_t in_use_ = 0;       ///< private: managed, evacuated and small blocks
    std::uint64_t peak_ = 0;         ///< of it, since the last boundary
    std::uint64_t at_boundary_ = 0;  ///< in_use_ at the last one
    std::uint64_t missed_ = 0;       ///< private bytes of this iteration that died in it
    std::uint64_t observed_ = 0;
    RecentMax persistent_;
    RecentMax ephemeral_;
    std::uint64_t mispredict_every_ = 0;
    Usage usage_;
    bool paged_ = false;
    bool alone_ = true;
    bool threaded_ = false;

    // See Note [Streams].
    struct Late {
        Block block;
        std::uint64_t fences;  ///< before it was freed
    };
    device::Stream home_ = 0;
    bool has_home_ = false;
    bool used_home_ = false;                 ///< in this iteration
    std::optional<device::Stream> refused_;  ///< a stream that was turned away in this iteration
    std::vector<Late> late_;
    std::uint64_t late_bytes_ = 0;
    std::uint64_t fences_ = 0;
    std::vector<device::Range> dead_;  ///< evacuated, and freed since: the lane comes back there at the next boundary
    bool reuse_at_once_ = false;
};

}  // namespace salus::client
