// The GPU that a service or a client works with.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "device/cuda/driver.h"

namespace salus::device::cuda {

/// Lanes consist of pieces of this size, each one handle of the driver. Evacuation and its reversal work on whole pieces,
/// because a part of a handle cannot be mapped.
inline constexpr std::uint64_t kPiece = std::uint64_t{64} << 20;
/// Private memory has smaller pieces: they are not passed to other processes, and unused parts are waste.
inline constexpr std::uint64_t kPrivatePiece = std::uint64_t{4} << 20;

struct Gpu {
    const Driver* driver = nullptr;
    Ordinal ordinal = 0;
    std::string name;
    std::string uuid;
    Bytes memory;
};

/// Memory of that GPU which can be passed to other processes.
inline AllocationProperties memory_of(Ordinal ordinal) {
    AllocationProperties properties;
    properties.location.id = ordinal;
    return properties;
}

/// Initialises the driver and opens the GPU with this UUID, or the first that CUDA_VISIBLE_DEVICES allows. The error is one
/// line: there is no GPU, or its memory cannot be shared.
Result<Gpu> open_gpu(const std::string& uuid = {});

}  // namespace salus::device::cuda
