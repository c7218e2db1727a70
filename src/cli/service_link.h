// How the command line reaches the service, and starts one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/descriptor.h"
#include "os/places.h"
#include "status/status.h"
#include "wire/framing.h"

namespace salus::cli {

/// As os::find_service(). Waits for a service that runs and is about to listen: after a logout it moves.
os::Service find_service_on_its_way();

/// One command to the service (os/places.h) and its answer: JSON, or an error of one line.
Result<std::string> ask_service(const wire::Command& command);
/// ... to the service at this socket.
Result<std::string> ask_service(const std::string& socket, const wire::Command& command);

/// The trace of the service as the caller may see it, for those who cannot read its file. `last_bytes`: only its last lines;
/// 0: all. `device`: its place in the status.
Result<std::string> copy_trace(std::uint64_t last_bytes = 0, std::uint32_t device = 0);

/// Reads an answer of the service from a connection. Nothing if the service is gone.
std::optional<Result<std::string>> read_answer(int connection);

Result<Status> ask_status();
Result<Status> ask_status(const std::string& socket);

/// The directory of this program: the others are beside it.
std::string own_directory();

struct StartFailure {
    std::string why;
    bool options_refused = false;  ///< the options given by the user are wrong
};
/// Starts a service in the background and waits until it listens. Nothing on success. `options` are salusd's own;
/// without any, it takes over those of the last service.
std::optional<StartFailure> start_service(const std::string& socket, const std::vector<std::string>& options);

}  // namespace salus::cli
