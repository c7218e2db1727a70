#include "device/visible_gpus.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/visible_devices.h"
#include "device/cuda/nvml.h"

namespace salus::device {
namespace {

constexpr std::size_t kMost = 447;

/// UUIDs mean the same everywhere, so that nobody needs to ask the driver.
bool has_numbers(const std::string& visible) {
    return std::ranges::any_of(visible, [at_start = true](unsigned char c) mutable {
        const bool is_number = at_start && c >= '0' && c <= '9';
        at_start = c == ',' || (at_start && (c == ' ' || c == '\t'));
        return is_number;
    });
}

}  // namespace

std::string gpus_by_uuid(const std::string& visible) {
    std::string text;
    if (has_numbers(visible)) {
        const std::vector<DeviceNames> all = cuda::Nvml::all();
        for (const std::size_t device : devices_in(visible, all)) {
            const std::string more = (text.empty() ? "" : ",") + all[device].uuid;
            if (text.size() + more.size() <= kMost) text += more;
        }
    }
    if (text.empty()) text = visible.substr(0, kMost);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return text;
}

bool is_read_by_cuda_alike(const std::string& visible) {
    const char* const order = std::getenv("CUDA_DEVICE_ORDER");
    return !has_numbers(visible) || (order && std::string_view(order) == "PCI_BUS_ID") || cuda::Nvml::are_of_one_model();
}

}  // namespace salus::device
