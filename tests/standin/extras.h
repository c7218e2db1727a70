// What the stand-in's libcuda.so.1 has beyond the real one, for tests.
#pragma once

#include "device/cuda/driver.h"

/// work: our kernel, which takes that long and then fills the range with a byte.
/// hold: a stream stands still until it is let go. set_capturing: what is told of a stream.
/// launch_host_function: the driver's own, which Salus itself does not call.
#define SALUS_STANDIN_FUNCTIONS(X)                                                                  \
    X(work, "salus_standin_work",                                                                   \
      (Stream stream, Address start, std::size_t size, unsigned char value, unsigned microseconds)) \
    X(hold, "salus_standin_hold", (Stream stream, int held))                                        \
    X(set_capturing, "salus_standin_set_capturing", (Stream stream, int capturing))                 \
    X(launch_host_function, "cuLaunchHostFunc", (Stream stream, void (*function)(void*), void* data))
