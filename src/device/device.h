// What a device is to Salus. One side lives in the service and owns the lanes' memory, the other in each client and maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "os/descriptor.h"

namespace salus::device {

/// The service's side: lane memory that can be passed on as descriptors. It is never touched here.
class LaneMemory {
public:
    virtual ~LaneMemory() = default;

    virtual std::string_view name() const = 0;
    /// Which one of its kind: a GPU's UUID.
    virtual std::string identity() const { return {}; }
    /// What jobs may use in all, as far as the machine says.
    virtual Bytes capacity() const = 0;

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
};

struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// A queue of work on the device: what it is given runs in order.
using Stream = std::uint64_t;

/// The client's side: two windows of address space, one for the lane, one for private memory. Offsets are from their start,
/// ranges are whole multiples of the arena's granule. All calls are made under the client's memory lock, except for drain(),
/// passed() and ns_lost().
class ClientMemory {
public:
    virtual ~ClientMemory() = default;

    virtual std::byte* lane_window() const = 0;
    virtual std::byte* private_window() const = 0;
    virtual std::uint64_t window_size() const = 0;

    /// Pieces of the lane's memory from the first'th on; what was there from that one on is no more.
    virtual bool add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces) = 0;
    /// So much of the window shows the lane, around what was evacuated, and is present. Pieces beyond are given up.
    virtual bool resize_lane(std::uint64_t size) = 0;
    /// Nothing of the lane is left in the window, and its pieces are given up.
    virtual void drop_lane() = 0;

    /// Evacuation: private memory with the same content at the same address. REQUIRES: everything has drained.
    virtual bool make_private(Range range) = 0;
    /// What was evacuated is dead: the lane shows through again, as far as it reaches. REQUIRES: the device has drained.
    virtual bool restore_lane(Range range) = 0;

    /// Memory behind a part of the private window that has none, and its return. REQUIRES, for the latter: drained.
    virtual bool back_private(Range range) = 0;
    virtual void discard_private(Range range) = 0;

    /// Moves these, and what was evacuated, out or back in. Out: all or nothing, false if there is no place to put them.
    /// REQUIRES: nobody writes to them meanwhile. Reading is fine at any time, and a touch of what is out brings it back.
    virtual bool page_out(const std::vector<Range>& private_ranges) = 0;
    virtual bool page_in() = 0;
    /// What starts here was freed while paged out: it need not come back.
    virtual void forget_paged(const std::byte* start) = 0;

    /// Before fork(): keeps copies of these parts of the lane, which the child does not inherit and is to find in place.
    virtual void prepare_fork(const std::vector<Range>& lane_ranges) = 0;
    /// After fork(), in the parent, and in the child: what was not inherited is taken again.
    virtual void in_parent() = 0;
    virtual void in_child() = 0;

    // ---- work in flight ----
    /// Whether end() may leave work in flight.
    virtual bool asynchronous() const = 0;
    /// Work on this stream uses the memory.
    virtual void uses(Stream stream) = 0;
    /// What is given to `second` from now on comes after what `first` was given so far.
    /// False: it cannot be done now.
    virtual bool order(Stream first, Stream second) = 0;
    /// Marks what the streams were given so far; and whether all that the last fence marked has ended.
    virtual void fence() = 0;
    virtual bool passed() = 0;
    /// Whether the last fence met a stream that captures a graph. What such a stream was given before cannot be marked, and
    /// so not be waited for.
    virtual bool captures() const = 0;
    /// Waits for all that the last fence marked.
    virtual void drain() = 0;
    /// Waits for all that was given to the device in this process's context, also on streams that nobody named. False: it
    /// cannot be known.
    virtual bool drain_everything() = 0;
    /// A turn begins, with nothing of this client in flight, on this stream.
    virtual void turn_begins(Stream stream) = 0;
    /// After it has drained: how much longer the turn's first iteration took than the others, for the device had to be
    /// filled. Nothing if there were too few to tell.
    virtual std::optional<std::uint64_t> ns_lost() = 0;

    /// What the lane's size is rounded up to.
    virtual std::uint64_t lane_unit() const = 0;
    /// The device's number in this process, as its driver counts.
    virtual int ordinal() const = 0;
    /// Whether small blocks may as well come from the C library.
    virtual bool is_host() const = 0;
    /// Bytes of private memory behind the windows.
    virtual std::uint64_t backed() const = 0;
};

}  // namespace salus::device
