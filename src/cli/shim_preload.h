// The shim, a library that the loader puts before all others in every process of a job (src/shim).
#pragma once

#include <string>

#include "base/result.h"

namespace salus::cli {

/// The value of LD_PRELOAD for a job: what is there already, then the shim. Tried on a trivial program first: a library that
/// cannot be preloaded would stop, or spoil the output of, every process of the job. The error is one line.
Result<std::string> preload_with_shim();

}  // namespace salus::cli
