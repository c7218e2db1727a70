// What a service makes sure of before it starts: that its files are its own, that it is the only one, and that it has a
// device.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// What an earlier service wrote is read back: roster, history, trace. Nothing: it can be.
std::optional<std::string> why_distrusted_in(const std::string& directory);

/// Where a device keeps its files: the state directory for the first, a directory in it for each of the others.
std::string directory_of(const Options& options, DeviceId device);
/// Makes those that are missing.
Result<bool> make_directories(const Options& options, std::size_t devices);

/// The lock of the socket, to be held while the service runs.
Result<os::Descriptor> lock_socket(const std::string& socket);
/// The same for the state directory: trace, roster and history have one writer. The lock holds the path of its socket.
Result<os::Descriptor> lock_state(const Options& options);

}  // namespace salus::service
