// What a device is to Salus. The service owns the lanes' memory (LaneMemory); each client maps it (ClientDevice).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "os/descriptor.h"

namespace salus::device {

/// What follows from the kind of device. Service and client decide by these, never by the name.
struct Traits {
    std::string_view name;        ///< "host", "cuda": in options, messages and status
    bool asynchronous = false;    ///< work goes on after the call that started it has returned
    bool has_contexts = false;    ///< a process takes memory there before its first allocation; MPS can merge them
    bool is_host = false;         ///< the C library's memory is the device's, so it may serve small blocks
    std::uint64_t lane_unit = 1;  ///< a lane's size is rounded up to this
};

// ---------------------------------------------------------------------------------------------------------- the service

/// Lane memory that can be passed on as descriptors. It is never touched here.
class LaneMemory {
public:
    /// `identity`: which device of its kind, a GPU's UUID. `capacity`: what jobs may use in all, as the machine says.
    LaneMemory(const Traits& traits, std::string identity, Bytes capacity)
        : traits_(traits), identity_(std::move(identity)), capacity_(capacity) {}
    virtual ~LaneMemory() = default;

    const Traits& traits() const { return traits_; }
    const std::string& identity() const { return identity_; }
    Bytes capacity() const { return capacity_; }

    /// Makes the lane at least this large.
    virtual Result<bool> provide(LaneId lane, Bytes size) = 0;
    /// Its memory comes in pieces: so many for a lane of this size.
    virtual std::size_t pieces_for(Bytes size) const = 0;
    /// Descriptors of those in [first, end), for one client.
    virtual Result<std::vector<os::Descriptor>> pass_on(LaneId lane, std::size_t first, std::size_t end) = 0;
    /// What lies beyond `size` is needed by nobody any more.
    virtual void trim(LaneId lane, Bytes size) = 0;
    virtual void release(LaneId lane) = 0;
    /// Work of a process that is gone may still go on in the lane: it is to have other memory from now on. False if it does
    /// not need to, for what a process does ends with it.
    virtual bool renew(LaneId lane) = 0;
    /// Whether a process still has lane memory mapped. True if that cannot be found out.
    virtual bool is_mapped_in(int pid) const = 0;

    /// What the device says of itself and its users now. Where it cannot tell, what is in question stays 0 or empty.
    struct Usage {
        Bytes others;                  ///< used by processes that are not in `clients`, and not by lanes
        std::map<int, Bytes> clients;  ///< by pid; lanes aside
    };
    /// Nothing, for a device whose clients say all there is to know.
    virtual std::optional<Usage> usage(const std::vector<int>& clients) const = 0;

private:
    Traits traits_;
    std::string identity_;
    Bytes capacity_;
};

// ----------------------------------------------------------------------------------------------------------- the client

// The threads' contract of the parts below: calls to LaneWindow and Pager come one at a time, and so do those to
// PrivateWindow and those to Fences, but each kind beside the others. start(), size() and backed() may be called at any
// time, and so may Fences::passed(), drain(), drain_everything() and ns_lost().

/// A part of a window. Offsets are from its start; ranges are whole multiples of the arena's granule.
struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// Memory at its address in this process.
struct Part {
    std::byte* at = nullptr;
    std::uint64_t size = 0;
};

/// A span of address space that stays reserved. Fixed for its life.
class Window {
public:
    Window(std::byte* start, std::uint64_t size) : start_(start), size_(size) {}
    virtual ~Window() = default;
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    std::byte* start() const { return start_; }
    std::uint64_t size() const { return size_; }
    bool contains(const void* address) const { return address >= start_ && address < start_ + size_; }
    /// Bytes of the process's own memory behind it, as the device counts. 0 for the host: there it is what is in use.
    std::uint64_t backed() const { return backed_.load(std::memory_order_relaxed); }

protected:
    void set_backed(std::uint64_t bytes) { backed_.store(bytes, std::memory_order_relaxed); }

private:
    std::byte* start_;
    std::uint64_t size_;
    std::atomic<std::uint64_t> backed_{0};
};

/// Shows the lane, and private memory where something was evacuated.
class LaneWindow : public Window {
public:
    using Window::Window;

    /// Pieces of the lane's memory from the first'th on; what was there from that one on is no more.
    virtual bool add_memory(std::size_t first, std::vector<os::Descriptor> pieces) = 0;
    /// So much of the window shows the lane, around what was evacuated, and is present. Pieces beyond are given up.
    virtual bool resize(std::uint64_t size) = 0;
    /// Nothing of the lane is left in the window, and its pieces are given up.
    virtual void drop() = 0;

    /// Evacuation: private memory with the same content at the same address. REQUIRES: everything has drained.
    virtual bool make_private(Range range) = 0;
    /// What was evacuated is dead: the lane shows through again, as far as it reaches. REQUIRES: the device has drained.
    virtual bool restore(Range range) = 0;

    /// Keeps copies of these parts of the lane, which the child does not inherit and is to find in place.
    virtual void before_fork(const std::vector<Range>&) {}
    virtual void after_fork_in_parent() {}
    /// Takes the window again, which was not inherited.
    virtual void after_fork_in_child() {}
};

/// Has memory where the client wants it.
class PrivateWindow : public Window {
public:
    using Window::Window;

    /// Memory behind a part that has none, and its return. REQUIRES, for the latter: drained.
    virtual bool back(Range range) = 0;
    virtual void discard(Range range) = 0;
};

/// Moves memory out of the device and back in.
class Pager {
public:
    virtual ~Pager() = default;

    /// All or nothing; false if there is no place to put it. Reading is fine at any time, and a touch of what is out brings
    /// it back. REQUIRES: nothing is out.
    virtual bool page_out(const std::vector<Part>& parts) = 0;
    virtual bool page_in() = 0;
    /// What starts here was freed while it was out: it need not come back.
    virtual void forget(const std::byte* start) = 0;

    virtual void after_fork_in_parent() {}
    virtual void after_fork_in_child() {}
};

/// A queue of work on the device: what it is given runs in order.
using Stream = std::uint64_t;

/// Tells how far the device has come with its work. This one is that of a device which is always done.
class Fences {
public:
    virtual ~Fences() = default;

    /// Work on this stream uses the memory.
    virtual void uses(Stream) {}
    enum class Order : std::uint8_t {
        kDone,
        kNotNow,
        kGone,  ///< the first stream was destroyed, perhaps with work in flight: only drain_everything() waits for that
    };
    /// What is given to `second` from now on comes after what `first` was given so far.
    virtual Order order(Stream /*first*/, Stream /*second*/) { return Order::kDone; }
    /// Marks what the streams were given so far. False: one of them captures a graph. What it was given before that cannot
    /// be marked, and so not be waited for.
    virtual bool fence() { return true; }
    /// Whether all that the last fence marked has ended.
    virtual bool passed() { return true; }
    /// Waits for all that the last fence marked.
    virtual void drain() {}
    /// Waits for all that was given to the device in this process's context, also on streams that nobody named. False: it
    /// cannot be known.
    virtual bool drain_everything() { return true; }
    /// A turn begins, with nothing of this client in flight, on this stream.
    virtual void turn_begins(Stream) {}
    /// After it has drained: how much longer the turn's first iteration took than the others, for the device had to be
    /// filled. Nothing if there were too few to tell.
    virtual std::optional<std::uint64_t> ns_lost() { return std::nullopt; }
};

/// A client's side of a device. The windows are of one size.
struct ClientDevice {
    Traits traits;
    int ordinal = 0;  ///< the device's number in this process, as its driver counts
    std::unique_ptr<LaneWindow> lane;
    std::unique_ptr<PrivateWindow> own;
    std::unique_ptr<Pager> pager;    ///< none: what it holds cannot be moved out
    std::unique_ptr<Fences> fences;  ///< the last, so the first to go: it waits for the work that uses the memory
};

/// By the name in the service's welcome. The windows suit a device of which jobs may use so much. The error is one line.
Result<std::unique_ptr<ClientDevice>> open_client_device(std::string_view name, Bytes capacity, const std::string& identity);

}  // namespace salus::device
