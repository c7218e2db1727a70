// A block of memory that the client manages.
#pragma once

#include <cstdint>
#include <vector>

#include "client/predictor.h"
#include "device/device.h"

namespace salus::client {

/// The window that a block lies in.
enum class Place : std::uint8_t { kLane, kPrivate };

/// The allocation that made the block. The ticket is valid in the iteration of the allocation only.
struct Birth {
    bool has_ticket = false;
    Predictor::Ticket ticket = 0;
    std::uint64_t iteration = 0;
};

struct Block {
    device::Range range;  ///< in its window; the size is rounded as by the arena
    Place place{};
    device::Stream stream = 0;             ///< the home stream when it was allocated
    std::vector<device::Stream> others{};  ///< other streams that use it
    Birth birth{};
};

}  // namespace salus::client
