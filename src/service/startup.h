// The checks before a service starts: its files are its own, and it is the only service.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// Why the files of an earlier service (roster, history, trace) must not be read; nothing if they may.
std::optional<std::string> why_distrusted_in(const std::string& directory);

/// The directory for a device's files: the state directory for the first device, a directory in it for each other.
std::string directory_of(const Options& options, DeviceId device);
/// Makes the missing directories of devices.
Result<bool> make_directories(const Options& options, std::size_t devices);

/// Takes the socket's lock, which must be held while the service runs.
Result<os::Descriptor> lock_socket(const std::string& socket);
/// The same for the state directory: trace, roster and history must have one writer. The lock file holds the path of the
/// socket.
Result<os::Descriptor> lock_state(const Options& options);

}  // namespace salus::service
