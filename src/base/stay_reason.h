// Why a client's memory stays on the device.
#pragma once

#include <cstdint>
#include <string_view>

namespace salus {

/// The numbers are part of the protocol.
enum class StayReason : std::uint16_t {
    kUnknown = 0,    ///< or it does not stay
    kOff = 1,        ///< the service does not page this device
    kThreads = 2,    ///< several threads use the memory
    kOwnMemory = 3,  ///< the program has it from the driver itself
    kNoPlace = 4,    ///< the host has no place for it
    kBusy = 5,       ///< its work on the device does not end
};
inline constexpr std::uint16_t kStayReasons = 6;

/// For people; empty where there is nothing to say.
constexpr std::string_view text_of(StayReason reason) {
    switch (reason) {
        case StayReason::kOff: return "paging of this device is off";
        case StayReason::kThreads: return "several threads use its memory";
        case StayReason::kOwnMemory: return "its memory comes from the driver";
        case StayReason::kNoPlace: return "the host has no place for it";
        case StayReason::kBusy: return "its work on the device does not end";
        case StayReason::kUnknown: break;
    }
    return "";
}

}  // namespace salus
