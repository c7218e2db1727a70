// What the stand-in's libcuda.so.1 has beyond the part of the driver that Salus uses.
#pragma once

#include <cstdint>

#include "device/cuda/driver.h"

namespace salus::device::cuda {

using Module = void*;         ///< CUmodule
using Kernel = void*;         ///< CUfunction
using Graph = void*;          ///< CUgraph
using RunnableGraph = void*;  ///< CUgraphExec

struct LaunchConfiguration {  ///< CUlaunchConfig
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
    unsigned shared_bytes;
    Stream stream;
    void* attributes;
    unsigned attribute_count;
};

}  // namespace salus::device::cuda

/// Functions of its own, for tests.
/// work: our kernel, which takes that long and then fills the range with a byte.
/// hold: a stream stands still until it is let go. set_capturing: what is told of a stream.
/// The last two never wait for the driver's lock, so that a test can let go a stream whose queue is full.
#define SALUS_STANDIN_FUNCTIONS(X)                                                                  \
    X(work, "salus_standin_work",                                                                   \
      (Stream stream, Address start, std::size_t size, unsigned char value, unsigned microseconds)) \
    X(hold, "salus_standin_hold", (Stream stream, int held))                                        \
    X(set_capturing, "salus_standin_set_capturing", (Stream stream, int capturing))

/// The driver's, those that Salus itself does not call.
#define SALUS_STANDIN_DRIVER_FUNCTIONS(X) \
    X(launch_host_function, "cuLaunchHostFunc", (Stream stream, void (*function)(void*), void* data))
