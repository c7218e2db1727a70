#include "core/placement.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace salus {
namespace {

struct ReasonTexts {
    PlacementReason reason;
    std::string_view name, text;
};
constexpr std::array kReasonTexts = {
    ReasonTexts{PlacementReason::kOnly, "only", "the service has no other device"},
    ReasonTexts{PlacementReason::kSaid, "said", "--gpu names it"},
    ReasonTexts{PlacementReason::kAssigned, "assigned", "CUDA_VISIBLE_DEVICES of the job names it"},
    ReasonTexts{PlacementReason::kStayed, "stayed", "it was there under the last service"},
    ReasonTexts{PlacementReason::kFirst, "first", "it is the first GPU that the process sees"},
    ReasonTexts{PlacementReason::kEmpty, "empty", "no job was there"},
    ReasonTexts{PlacementReason::kLoad, "load", "the fewest jobs were there"},
    ReasonTexts{PlacementReason::kApart, "apart", "the fewest interactive jobs were there"},
    ReasonTexts{PlacementReason::kPacked, "packed", "the least memory was left there that suffices"},
    ReasonTexts{PlacementReason::kRoom, "room", "only there was enough memory free"},
    ReasonTexts{PlacementReason::kQueue, "queue", "nowhere was enough memory free, and there the fewest jobs waited"},
};

std::size_t jobs_on(const DeviceFacts& device) { return device.batch + device.interactive; }
Bytes free_on(const DeviceFacts& device) { return device.capacity - device.taken; }

/// A job that is alone gets all there is: it could not get more elsewhere, unless another device is larger.
bool has_room(const DeviceFacts& device, const NewcomerFacts& job) {
    if (jobs_on(device) == 0 && device.taken == Bytes{}) return true;
    const Bytes in_lane = std::max(job.ephemeral - device.largest_lane, Bytes{});
    return job.context + job.persistent + in_lane <= free_on(device);
}

/// Could ever have room. A job that fits nowhere is refused wherever it goes.
bool is_large_enough(const DeviceFacts& device, const NewcomerFacts& job) {
    return job.context + job.persistent + job.ephemeral <= device.capacity;
}

using Devices = std::vector<const DeviceFacts*>;

template <typename Rank>
const DeviceFacts& least(const Devices& devices, const Rank& rank) {
    return **std::ranges::min_element(devices, {}, [&](const DeviceFacts* device) { return rank(*device); });
}

/// REQUIRES: all have room.
DeviceChoice choose(const Devices& devices, const NewcomerFacts& job, Packing packing) {
    const auto with_reason = [](const DeviceFacts& chosen, PlacementReason otherwise) {
        return DeviceChoice{chosen.id, jobs_on(chosen) == 0 ? PlacementReason::kEmpty : otherwise};
    };
    if (job.interactive) {
        return with_reason(
            least(devices, [](const auto& d) { return std::tuple(d.interactive, d.batch, -free_on(d).count); }),
            PlacementReason::kApart);
    }
    if (packing == Packing::kSpread) {
        return with_reason(least(devices, [](const auto& d) { return std::tuple(jobs_on(d), -free_on(d).count); }),
                           PlacementReason::kLoad);
    }
    // An interactive job that got a device for itself keeps it as long as there is another.
    return with_reason(least(devices, [](const auto& d) { return std::tuple(d.interactive, free_on(d).count); }),
                       PlacementReason::kPacked);
}

}  // namespace

std::string_view name_of(PlacementReason reason) {
    const auto found = std::ranges::find(kReasonTexts, reason, &ReasonTexts::reason);
    return found == kReasonTexts.end() ? "" : found->name;
}

PlacementReason placement_reason_from(std::string_view name) {
    const auto found = std::ranges::find(kReasonTexts, name, &ReasonTexts::name);
    return found == kReasonTexts.end() ? PlacementReason::kNone : found->reason;
}

std::string_view text_of(PlacementReason reason) {
    const auto found = std::ranges::find(kReasonTexts, reason, &ReasonTexts::reason);
    return found == kReasonTexts.end() ? "" : found->text;
}

std::optional<DeviceChoice> choose_device(std::span<const DeviceFacts> devices, const NewcomerFacts& job, Packing packing) {
    Devices open;
    for (const DeviceFacts& device : devices) {
        const bool allowed = job.allowed.empty() || std::ranges::find(job.allowed, device.id) != job.allowed.end();
        if (allowed && !device.is_closed) open.push_back(&device);
    }
    if (open.empty()) return std::nullopt;
    if (devices.size() == 1) return DeviceChoice{devices.front().id, PlacementReason::kOnly};
    Devices large_enough = open, with_room;
    std::erase_if(large_enough, [&](const DeviceFacts* device) { return !is_large_enough(*device, job); });
    if (large_enough.empty())
        return DeviceChoice{least(open, [](const auto& d) { return -d.capacity.count; }).id, PlacementReason::kQueue};
    for (const DeviceFacts* device : large_enough) {
        if (has_room(*device, job)) with_room.push_back(device);
    }
    if (with_room.size() == 1 && large_enough.size() > 1) return DeviceChoice{with_room.front()->id, PlacementReason::kRoom};
    if (!with_room.empty()) return choose(with_room, job, packing);
    const DeviceFacts& chosen =
        least(large_enough, [](const auto& d) { return std::tuple(d.waiting, jobs_on(d), -free_on(d).count); });
    return DeviceChoice{chosen.id, PlacementReason::kQueue};
}

}  // namespace salus
