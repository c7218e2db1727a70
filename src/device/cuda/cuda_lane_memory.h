// Lanes in a GPU's memory. The service has no context there: it creates memory and passes it to clients.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/cuda/gpu.h"
#include "device/device.h"

namespace salus::device {

std::unique_ptr<LaneMemory> make_cuda_lane_memory(const cuda::Gpu& gpu);

}  // namespace salus::device
