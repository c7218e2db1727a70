// What the device was given to do and may not have done, and the freed blocks that have to wait for that.
//
// Not thread-safe; only drain() and drain_everything() may be called at any time, and wait.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/block.h"
#include "device/device.h"

namespace salus::client {

// Note [Streams]
// A device runs what one stream is given in order, and several streams at once. So memory that is free by our books may
// still be in use by work in flight. Memory is therefore managed for one stream, the home stream: what is freed and taken
// again there is used again only after. Other streams are turned away, to the framework's own allocator. A block that work
// on another stream uses, too, or that was taken when another stream was at home, is used again only when a fence shows that
// all work of its last iteration has ended. An iteration that needs nothing at home, but was turned away elsewhere, moves
// the home there, at its boundary. Whatever takes memory out of the address space needs the device to have drained; and if
// the memory is alive, on all streams.
//
// Nobody waits with a lock held, so blocks are freed while somebody waits. Marks are therefore numbered: what was freed
// before mark n is free for good when mark n has passed, or any later one.
class WorkInFlight {
public:
    WorkInFlight(device::Fences& fences, const device::Traits& traits) : fences_(fences), traits_(traits) {}

    bool asynchronous() const { return traits_.asynchronous; }

    // ---- the home stream ----
    device::Stream home() const { return home_; }
    bool has_home() const { return has_home_; }
    /// Whether memory for work on this stream is ours to give. The first stream that asks is at home.
    bool serves(device::Stream stream, bool inside);
    /// Work on this stream uses the block as well.
    void used_on(Block& block, device::Stream stream);
    /// What the home stream is given from now on comes after what this one was given so far. False: it cannot be done, and
    /// the caller has to drain everything.
    bool order_before_home(device::Stream stream);
    /// At a boundary: the stream that should be at home from now on, if another.
    std::optional<device::Stream> next_home();
    device::Fences::Order order_after_home(device::Stream stream) { return fences_.order(home_, stream); }
    void move_home(device::Stream stream) { home_ = stream; }

    // ---- work that needs no memory of ours ----
    void launches_on(device::Stream stream) { fences_.uses(stream); }

    // ---- marks ----
    using Mark = std::uint64_t;
    /// The last one. What is freed now is free for good when a later one has passed.
    Mark last() const { return marks_; }
    /// Marks what the streams were given so far. Nothing: one of them captures a graph, and what it did before cannot be
    /// waited for.
    std::optional<Mark> mark() {
        ++marks_;
        return !asynchronous() || fence() ? std::optional(marks_) : std::nullopt;
    }
    bool passed() { return fences_.passed(); }
    /// Waits for the last mark. Needs no lock, and must be called without those that an allocation takes.
    void drain() { fences_.drain(); }
    /// ... for all that the device was given by this process. False: it cannot be known.
    bool drain_everything() { return fences_.drain_everything(); }

    // ---- late blocks: freed, but perhaps in use by other streams ----
    /// Whether the block has to wait; then it is kept here.
    bool keep_if_late(const Block& block);
    struct Late {
        Block block;
        Mark freed_after;
    };
    /// Those that were freed before this mark, which has passed. They are free for good.
    std::vector<Late> take_late(Mark passed);
    bool any_late() const { return !late_.empty(); }
    std::uint64_t late_bytes() const { return late_bytes_; }
    /// We are told once that a stream uses a block, and it may do so until the block is freed.
    void note_uses(const Block& block);

    void turn_begins() { fences_.turn_begins(home_); }
    /// For tests: what Note [Streams] forbids is done.
    void reuse_at_once() { reuse_at_once_ = true; }

private:
    bool fence();

    device::Fences& fences_;
    const device::Traits& traits_;
    device::Stream home_ = 0;
    bool has_home_ = false;
    bool used_home_ = false;                 ///< in this iteration
    std::optional<device::Stream> refused_;  ///< a stream that was turned away in this iteration
    std::vector<Late> late_;
    std::uint64_t late_bytes_ = 0;
    Mark marks_ = 0;
    bool reuse_at_once_ = false;
};

}  // namespace salus::client
