// What a service makes sure of before it starts: that its files are its own, that it is the only one, and that it has a
// device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// What an earlier service wrote is read back: roster, history, trace. Nothing: it can be.
std::optional<std::string> why_distrusted_in(const std::string& directory);

/// The lock of the socket, to be held while the service runs.
Result<os::Descriptor> lock_socket(const std::string& socket);
/// The same for the state directory: trace, roster and history have one writer. The lock holds the path of its socket.
Result<os::Descriptor> lock_state(const Options& options);

}  // namespace salus::service
