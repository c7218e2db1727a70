// The functions of the CUDA driver that the shim stands before, by the names that libcuda.so.1 exports. Declarations are
// those of cuda.h; functions_test.cpp compares them where cuda.h is installed.
//
// A function with the suffix _ptsz is the same with another meaning of the null stream: the calling thread's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace salus::shim {

using Status = int;  ///< CUresult; 0 is success
using Stream = void*;
using Address = std::uint64_t;
using Handle = std::uint64_t;

inline constexpr Status kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500;
/// What a null stream means in a function with the suffix _ptsz.
inline const Stream kThreadsOwnStream = reinterpret_cast<Stream>(2);

/// The head of CUlaunchConfig.
struct LaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    Stream stream;
};

/// CUipcMemHandle and CUipcEventHandle.
struct IpcHandle {
    char bytes[64];
};

/// CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR.
struct ArrayDescriptor {
    std::size_t width, height;
    int format;
    unsigned channels;
};
struct Array3DDescriptor {
    std::size_t width, height, depth;
    int format;
    unsigned channels, flags;
};

// Each row: symbol, stream that the launch is for, parameters, arguments.
#define SALUS_SHIM_LAUNCHES(X)                                                                                              \
    X(cuLaunchKernel, stream,                                                                                               \
      (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
       Stream stream, void** parameters, void** extra),                                                                     \
      (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra))                                          \
    X(cuLaunchKernel_ptsz, own(stream),                                                                                     \
      (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
       Stream stream, void** parameters, void** extra),                                                                     \
      (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra))                                          \
    X(cuLaunchKernelEx, stream_of(config), (const LaunchConfig* config, void* function, void** parameters, void** extra),   \
      (config, function, parameters, extra))                                                                                \
    X(cuLaunchKernelEx_ptsz, own(stream_of(config)),                                                                        \
      (const LaunchConfig* config, void* function, void** parameters, void** extra), (config, function, parameters, extra)) \
    X(cuLaunchCooperativeKernel, stream,                                                                                    \
      (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
       Stream stream, void** parameters),                                                                                   \
      (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters))                                                 \
    X(cuLaunchCooperativeKernel_ptsz, own(stream),                                                                          \
      (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
       Stream stream, void** parameters),                                                                                   \
      (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters))                                                 \
    X(cuLaunch, nullptr, (void* function), (function))                                                                      \
    X(cuLaunchGrid, nullptr, (void* function, int width, int height), (function, width, height))                            \
    X(cuLaunchGridAsync, stream, (void* function, int width, int height, Stream stream), (function, width, height, stream)) \
    X(cuGraphLaunch, stream, (void* graph, Stream stream), (graph, stream))                                                 \
    X(cuGraphLaunch_ptsz, own(stream), (void* graph, Stream stream), (graph, stream))

// Each row: symbol, bytes of device memory that it takes, what names the memory afterwards, parameters, arguments.
#define SALUS_SHIM_ALLOCATIONS(X)                                                                           \
    X(cuMemAlloc_v2, size, *at, (Address * at, std::size_t size), (at, size))                               \
    X(cuMemAllocAsync, size, *at, (Address * at, std::size_t size, Stream stream), (at, size, stream))      \
    X(cuMemAllocAsync_ptsz, size, *at, (Address * at, std::size_t size, Stream stream), (at, size, stream)) \
    X(cuMemAllocFromPoolAsync, size, *at, (Address * at, std::size_t size, void* pool, Stream stream),      \
      (at, size, pool, stream))                                                                             \
    X(cuMemAllocFromPoolAsync_ptsz, size, *at, (Address * at, std::size_t size, void* pool, Stream stream), \
      (at, size, pool, stream))                                                                             \
    X(cuMemCreate, size_on_device(size, properties), *handle,                                               \
      (Handle * handle, std::size_t size, const void* properties, unsigned long long flags),                \
      (handle, size, properties, flags))                                                                    \
    X(cuArrayCreate_v2, bytes_of(descriptor), reinterpret_cast<Handle>(*array),                             \
      (void** array, const ArrayDescriptor* descriptor), (array, descriptor))                               \
    X(cuArray3DCreate_v2, bytes_of(descriptor), reinterpret_cast<Handle>(*array),                           \
      (void** array, const Array3DDescriptor* descriptor), (array, descriptor))

// Each row: symbol, what names the memory, parameters, arguments.
#define SALUS_SHIM_FREES(X)                                                    \
    X(cuMemFree_v2, at, (Address at), (at))                                    \
    X(cuMemFreeAsync, at, (Address at, Stream stream), (at, stream))           \
    X(cuMemFreeAsync_ptsz, at, (Address at, Stream stream), (at, stream))      \
    X(cuArrayDestroy, reinterpret_cast<Handle>(array), (void* array), (array)) \
    X(cuMemRelease, handle, (Handle handle), (handle))

// By these a process shares memory or events with others. Each row: symbol, parameters, arguments.
#define SALUS_SHIM_EXCHANGES(X)                                                                        \
    X(cuIpcGetMemHandle, (void* handle, Address at), (handle, at))                                     \
    X(cuIpcOpenMemHandle_v2, (Address * at, IpcHandle handle, unsigned flags), (at, handle, flags))    \
    X(cuIpcOpenEventHandle, (void** event, IpcHandle handle), (event, handle))                         \
    X(cuIpcGetEventHandle, (void* handle, void* event), (handle, event))                               \
    X(cuMemExportToShareableHandle, (void* shared, Handle handle, int type, unsigned long long flags), \
      (shared, handle, type, flags))                                                                   \
    X(cuMemImportFromShareableHandle, (Handle * handle, void* shared, int type), (handle, shared, type))

// Each row: symbol, parameters, arguments. Every one of these does something of its own (shim.cpp).
#define SALUS_SHIM_OTHERS(X)                                                                                            \
    X(cuMemAllocPitch_v2, (Address * at, std::size_t * pitch, std::size_t width, std::size_t height, unsigned element), \
      (at, pitch, width, height, element))                                                                              \
    X(cuMemMap, (Address at, std::size_t size, std::size_t offset, Handle handle, unsigned long long flags),            \
      (at, size, offset, handle, flags))                                                                                \
    X(cuMemUnmap, (Address at, std::size_t size), (at, size))                                                           \
    X(cuStreamDestroy_v2, (Stream stream), (stream))                                                                    \
    X(cuCtxDestroy_v2, (void* context), (context))                                                                      \
    X(cuInit, (unsigned flags), (flags))                                                                                \
    X(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total), (free, total))                                        \
    X(cuGetProcAddress, (const char* symbol, void** function, int version, std::uint64_t flags),                        \
      (symbol, function, version, flags))                                                                               \
    X(cuGetProcAddress_v2, (const char* symbol, void** function, int version, std::uint64_t flags, int* found),         \
      (symbol, function, version, flags, found))

}  // namespace salus::shim
