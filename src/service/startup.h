// The checks before a service starts: its files are its own, and it is the only service.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "device/device.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// Why the files of an earlier service (roster, history, trace) must not be read; nothing if they may.
std::optional<std::string> why_distrusted_in(const std::string& directory);

/// The directory for a device's files: the state directory for the first device, a directory in it for each other.
std::string directory_of(const Options& options, DeviceId device);
/// Makes the missing directories of devices.
Result<bool> make_directories(const Options& options, std::size_t devices);

/// What is wrong with a capacity that this device does not have, in one line; else empty.
std::string why_too_much(Bytes capacity, Bytes total, const device::Traits& device);

/// A killed service may hold its lock for a moment after its connections have closed. A live one listens, or will once its
/// device has started.
inline constexpr Duration kLockPatience = seconds(10);
/// Takes the socket's lock, which must be held while the service listens there.
Result<os::Descriptor> lock_socket(const std::string& socket, Duration patience = kLockPatience);
/// The same for the state directory: trace, roster and history must have one writer. It is taken first: a service that has
/// no socket just now holds only this one.
Result<os::Descriptor> lock_state(const Options& options);
/// Clients that find nobody at the usual place look into the lock of the state directory (os/places.h).
Result<bool> name_socket_in(int state_lock, const std::string& socket);

}  // namespace salus::service
