// A client's side of a GPU: two windows of its address space, what the driver maps there, and events for work in flight.
// Moving a GPU's memory out is not there yet: it has no pager. CUDA does not survive fork(): a child has neither the memory
// nor the driver.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "device/cuda/gpu.h"
#include "device/device.h"

namespace salus::device {

inline constexpr Traits kCudaTraits{.name = "cuda", .asynchronous = true, .has_contexts = true, .lane_unit = cuda::kPiece};

/// Windows for the GPU with this UUID, of which jobs may use so much. Makes the process's (primary) context on it, unless
/// there is one. The error is one line.
Result<std::unique_ptr<ClientDevice>> make_cuda_client_device(Bytes capacity, const std::string& uuid);

}  // namespace salus::device
