#include "os/spare_memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "os/file.h"

namespace salus::os {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t number = 0;
    const auto digits = text.find_first_of("0123456789");
    if (digits == std::string_view::npos) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), number);
    return error == std::errc{} ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> number_of_file(const std::string& path) {
    const Result<std::string> text = read_file(path);
    return text ? number_in(text.value()) : std::nullopt;
}

std::optional<std::uint64_t> available() {
    const Result<std::string> all = read_file("/proc/meminfo");
    if (!all) return std::nullopt;
    constexpr std::string_view kName = "MemAvailable:";
    const std::size_t at = all.value().find(kName);
    if (at == std::string::npos) return std::nullopt;
    const auto kib = number_in(std::string_view(all.value()).substr(at + kName.size()));
    return kib ? std::optional(*kib * 1024) : std::nullopt;
}

/// The paths of the process's groups in /sys/fs/cgroup, by the lines of /proc/self/cgroup.
std::string memory_group(std::string_view groups) {
    for (std::size_t at = 0; at < groups.size();) {
        const std::size_t end = std::min(groups.find('\n', at), groups.size());
        const std::string_view line = groups.substr(at, end - at);
        at = end + 1;
        if (line.substr(0, 3) == "0::") return "/sys/fs/cgroup" + std::string(line.substr(3));
        if (const std::size_t found = line.find(":memory:"); found != std::string_view::npos)
            return "/sys/fs/cgroup/memory" + std::string(line.substr(found + 8));
    }
    return {};
}

}  // namespace

std::uint64_t spare_memory() {
    const auto machine = available();
    if (!machine) return 0;
    std::uint64_t spare = *machine;
    const Result<std::string> groups = read_file("/proc/self/cgroup");
    std::string group = groups ? memory_group(groups.value()) : std::string();
    // Each group above has a limit of its own. In a container the path may be that of the host: then only the last exists.
    for (; group.size() >= std::string_view("/sys/fs/cgroup").size(); group = group.substr(0, group.rfind('/'))) {
        auto limit = number_of_file(group + "/memory.max");
        auto used = number_of_file(group + "/memory.current");
        if (!limit) limit = number_of_file(group + "/memory.limit_in_bytes");
        if (!used) used = number_of_file(group + "/memory.usage_in_bytes");
        if (limit && used) spare = std::min(spare, *limit - std::min(*limit, *used));
    }
    return spare;
}

}  // namespace salus::os
