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

/// The driver's, those that Salus itself does not call. A name ending in _per_thread is the flavour in which the null stream
/// is the calling thread's own.
#define SALUS_STANDIN_DRIVER_FUNCTIONS(X)                                                                                   \
    X(resolve_v1, "cuGetProcAddress", (const char* name, void** function, int version, std::uint64_t flags))                \
    X(resolve, "cuGetProcAddress_v2", (const char* name, void** function, int version, std::uint64_t flags, int* result))   \
    X(context_create_v1, "cuCtxCreate", (Context * context, unsigned flags, Ordinal device))                                \
    X(context_create, "cuCtxCreate_v2", (Context * context, unsigned flags, Ordinal device))                                \
    X(context_create_v3, "cuCtxCreate_v3",                                                                                  \
      (Context * context, void* affinities, int count, unsigned flags, Ordinal device))                                     \
    X(context_create_v4, "cuCtxCreate_v4", (Context * context, void* parameters, unsigned flags, Ordinal device))           \
    X(context_destroy, "cuCtxDestroy_v2", (Context context))                                                                \
    X(context_push, "cuCtxPushCurrent_v2", (Context context))                                                               \
    X(context_pop, "cuCtxPopCurrent_v2", (Context * context))                                                               \
    X(context_synchronize_v2, "cuCtxSynchronize_v2", (Context context))                                                     \
    X(primary_context_state, "cuDevicePrimaryCtxGetState", (Ordinal device, unsigned* flags, int* active))                  \
    X(primary_context_release, "cuDevicePrimaryCtxRelease_v2", (Ordinal device))                                            \
    X(module_load, "cuModuleLoadData", (Module * module, const void* image))                                                \
    X(module_function, "cuModuleGetFunction", (Kernel * kernel, Module module, const char* name))                           \
    X(module_unload, "cuModuleUnload", (Module module))                                                                     \
    X(allocate_v1, "cuMemAlloc", (unsigned* start, unsigned size))                                                          \
    X(allocate, "cuMemAlloc_v2", (Address * start, std::size_t size))                                                       \
    X(allocate_pitch, "cuMemAllocPitch_v2",                                                                                 \
      (Address * start, std::size_t * pitch, std::size_t width, std::size_t height, unsigned element_size))                 \
    X(allocate_managed, "cuMemAllocManaged", (Address * start, std::size_t size, unsigned flags))                           \
    X(free_memory, "cuMemFree_v2", (Address start))                                                                         \
    X(stream_create_with_priority, "cuStreamCreateWithPriority", (Stream * stream, unsigned flags, int priority))           \
    X(event_elapsed_v2, "cuEventElapsedTime_v2", (float* milliseconds, Event start, Event end))                             \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", (RunnableGraph * runnable, Graph graph, unsigned long long flags))  \
    X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                                       \
    X(runnable_destroy, "cuGraphExecDestroy", (RunnableGraph runnable))                                                     \
    SALUS_STANDIN_BOTH_FLAVOURS(                                                                                            \
        X, launch, "cuLaunchKernel", "_ptsz",                                                                               \
        (Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,              \
         unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))                          \
    SALUS_STANDIN_BOTH_FLAVOURS(X, launch_configured, "cuLaunchKernelEx", "_ptsz",                                          \
                                (const LaunchConfiguration* configuration, Kernel kernel, void** parameters, void** extra)) \
    SALUS_STANDIN_BOTH_FLAVOURS(                                                                                            \
        X, launch_cooperative, "cuLaunchCooperativeKernel", "_ptsz",                                                        \
        (Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,              \
         unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters))                                        \
    SALUS_STANDIN_BOTH_FLAVOURS(X, launch_graph, "cuGraphLaunch", "_ptsz", (RunnableGraph runnable, Stream stream))         \
    SALUS_STANDIN_BOTH_FLAVOURS(X, launch_host_function, "cuLaunchHostFunc", "_ptsz",                                       \
                                (Stream stream, void (*function)(void*), void* data))                                       \
    SALUS_STANDIN_BOTH_FLAVOURS(X, copy_to_device, "cuMemcpyHtoD_v2", "_ptds",                                              \
                                (Address to, const void* from, std::size_t size))                                           \
    SALUS_STANDIN_BOTH_FLAVOURS(X, copy_to_host, "cuMemcpyDtoH_v2", "_ptds", (void* to, Address from, std::size_t size))    \
    X(copy_to_device_async_per_thread, "cuMemcpyHtoDAsync_v2_ptsz",                                                         \
      (Address to, const void* from, std::size_t size, Stream stream))                                                      \
    X(copy_to_host_async_per_thread, "cuMemcpyDtoHAsync_v2_ptsz",                                                           \
      (void* to, Address from, std::size_t size, Stream stream))                                                            \
    SALUS_STANDIN_BOTH_FLAVOURS(X, set_bytes, "cuMemsetD8_v2", "_ptds",                                                     \
                                (Address start, unsigned char value, std::size_t size))                                     \
    SALUS_STANDIN_BOTH_FLAVOURS(X, set_bytes_async, "cuMemsetD8Async", "_ptsz",                                             \
                                (Address start, unsigned char value, std::size_t size, Stream stream))                      \
    SALUS_STANDIN_BOTH_FLAVOURS(X, allocate_async, "cuMemAllocAsync", "_ptsz",                                              \
                                (Address * start, std::size_t size, Stream stream))                                         \
    SALUS_STANDIN_BOTH_FLAVOURS(X, free_async, "cuMemFreeAsync", "_ptsz", (Address start, Stream stream))                   \
    SALUS_STANDIN_BOTH_FLAVOURS(X, stream_query, "cuStreamQuery", "_ptsz", (Stream stream))                                 \
    SALUS_STANDIN_BOTH_FLAVOURS(X, capture_begin, "cuStreamBeginCapture_v2", "_ptsz", (Stream stream, int mode))            \
    SALUS_STANDIN_BOTH_FLAVOURS(X, capture_end, "cuStreamEndCapture", "_ptsz", (Stream stream, Graph * graph))              \
    X(stream_wait_value_per_thread, "cuStreamWaitValue32_v2_ptsz",                                                          \
      (Stream stream, Address word, std::uint32_t value, unsigned flags))                                                   \
    SALUS_STANDIN_BOTH_FLAVOURS(X, stream_wait_value_v1, "cuStreamWaitValue32", "_ptsz",                                    \
                                (Stream stream, Address word, std::uint32_t value, unsigned flags))                         \
    X(stream_write_value_per_thread, "cuStreamWriteValue32_v2_ptsz",                                                        \
      (Stream stream, Address word, std::uint32_t value, unsigned flags))                                                   \
    SALUS_STANDIN_BOTH_FLAVOURS(X, stream_write_value_v1, "cuStreamWriteValue32", "_ptsz",                                  \
                                (Stream stream, Address word, std::uint32_t value, unsigned flags))                         \
    X(copy_on_device_per_thread, "cuMemcpyDtoDAsync_v2_ptsz", (Address to, Address from, std::size_t size, Stream stream))  \
    X(stream_synchronize_per_thread, "cuStreamSynchronize_ptsz", (Stream stream))                                           \
    X(stream_wait_event_per_thread, "cuStreamWaitEvent_ptsz", (Stream stream, Event event, unsigned flags))                 \
    X(stream_is_capturing_per_thread, "cuStreamIsCapturing_ptsz", (Stream stream, int* status))                             \
    X(event_record_per_thread, "cuEventRecord_ptsz", (Event event, Stream stream))
#define SALUS_STANDIN_BOTH_FLAVOURS(X, member, symbol, suffix, parameters) \
    X(member, symbol, parameters) X(member##_per_thread, symbol suffix, parameters)
