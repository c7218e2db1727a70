// The interface of a device. The service owns the lanes' memory (LaneMemory); each client maps it (ClientDevice).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "device/pieces.h"
#include "os/descriptor.h"
#include "wire/control_page.h"
#include "wire/gate_page.h"

namespace salus::device {

/// Properties of a kind of device. Service and client decide by these, never by the name.
struct Traits {
    std::string_view name;      ///< "host", "cuda": in options, messages and status
    bool asynchronous = false;  ///< work continues after the call that started it has returned
    bool has_contexts =
        false;  ///< a process takes memory there (a context) before its first allocation; MPS can merge contexts
    bool has_gates = false;   ///< its streams can wait for a word: Note [Gates] in wire/gate_page.h
    bool is_host = false;     ///< the C library's memory is the device's memory, so the C library may serve small blocks
    Pieces lane_pieces{};     ///< a lane consists of them
    Pieces private_pieces{};  ///< private memory is backed by them
};

// ---------------------------------------------------------------------------------------------------------- the service

/// Lane memory that can be passed to clients as descriptors. The service never touches its content.
class LaneMemory {
public:
    /// `identity`: which device of its kind, such as a GPU's UUID. `capacity`: total memory for jobs, by the machine's
    /// account.
    /// `total`: all that it has; 0: the same.
    LaneMemory(const Traits& traits, std::string identity, Bytes capacity, Bytes total = {})
        : traits_(traits), identity_(std::move(identity)), capacity_(capacity), total_(total > Bytes{} ? total : capacity) {}
    virtual ~LaneMemory() = default;

    const Traits& traits() const { return traits_; }
    const std::string& identity() const { return identity_; }
    Bytes capacity() const { return capacity_; }
    Bytes total() const { return total_; }

    /// Makes the lane at least this large.
    virtual Result<bool> provide(LaneId lane, Bytes size) = 0;
    /// A lane's memory consists of pieces. The number of pieces for a lane of this size.
    virtual std::size_t pieces_for(Bytes size) const = 0;
    /// Descriptors of the pieces [first, end), for one client.
    virtual Result<std::vector<os::Descriptor>> pass_on(LaneId lane, std::size_t first, std::size_t end) = 0;
    /// Nobody needs the memory beyond `size` any more.
    virtual void trim(LaneId lane, Bytes size) = 0;
    virtual void release(LaneId lane) = 0;
    /// Replaces the lane's memory, because work of a dead process may still continue in it. False if this device does not
    /// need that: a process's work ends with the process.
    virtual bool renew(LaneId lane) = 0;
    /// Whether a process still has lane memory mapped. True if that cannot be found out.
    virtual bool is_mapped_in(int pid) const = 0;
    /// The GPU's number on this machine, by which tools name it. Nothing: it is no GPU, or nobody can tell.
    virtual std::optional<unsigned> index() const { return std::nullopt; }
    /// Share of about the last second in which the device worked. Nothing: it cannot tell.
    virtual std::optional<double> busy_share() const { return std::nullopt; }
    /// The device was seen to be gone for good. usage() looks.
    virtual bool is_lost() const { return false; }

    /// What the device reports about itself and its users now. A figure that it cannot tell stays 0 or empty.
    struct Usage {
        Bytes others;                  ///< used by processes that are not in `clients`; without lanes
        std::map<int, Bytes> clients;  ///< by pid; without lanes
        std::vector<int> strangers;    ///< the pids of all other processes
    };
    /// Nothing for a device whose clients report all of their memory themselves.
    virtual std::optional<Usage> usage(const std::vector<int>& clients) const = 0;

private:
    Traits traits_;
    std::string identity_;
    Bytes capacity_;
    Bytes total_;
};

// ----------------------------------------------------------------------------------------------------------- the client

// Threads: calls to LaneWindow and Pager come one at a time. So do calls to PrivateWindow, and calls to Fences; but the
// three groups may run in parallel. start(), size(), backed(), Fences::passed(), at_rest(), drain(), drain_everything() and
// ns_lost() may be called at any time.

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
    /// Bytes of the process's own memory behind the window, as the device counts. 0 for the host, where it equals the memory
    /// in use.
    std::uint64_t backed() const { return backed_.load(std::memory_order_relaxed); }

protected:
    void set_backed(std::uint64_t bytes) { backed_.store(bytes, std::memory_order_relaxed); }

private:
    std::byte* start_;
    std::uint64_t size_;
    std::atomic<std::uint64_t> backed_{0};
};

/// A window that shows the lane, and private memory where blocks were evacuated.
class LaneWindow : public Window {
public:
    using Window::Window;

    /// Sets the pieces of the lane's memory from number `first` on; previous pieces from that number on are dropped.
    virtual bool add_memory(std::size_t first, std::vector<os::Descriptor> pieces) = 0;
    /// Maps the lane into this much of the window, except where blocks were evacuated. Pieces beyond are given up.
    virtual bool resize(std::uint64_t size) = 0;
    /// Unmaps the lane from the window and gives up its pieces.
    virtual void drop() = 0;

    /// Evacuation: replaces the range by private memory with the same content at the same address. REQUIRES: everything has
    /// drained.
    virtual bool make_private(Range range) = 0;
    /// The evacuated block is dead: the window shows the lane there again, as far as it reaches. REQUIRES: the device has
    /// drained.
    virtual bool restore(Range range) = 0;

    /// Before fork(): copies these parts of the lane. The child does not inherit the lane, but must find its content in
    /// place.
    virtual void before_fork(const std::vector<Range>&) {}
    virtual void after_fork_in_parent() {}
    /// In the child: maps the window again, which was not inherited.
    virtual void after_fork_in_child() {}
};

/// A window with memory where the client wants it.
class PrivateWindow : public Window {
public:
    using Window::Window;

    /// Puts memory behind a part that has none.
    virtual bool back(Range range) = 0;
    /// Returns the memory behind a part. REQUIRES: drained.
    virtual void discard(Range range) = 0;
};

/// Moves memory out of the device and back in.
class Pager {
public:
    virtual ~Pager() = default;

    /// False: nothing was moved, because there is no place to put it. On the host all is moved or nothing, and paged-out
    /// memory may be read at any time; a touch brings it back. On a GPU a part may stay (Window::backed), and what is out
    /// must not be touched. REQUIRES: nothing is paged out; everything has drained.
    virtual bool page_out(const std::vector<Part>& parts) = 0;
    /// The same while threads may touch the memory: they are held, else the answer is false.
    virtual bool page_out_idle(const std::vector<Part>&) { return false; }
    /// Whether page_out_idle() is worth a try.
    virtual bool may_go_idle() const { return false; }
    /// False: some is still out.
    virtual bool page_in() = 0;
    /// page_in() has failed for want of the device's memory: later it may succeed.
    virtual bool lacks_memory() const { return false; }
    /// Whether blocks may be allocated and freed while memory is out.
    virtual bool serves_meanwhile() const { return true; }
    /// Bytes that are out, by place.
    virtual std::array<std::uint64_t, kPagePlaces> places() const { return {}; }
    /// What the last page_out() or page_in() has moved; nothing if that was not measured.
    struct Moved {
        std::uint64_t bytes = 0, ns = 0;
    };
    virtual Moved moved() const { return {}; }
    /// The block that starts here was freed while it was paged out: it need not come back.
    virtual void forget(const std::byte* start) = 0;

    virtual void after_fork_in_parent() {}
    virtual void after_fork_in_child() {}
};

/// A queue of work on the device, which runs in order.
using Stream = std::uint64_t;

/// Tells how far the device's work has come. This base class is for a device whose work is always done.
class Fences {
public:
    virtual ~Fences() = default;

    /// Work on this stream uses the memory.
    virtual void uses(Stream) {}
    enum class Order : std::uint8_t {
        kDone,
        kNotNow,
        kGone,  ///< the first stream was destroyed, perhaps with work in flight; only drain_everything() waits for that work
    };
    /// The stream records what it is given as a graph, and runs none of it now.
    virtual bool captures(Stream) { return false; }
    /// Makes later work on `second` wait for the work given to `first` so far.
    virtual Order order(Stream /*first*/, Stream /*second*/) { return Order::kDone; }
    /// Marks the work given to the streams so far. False: one of them captures a graph. Its work from before the capture
    /// cannot be marked, and so cannot be waited for.
    virtual bool fence() { return true; }
    /// Whether all work marked by the last fence has ended.
    virtual bool passed() { return true; }
    /// As passed(), for one who only shares time: false only while marked work is known to run. Work that could not be
    /// marked, and a device that has failed, do not count.
    virtual bool at_rest() { return true; }
    /// The stream is about to be destroyed: its handle must not be used any more.
    virtual void forget(Stream) {}
    /// Waits for all work marked by the last fence.
    virtual void drain() {}
    /// Waits for all work in this process's context, also on streams that nobody named. False: it cannot be known.
    virtual bool drain_everything() { return true; }
    /// A turn begins on this stream, with no work of this client in flight.
    virtual void turn_begins(Stream) {}
    /// After draining: how much longer the turn's first iteration took than the others, because the device had to be
    /// filled. Nothing if there were too few iterations to tell.
    virtual std::optional<std::uint64_t> ns_lost() { return std::nullopt; }
};

/// Keeps a program from running far ahead of the device: who waits for the end of its turn waits for all of that. Any
/// thread.
class Pace {
public:
    virtual ~Pace() = default;
    /// A launch on this stream is about to come. Waits a while if the stream has more in flight than a turn should last; not
    /// for long: what is in flight may itself wait for what the program does next.
    virtual void keep(Stream) = 0;
    /// A turn has begun: the time since the last one says nothing about launches.
    virtual void restart() = 0;
    /// As of Fences.
    virtual void forget(Stream) = 0;
};

/// Gates and marks of requests in this process's streams: Note [Gates] in wire/gate_page.h. Any thread. None of these waits,
/// unless a stream has so much to do already that the driver takes no more.
class GatedStreams {
public:
    virtual ~GatedStreams() = default;
    /// Lets the device read and write the page, once. The page must then stay for good: gates in it may be in a stream for
    /// as long as that lives. False: this driver cannot.
    virtual bool prepare() = 0;
    /// A launch on this stream is about to come, after `launches` others since the last call. Puts a gate before it if one
    /// is due. Returns how many launches may come before the next call.
    virtual unsigned pass(Stream stream, unsigned launches) = 0;
    /// The device stores the number to this word of the page when these streams have done all that they were given so far.
    /// The streams do not wait for each other. False: it cannot.
    virtual bool store_behind(std::span<const Stream> streams, std::atomic<std::uint32_t>& word, std::uint32_t number) = 0;
    /// As of Fences.
    virtual void forget(Stream) = 0;
};

/// A client's side of a device. The windows are of one size.
struct ClientDevice {
    Traits traits;
    int ordinal = 0;  ///< the device's number in this process, as its driver counts
    std::unique_ptr<LaneWindow> lane;
    std::unique_ptr<PrivateWindow> own;
    std::unique_ptr<Pager> pager;                 ///< none: its memory cannot be paged out
    std::unique_ptr<Pace> pace;                   ///< none: work does not run ahead
    std::unique_ptr<GatedStreams> gated_streams;  ///< none: the device has no gates
    std::unique_ptr<Fences> fences;  ///< last member, so destroyed first: it waits for the work that uses the memory
};

/// The side of a client that leaves its memory to the program: it has no windows to speak of, only fences, in the context
/// that is the calling thread's current one. REQUIRES: there is one. The error is one line.
Result<std::unique_ptr<ClientDevice>> open_device_without_memory(std::string_view name, GatePage* gates);

/// The GPU that this process uses or, if it uses none yet, will: the current context's, or the first that it sees. As in
/// CUDA_VISIBLE_DEVICES; empty: not known.
std::string gpu_in_use();

/// Whether a GPU's memory may be paged out, and the directory for what the host's memory cannot hold; empty: any.
struct Paging {
    bool on = false;
    std::string directory{};
};

/// Creates the device by the name in the service's Welcome. The windows suit a device of this capacity. While it waits for
/// the device, it keeps the gate open. The error is one line.
Result<std::unique_ptr<ClientDevice>> open_client_device(std::string_view name, Bytes capacity, const std::string& identity,
                                                         GatePage* gates, const Paging& paging);

}  // namespace salus::device
