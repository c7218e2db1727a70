// Freed private ranges whose pages are still there.
//
// A training loop frees its gradients and takes the same memory again a moment later: to hand the pages back each time would
// cost a page fault for every 4 KiB of them. So they are kept for a few iterations, and given back if nobody came.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "device/device.h"

namespace salus::client {

class Leftovers {
public:
    /// `give_back` lets go of a range's pages.
    explicit Leftovers(std::function<void(device::Range)> give_back) : give_back_(std::move(give_back)) {}

    /// When a range was freed: in this iteration, and after this mark; see Note [Streams].
    struct Age {
        std::uint64_t iteration = 0;
        std::uint64_t mark = 0;
    };
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};

    void add(device::Range range, Age age);
    /// A range is used again: what of it is here is here no more. Returns the parts that were not.
    std::vector<device::Range> take(device::Range range);
    bool any_before(std::uint64_t iteration) const;
    /// Gives back what was freed before this iteration and before this mark, which has passed.
    void give_back_before(std::uint64_t iteration, std::uint64_t mark);

    std::uint64_t bytes() const { return bytes_; }

private:
    struct Freed {
        std::uint64_t size;
        Age age;
    };
    std::map<std::uint64_t, Freed> ranges_;  ///< by offset; they do not overlap
    std::uint64_t bytes_ = 0;
    std::function<void(device::Range)> give_back_;
};

}  // namespace salus::client
