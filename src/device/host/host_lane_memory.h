// Lanes in host memory: a memfd each.
#pragma once

#include <memory>

#include "device/device.h"

namespace salus::device {

std::unique_ptr<LaneMemory> make_host_lane_memory();

}  // namespace salus::device
