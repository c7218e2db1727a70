// The CUDA driver as the random programs of orders.cpp find it: in one of the ways that programs do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace orders {

using Status = int;
using Address = std::uint64_t;
using Handle = void*;

struct LaunchConfig {  ///< CUlaunchConfig
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    void* attributes;
    unsigned attribute_count;
};

// Each row: the symbol, the name by which cuGetProcAddress knows it, the suffix of its per-thread flavour, parameters.
#define ORDERS_FUNCTIONS(X)                                                                                              \
    X(cuInit, "cuInit", "", (unsigned))                                                                                  \
    X(cuDriverGetVersion, "cuDriverGetVersion", "", (int*))                                                              \
    X(cuDeviceGetCount, "cuDeviceGetCount", "", (int*))                                                                  \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", "", (Handle*, int))                                          \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", "", (int))                                              \
    X(cuCtxCreate_v2, "cuCtxCreate", "", (Handle*, unsigned, int))                                                       \
    X(cuCtxDestroy_v2, "cuCtxDestroy", "", (Handle))                                                                     \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", "", (Handle))                                                                  \
    X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", "", (Handle*))                                                              \
    X(cuCtxSynchronize, "cuCtxSynchronize", "", ())                                                                      \
    X(cuModuleLoadData, "cuModuleLoadData", "", (Handle*, const void*))                                                  \
    X(cuModuleGetFunction, "cuModuleGetFunction", "", (Handle*, Handle, const char*))                                    \
    X(cuModuleUnload, "cuModuleUnload", "", (Handle))                                                                    \
    X(cuMemAlloc_v2, "cuMemAlloc", "", (Address*, std::size_t))                                                          \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", "", (Address*, std::size_t*, std::size_t, std::size_t, unsigned))           \
    X(cuMemAllocManaged, "cuMemAllocManaged", "", (Address*, std::size_t, unsigned))                                     \
    X(cuMemAllocAsync, "cuMemAllocAsync", "_ptsz", (Address*, std::size_t, Handle))                                      \
    X(cuMemFree_v2, "cuMemFree", "", (Address))                                                                          \
    X(cuMemFreeAsync, "cuMemFreeAsync", "_ptsz", (Address, Handle))                                                      \
    X(cuMemGetInfo_v2, "cuMemGetInfo", "", (std::size_t*, std::size_t*))                                                 \
    X(cuMemCreate, "cuMemCreate", "", (std::uint64_t*, std::size_t, const void*, unsigned long long))                    \
    X(cuMemRelease, "cuMemRelease", "", (std::uint64_t))                                                                 \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", "", (void*, std::uint64_t, int, unsigned long long)) \
    X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", "_ptds", (void*, Address, std::size_t))                                           \
    X(cuStreamCreate, "cuStreamCreate", "", (Handle*, unsigned))                                                         \
    X(cuStreamDestroy_v2, "cuStreamDestroy", "", (Handle))                                                               \
    X(cuStreamSynchronize, "cuStreamSynchronize", "_ptsz", (Handle))                                                     \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", "_ptsz", (Handle, int*))                                               \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", "_ptsz", (Handle, int))                                           \
    X(cuStreamEndCapture, "cuStreamEndCapture", "_ptsz", (Handle, Handle*))                                              \
    X(cuEventCreate, "cuEventCreate", "", (Handle*, unsigned))                                                           \
    X(cuEventRecord, "cuEventRecord", "_ptsz", (Handle, Handle))                                                         \
    X(cuEventSynchronize, "cuEventSynchronize", "", (Handle))                                                            \
    X(cuEventDestroy_v2, "cuEventDestroy", "", (Handle))                                                                 \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", "", (Handle*, Handle, unsigned long long))             \
    X(cuGraphDestroy, "cuGraphDestroy", "", (Handle))                                                                    \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", "", (Handle))                                                            \
    X(cuGraphLaunch, "cuGraphLaunch", "_ptsz", (Handle, Handle))                                                         \
    X(cuLaunchHostFunc, "cuLaunchHostFunc", "_ptsz", (Handle, void (*)(void*), void*))                                   \
    X(cuLaunchKernel, "cuLaunchKernel", "_ptsz",                                                                         \
      (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**))            \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", "_ptsz", (const LaunchConfig*, Handle, void**, void**))                      \
    X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", "_ptsz",                                                   \
      (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**))

struct Driver {
#define ORDERS_MEMBER(symbol, name, suffix, parameters) Status(*symbol) parameters = nullptr;
    ORDERS_FUNCTIONS(ORDERS_MEMBER)
#undef ORDERS_MEMBER
    /// How many of its functions were found.
    int count() const;
};

/// Of cuGetProcAddress.
enum Flavour : std::uint64_t { kDefault = 0, kPerThread = 2 };

/// In a program that links libcuda (ORDERS_LINKED); nothing elsewhere.
Driver driver_by_symbol();
Driver driver_by_dlsym(void* library, Flavour flavour = kDefault);
/// `generation` of cuGetProcAddress itself: 1 or 2.
Driver driver_by_resolver(void* library, Flavour flavour, int generation);

/// The file that libcuda.so.1 is. REQUIRES: `library` is one of its handles.
std::string path_of(void* library);

}  // namespace orders
