// Lanes in host memory: a memfd each.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace salus::device {

std::unique_ptr<LaneMemory> make_host_lane_memory();
/// So many devices, called "host-0" and so on, which divide the memory. For tests, and to try several devices out.
std::vector<std::unique_ptr<LaneMemory>> make_host_lane_memories(unsigned count);

}  // namespace salus::device
