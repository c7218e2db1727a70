// The books of the private window and of the memory behind it, and the total private memory in use.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/arena.h"
#include "client/leftovers.h"
#include "device/device.h"

namespace salus::client {

class PrivateHeap {
public:
    explicit PrivateHeap(device::PrivateWindow& window);

    std::optional<std::uint64_t> place(std::uint64_t size) { return arena_.allocate(size); }
    /// Undoes place().
    void unplace(device::Range range) { arena_.free(range.offset); }

    /// Memory behind a placed range: leftovers of earlier ranges, and new memory.
    struct Backing {
        device::Range range;
        std::vector<device::Range> missing;
        std::size_t done = 0;  ///< how many of the missing ranges are backed

        bool complete() const { return done == missing.size(); }
    };
    Backing start_backing(device::Range range) { return {range, leftovers_.take(range)}; }
    /// Backs missing ranges while there is memory. True if the backing is complete.
    bool go_on(Backing& backing);
    /// The backing cannot be completed: keeps the parts that are backed for later.
    void break_off(const Backing& backing, Leftovers::Age age);

    /// A range is free. `keep` its memory: the next iteration often wants the same range again.
    void free(device::Range range, bool keep, Leftovers::Age age);
    Leftovers& leftovers() { return leftovers_; }

    /// Bytes in use: managed, evacuated and small blocks.
    std::uint64_t in_use() const { return in_use_; }
    void count(std::int64_t change);
    /// The most that was in use since reset_peak().
    std::uint64_t peak() const { return peak_; }
    void reset_peak() { peak_ = in_use_; }
    /// How much freed memory may be kept for later, and how much may be late, before the caller has to act.
    std::uint64_t may_be_kept() const;
    /// Offset and size of each range in use.
    const std::map<std::uint64_t, std::uint64_t>& used() const { return arena_.used(); }

private:
    device::PrivateWindow& window_;
    Arena arena_;
    Leftovers leftovers_;
    std::uint64_t in_use_ = 0;
    std::uint64_t peak_ = 0;
};

}  // namespace salus::client
