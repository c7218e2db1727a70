// Which of several devices a job goes to. Pure: facts in, a device out.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"

namespace salus {

/// The facts about a device that matter for placing a job.
struct DeviceFacts {
    DeviceId id{};
    Bytes capacity;
    Bytes reserved;
    std::size_t jobs = 0;
};

/// The device with the fewest jobs; of those the one with the most free memory; of those the first.
/// REQUIRES: there is one.
DeviceId choose_device(std::span<const DeviceFacts> devices);

}  // namespace salus
