// Work that the device may not have finished, and freed blocks that have to wait for it.
//
// Not thread-safe, except for drain() and drain_everything(), which wait.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/block.h"
#include "device/device.h"

namespace salus::client {

// Note [Streams]
// A device runs the work of one stream in order, and several streams at once. So work in flight may still use memory that is
// free in our books. Therefore we manage memory for one stream only, the home stream: there, work on a reused block runs
// after all earlier work on it. Other streams are refused, and left to the framework's own allocator.
// - A block may be used by work on another stream, too, or may have been allocated under another home stream. Such a block
//   is reused only when a fence shows that all work of its last iteration has ended.
// - If an iteration uses nothing on the home stream, but another stream was refused, its boundary makes that one the home.
// - Memory leaves the address space only after the device has drained; live memory only after all streams have.
//
// Nobody waits with a lock held, so blocks are freed during a wait. Therefore marks are numbered: memory freed before mark n
// is free for good once mark n, or a later one, has passed.
class WorkInFlight {
public:
    WorkInFlight(device::Fences& fences, const device::Traits& traits) : fences_(fences), traits_(traits) {}

    bool asynchronous() const { return traits_.asynchronous; }

    // ---- the home stream ----
    device::Stream home() const { return home_; }
    bool has_home() const { return has_home_; }
    /// Whether we give memory for work on this stream. The first stream that asks becomes the home stream.
    bool serves(device::Stream stream, bool inside);
    /// Work on this stream uses the block as well.
    void used_on(Block& block, device::Stream stream);
    /// Later work on the home stream waits for the work given to this stream so far. False: not possible; the caller has to
    /// drain everything.
    bool order_before_home(device::Stream stream);
    /// At a boundary: the stream that should become the home stream, if it is to change.
    std::optional<device::Stream> next_home();
    device::Fences::Order order_after_home(device::Stream stream) { return fences_.order(home_, stream); }
    void move_home(device::Stream stream) { home_ = stream; }

    // ---- work that needs no memory of ours ----
    void launches_on(device::Stream stream) { fences_.uses(stream); }

    // ---- marks ----
    using Mark = std::uint64_t;
    /// The last mark. Memory freed now is free for good when a later mark has passed.
    Mark last() const { return marks_; }
    /// Marks the work given to the streams so far. Nothing: one of them captures a graph, and its earlier work cannot be
    /// waited for.
    std::optional<Mark> mark() {
        ++marks_;
        return !asynchronous() || fence() ? std::optional(marks_) : std::nullopt;
    }
    bool passed() { return fences_.passed(); }
    /// Waits for the last mark. Needs no lock; the caller must hold no lock that an allocation takes.
    void drain() { fences_.drain(); }
    /// Waits for all work that this process has given the device. False: that cannot be known.
    bool drain_everything() { return fences_.drain_everything(); }

    // ---- late blocks: freed, but perhaps still used by other streams ----
    /// True if the block has to wait; then it is kept here.
    bool keep_if_late(const Block& block);
    struct Late {
        Block block;
        Mark freed_after;
    };
    /// The blocks that were freed before this mark, which has passed. They are free for good.
    std::vector<Late> take_late(Mark passed);
    bool any_late() const { return !late_.empty(); }
    std::uint64_t late_bytes() const { return late_bytes_; }
    /// Lets the next fence mark all streams that use the block. A use is reported once, but lasts until the block is freed.
    void note_uses(const Block& block);

    void turn_begins() { fences_.turn_begins(home_); }
    /// For tests: breaks the rules of Note [Streams].
    void reuse_at_once() { reuse_at_once_ = true; }

private:
    bool fence();

    device::Fences& fences_;
    const device::Traits& traits_;
    device::Stream home_ = 0;
    bool has_home_ = false;
    bool used_home_ = false;                 ///< in this iteration
    std::optional<device::Stream> refused_;  ///< a stream that was refused in this iteration
    std::vector<Late> late_;
    std::uint64_t late_bytes_ = 0;
    Mark marks_ = 0;
    bool reuse_at_once_ = false;
};

}  // namespace salus::client
