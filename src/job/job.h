// Runs the job.
#pragma once

#include "base/time.h"
#include "job/options.h"
#include "job/report.h"

namespace salus::job {

/// From attaching to detaching. An error ends the process with one line.
Run run_job(const Options& options, Instant process_start);

}  // namespace salus::job
