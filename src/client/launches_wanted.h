// Whether anybody in this library wants to hear of launches. While nobody does, the shim passes them to the driver at once.
#pragma once

#include <atomic>
#include <cstdint>

namespace salus::client {

/// One bit for turns, and a count of clients that put gates into streams or mark requests. 0: nobody.
inline constexpr std::uint32_t kWantedForTurns = 1, kWantedForGates = 2;
inline constinit std::atomic<std::uint32_t> launches_wanted{kWantedForTurns};

}  // namespace salus::client
