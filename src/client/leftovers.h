// Freed private ranges whose pages are kept.
//
// A training loop frees its gradients and allocates the same memory again a moment later. Returning the pages each time
// would cost a page fault for every 4 KiB. So they are kept for a few iterations, and given back if nobody has used them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "device/device.h"

namespace salus::client {

class Leftovers {
public:
    /// `give_back` returns a range's pages.
    explicit Leftovers(std::function<void(device::Range)> give_back) : give_back_(std::move(give_back)) {}

    /// When a range was freed: in which iteration, and after which mark; see Note [Streams].
    struct Age {
        std::uint64_t iteration = 0;
        std::uint64_t mark = 0;
    };
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};

    void add(device::Range range, Age age);
    /// A range is used again. Removes the parts of it that are kept here, and returns the parts that are not.
    std::vector<device::Range> take(device::Range range);
    bool any_before(std::uint64_t iteration) const;
    /// Gives back the ranges that were freed before this iteration and before this mark, which has passed.
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
