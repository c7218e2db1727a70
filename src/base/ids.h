// Names for devices, clients, jobs, lanes and users that cannot be mixed up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace salus {

/// The devices of a service, numbered from 0.
enum class DeviceId : std::uint32_t {};
/// Assigned by the shell of a device; small, and reused once the client has left or died.
enum class ClientId : std::uint32_t {};
/// Assigned by the service in order of arrival; kept when the service restarts.
enum class JobId : std::uint32_t {};
/// Assigned by the engine; never reused.
enum class LaneId : std::uint32_t {};
/// The operating system's user id.
enum class UserId : std::uint32_t {};

inline constexpr ClientId kNoClient{0xffffffffu};
inline constexpr JobId kNoJob{0};
inline constexpr LaneId kNoLane{0xffffffffu};
inline constexpr UserId kRoot{0};
inline constexpr UserId kNoUser{0xffffffffu};  ///< the kernel does not use it either

/// Identifies a client within a service: each device numbers its own clients.
struct ClientHandle {
    DeviceId device{};
    ClientId client = kNoClient;

    bool operator==(const ClientHandle&) const = default;
};

constexpr std::size_t index_of(DeviceId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index_of(ClientId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index_of(LaneId id) { return static_cast<std::size_t>(id); }

}  // namespace salus
