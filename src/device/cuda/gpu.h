// The GPU that a service or a client works with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/driver.h"
#include "device/pieces.h"

namespace salus::device::cuda {

inline constexpr std::uint64_t kPieceMin = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kPieceMax = std::uint64_t{64} << 20;
/// See Note [Sizes of pieces]. Evacuation and its reversal work on whole pieces.
inline constexpr Pieces kLanePieces{kPieceMin, kPieceMax, 4};
/// Private memory has smaller pieces: they are not passed to other processes, and it has gaps anywhere, not only at its end.
inline constexpr Pieces kPrivatePieces{kPieceMin, 2 * kPieceMin, 64};

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

/// All that CUDA_VISIBLE_DEVICES allows, in CUDA's order. Those whose memory cannot be shared are left out, and `tell` is
/// called with one line about each. The error is one line: none is left.
Result<std::vector<Gpu>> open_gpus(const std::function<void(const std::string&)>& tell);

/// The UUID of the GPU whose context is the calling thread's current one, or else of the first that this process sees.
/// Empty: no driver is loaded, or nobody has initialised it yet.
std::string uuid_of_current();

}  // namespace salus::device::cuda
