// How the command line reaches the service, and starts one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "wire/socket.h"

namespace salus::cli {

/// One command and its answer: JSON, or an error of one line.
Result<std::string> ask_service(const std::string& socket, const std::string& command);

/// The directory of this program: the others are beside it.
std::string own_directory();

/// Of jobs in the background: NUMBER-NAME.log.
inline std::string log_directory() { return wire::default_state_directory() + "/logs"; }

/// Starts a service in the background and waits until it listens. `options` are salusd's own.
Result<bool> start_service(const std::string& socket, const std::vector<std::string>& options);

/// A connection, to a service that is started if none runs.
Result<wire::Descriptor> connect_or_start(const std::string& socket);

}  // namespace salus::cli
