// A client's side of a GPU: two windows of its address space, the memory that the driver maps there, and events for work in
// flight. The memory can be paged out
// (cuda_pager.cpp). CUDA does not survive fork(): a child has neither the
// memory nor the driver.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "device/cuda/gpu.h"
#include "device/device.h"

namespace salus::device {

inline constexpr Traits kCudaTraits{.name = "cuda",
                                    .asynchronous = true,
                                    .has_contexts = true,
                                    .has_gates = true,
                                    .lane_pieces = cuda::kLanePieces,
                                    .private_pieces = cuda::kPrivatePieces};

/// Windows for the GPU with this UUID and this capacity. Creates the process's (primary) context on it, unless there is one.
/// The error is one line.
Result<std::unique_ptr<ClientDevice>> make_cuda_client_device(Bytes capacity, const std::string& uuid,
                                                              GatePage* gates = nullptr, const Paging& paging = {});

/// Fences in the calling thread's current context, whichever that is, and windows of no size. REQUIRES: there is a context.
Result<std::unique_ptr<ClientDevice>> make_cuda_device_without_memory(GatePage* gates);

}  // namespace salus::device
