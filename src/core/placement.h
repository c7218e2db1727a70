// Which of several devices a job goes to. Pure: facts in, a device and the reason out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace salus {

/// Why a job is on its device.
enum class PlacementReason : std::uint8_t {
    kNone,      ///< it is on none yet, or the name is of another version
    kOnly,      ///< the service has no other
    kSaid,      ///< its user has named it: --gpu
    kAssigned,  ///< CUDA_VISIBLE_DEVICES of the job names it
    kStayed,    ///< it was there under the last service
    kFirst,     ///< nobody has placed the process, and so it uses the first GPU that it sees
    kEmpty,     ///< no job was there
    kLoad,      ///< the fewest jobs were there
    kApart,     ///< the fewest interactive jobs were there
    kPacked,    ///< the least memory was left there that suffices
    kRoom,      ///< only there was enough memory free
    kQueue,     ///< nowhere was enough memory free, and there the fewest jobs waited
};
/// "load"; empty for kNone.
std::string_view name_of(PlacementReason reason);
PlacementReason placement_reason_from(std::string_view name);
/// For people: "the fewest jobs were there".
std::string_view text_of(PlacementReason reason);

/// Where batch jobs go among the devices with enough free memory. Interactive jobs are always spread.
enum class Packing : std::uint8_t {
    kSpread,  ///< where the fewest jobs are
    kPack,    ///< where the least memory is left, so that other devices stay free
};

/// The facts about a device that matter for placing a job.
struct DeviceFacts {
    DeviceId id{};
    Bytes capacity;
    Bytes taken;                             ///< reserved, or set aside for jobs that start: no newcomer gets it
    Bytes largest_lane;                      ///< of the newcomer's user: T up to this size takes nothing more
    std::size_t batch = 0, interactive = 0;  ///< jobs that were placed there
    std::size_t waiting = 0;                 ///< of them, those that wait to start
    bool is_closed = false;                  ///< it takes no newcomers
};

/// What is known of the job that is to be placed.
struct NewcomerFacts {
    Bytes persistent;                        ///< P of an earlier run; 0: not known
    Bytes ephemeral;                         ///< T of an earlier run; 0: not known
    Bytes context;                           ///< memory that its process takes before it attaches
    bool interactive = false;                ///< by its user, or in an earlier run
    std::span<const DeviceId> allowed = {};  ///< empty: all
};

struct DeviceChoice {
    DeviceId device{};
    PlacementReason reason = PlacementReason::kNone;

    bool operator==(const DeviceChoice&) const = default;
};

/// Nothing if every device that the job may use is closed. Of equal devices, the first.
std::optional<DeviceChoice> choose_device(std::span<const DeviceFacts> devices, const NewcomerFacts& job, Packing packing);

}  // namespace salus
