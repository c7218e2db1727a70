// A client's row of the status, and its part of what its job has done.
#pragma once

#include "base/time.h"
#include "shell/shell.h"
#include "status/status.h"

namespace salus::service {

/// Without the path of the log, which only the job has.
JobStatus job_status(const shell::Shell& shell, const shell::Session& session, Instant at);

/// What the client has done since it attached.
JobTotals job_totals(const shell::Shell& shell, const shell::Session& session, Instant at);

}  // namespace salus::service
