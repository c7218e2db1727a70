// What the service tells of a client.
#pragma once

#include "base/time.h"
#include "shell/shell.h"
#include "status/status.h"

namespace salus::service {

/// Without its log, of which only its job knows.
JobStatus job_status(const shell::Shell& shell, const shell::Session& session, Instant at);

}  // namespace salus::service
