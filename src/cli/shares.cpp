#include "cli/shares.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/service_link.h"

namespace salus::cli {

Shares shares_of_service(const std::string& lane) {
    const Result<Status> status = ask_status();
    if (!status) throw Failure{status.error()};
    Shares shares;
    shares.on_gpu = status.value().service.device == "cuda";
    for (const DeviceStatus& device : devices_of(status.value().service))
        shares.devices.push_back({device.number, device.capacity});
    shares.capacity = std::ranges::min(shares.devices, {}, &Shares::Device::capacity).capacity;
    const auto wanted = lane.empty() ? std::optional(Bytes{shares.capacity.count / 4}) : parse_bytes(lane);
    if (!wanted || *wanted < kShard || *wanted > shares.capacity - kShard)
        throw UsageError{
            fmt::format("--lane must be from 1MiB to {}; got '{}'", format_bytes(shares.capacity - kShard), lane)};
    shares.lane = *wanted;
    return shares;
}

void add_lane_option(CLI::App& command, std::string& lane) {
    command.add_option("--lane", lane, "Memory set aside for what jobs need only inside an iteration (default: a quarter)")
        ->type_name("SIZE");
}

}  // namespace salus::cli
