// How long jobs wait for a service that is away. Clients and `salus run` wait equally long.
#pragma once

#include "base/time.h"

namespace salus::os {

/// A job that has lost its service: $SALUS_ORPHAN_WAIT in seconds, else 60 s. Afterwards it continues without sharing.
Duration orphan_wait();
/// A job, or a process of one, that begins: 20 s, as a service takes seconds to start on a GPU, but no longer than that.
Duration start_wait();

}  // namespace salus::os
