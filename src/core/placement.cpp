#include "core/placement.h"

#include <algorithm>

#include "base/check.h"

namespace salus {

DeviceId choose_device(std::span<const DeviceFacts> devices) {
    SALUS_CHECK(!devices.empty(), "a service has a device");
    const auto better = [](const DeviceFacts& a, const DeviceFacts& b) {
        if (a.jobs != b.jobs) return a.jobs < b.jobs;
        return a.capacity - a.reserved > b.capacity - b.reserved;
    };
    return std::min_element(devices.begin(), devices.end(), better)->id;
}

}  // namespace salus
