// What a device is to Salus. One side lives in the service and owns the lanes' memory, the other in each client and maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace salus::device {

/// The service's side: lane memory that can be passed on as a descriptor. It is never touched here.
class LaneMemory {
public:
    virtual ~LaneMemory() = default;

    virtual std::string_view name() const = 0;
    /// What jobs may use in all, as far as the machine says.
    virtual Bytes capacity() const = 0;
    /// A descriptor of the lane's memory, at least `size` large; stays ours. The same one each time for a lane.
    virtual Result<int> provide(LaneId lane, Bytes size) = 0;
    /// What lies beyond `size` is needed by nobody any more.
    virtual void trim(LaneId lane, Bytes size) = 0;
    virtual void release(LaneId lane) = 0;
};

struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// Calls `act` for each part of [from, to) that is in none of the holes, which are in order.
template <typename Act>
void around(const std::vector<Range>& holes, std::uint64_t from, std::uint64_t to, const Act& act) {
    for (const Range& hole : holes) {
        if (hole.offset + hole.size <= from || hole.offset >= to) continue;
        if (hole.offset > from) act(Range{from, hole.offset - from});
        from = hole.offset + hole.size;
    }
    if (from < to) act(Range{from, to - from});
}

/// The client's side: two windows of address space, one for the lane, one for private memory. Offsets are from their start,
/// ranges are whole multiples of the arena's granule. All calls are made under the client's memory lock.
class ClientMemory {
public:
    virtual ~ClientMemory() = default;

    virtual std::byte* lane_window() const = 0;
    virtual std::byte* private_window() const = 0;
    virtual std::uint64_t window_size() const = 0;

    /// Maps this part of the lane, and has every page of it present.
    virtual bool map_lane(int descriptor, Range range) = 0;
    /// The range stays ours, with nothing in it.
    virtual void unmap_lane(Range range) = 0;
    /// Evacuation: private memory with the same content at the same address.
    virtual bool make_private(Range range) = 0;

    /// Gives the memory behind a freed private range back.
    virtual void discard_private(Range range) = 0;

    /// Moves these (of the private window, of evacuated ranges of the lane's) out, or back in. Out: all or nothing, false
    /// if there is no place to put them. REQUIRES: nobody writes to them meanwhile. Reading is fine at any time, and a touch
    /// of what is out brings it back by itself.
    virtual bool page_out(const std::vector<Range>& private_ranges, const std::vector<Range>& evacuated) = 0;
    virtual bool page_in() = 0;
    /// What starts here was freed while paged out: it need not come back.
    virtual void forget_paged(const std::byte* start) = 0;

    /// After fork(), in the parent, and in the child: what was not inherited is taken again, around what was evacuated.
    virtual void in_parent() = 0;
    virtual void in_child(const std::vector<Range>& evacuated) = 0;

    /// Waits until the device has finished what it was given.
    virtual void drain() = 0;
    /// Whether end() may leave work in flight.
    virtual bool asynchronous() const = 0;
};

}  // namespace salus::device
