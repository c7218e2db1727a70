// A block of memory that the client manages.
#pragma once

#include <cstdint>
#include <vector>

#include "client/predictor.h"
#include "device/device.h"

namespace salus::client {

/// The window that a block lies in.
enum class Place : std::uint8_t { kLane, kPrivate };

/// What is known of the allocation that made the block, in the iteration in which it was born.
struct Birth {
    bool has_ticket = false;
    Predictor::Ticket ticket = 0;
    std::uint64_t iteration = 0;
};

struct Block {
    device::Range range;  ///< in its window; the size is as the arena counts
    Place place{};
    device::Stream stream = 0;             ///< was at home when it was allocated
    std::vector<device::Stream> others{};  ///< that use it, too
    Birth birth{};
};

}  // namespace salus::client
