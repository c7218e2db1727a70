#include "base/visible_devices.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace salus {
namespace {

std::string_view without_blanks(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

/// "GPU-" alone would be the beginning of every UUID.
bool may_begin_uuid(std::string_view text) {
    return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > 4;
}

std::optional<std::size_t> device_called(std::string_view entry, std::span<const DeviceNames> all) {
    const auto number = parse_integer(entry);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].uuid == entry && !entry.empty()) return i;
        const bool is_it = number ? *number == all[i].number : may_begin_uuid(entry) && all[i].uuid.starts_with(entry);
        if (is_it) found.push_back(i);
    }
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

}  // namespace

std::vector<std::size_t> devices_in(std::string_view list, std::span<const DeviceNames> all) {
    std::vector<std::size_t> found;
    for (const auto& entry : split(list, ',')) {
        const auto device = device_called(without_blanks(entry), all);
        if (!device) break;
        if (std::ranges::find(found, *device) != found.end()) return {};
        found.push_back(*device);
    }
    return found;
}

std::string first_unknown_in(std::string_view list, std::span<const DeviceNames> all) {
    for (const auto& entry : split(list, ',')) {
        if (!device_called(without_blanks(entry), all)) return std::string(without_blanks(entry));
    }
    return {};
}

}  // namespace salus
