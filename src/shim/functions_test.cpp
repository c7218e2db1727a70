// What the shim declares in the place of the driver's functions, against cuda.h: a parameter of another size would be passed
// on wrongly.
#include "shim/functions.h"

#include <cstddef>

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include "tests/same_function.h"

namespace salus::shim {
namespace {

static_assert(kSuccess == CUDA_SUCCESS && kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(sizeof(IpcHandle) == sizeof(CUipcMemHandle) && sizeof(IpcHandle) == sizeof(CUipcEventHandle));
static_assert(sizeof(ArrayDescriptor) == sizeof(CUDA_ARRAY_DESCRIPTOR));
static_assert(offsetof(ArrayDescriptor, channels) == offsetof(CUDA_ARRAY_DESCRIPTOR, NumChannels));
static_assert(sizeof(Array3DDescriptor) == sizeof(CUDA_ARRAY3D_DESCRIPTOR));
static_assert(offsetof(Array3DDescriptor, channels) == offsetof(CUDA_ARRAY3D_DESCRIPTOR, NumChannels));

// Our functions by their symbols, as types: cuda.h has the names themselves.
#define SALUS_SHIM_TYPE_3(symbol, parameters, arguments) using Our_##symbol = Status(*) parameters;
#define SALUS_SHIM_TYPE_4(symbol, a, parameters, arguments) using Our_##symbol = Status(*) parameters;
#define SALUS_SHIM_TYPE_5(symbol, a, b, parameters, arguments) using Our_##symbol = Status(*) parameters;
SALUS_SHIM_LAUNCHES(SALUS_SHIM_TYPE_4)
SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_TYPE_5)
SALUS_SHIM_FREES(SALUS_SHIM_TYPE_4)
SALUS_SHIM_EXCHANGES(SALUS_SHIM_TYPE_3)
SALUS_SHIM_OTHERS(SALUS_SHIM_TYPE_3)

/// The symbol, and the type of that function since that version.
#define SALUS_SHIM_COMPARE(symbol, real)           \
    constexpr bool is_compared_##symbol##_ = true; \
    static_assert(test::SameFunction<Our_##symbol, PFN_##real>::value, #symbol " is not " #real)
SALUS_SHIM_COMPARE(cuLaunchKernel, cuLaunchKernel_v4000);
SALUS_SHIM_COMPARE(cuLaunchKernel_ptsz, cuLaunchKernel_v7000_ptsz);
SALUS_SHIM_COMPARE(cuLaunchKernelEx, cuLaunchKernelEx_v11060);
SALUS_SHIM_COMPARE(cuLaunchKernelEx_ptsz, cuLaunchKernelEx_v11060_ptsz);
SALUS_SHIM_COMPARE(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_v9000);
SALUS_SHIM_COMPARE(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel_v9000_ptsz);
SALUS_SHIM_COMPARE(cuLaunch, cuLaunch_v2000);
SALUS_SHIM_COMPARE(cuLaunchGrid, cuLaunchGrid_v2000);
SALUS_SHIM_COMPARE(cuLaunchGridAsync, cuLaunchGridAsync_v2000);
SALUS_SHIM_COMPARE(cuGraphLaunch, cuGraphLaunch_v10000);
SALUS_SHIM_COMPARE(cuGraphLaunch_ptsz, cuGraphLaunch_v10000_ptsz);
SALUS_SHIM_COMPARE(cuMemAlloc_v2, cuMemAlloc_v3020);
SALUS_SHIM_COMPARE(cuMemAllocPitch_v2, cuMemAllocPitch_v3020);
SALUS_SHIM_COMPARE(cuMemAllocAsync, cuMemAllocAsync_v11020);
SALUS_SHIM_COMPARE(cuMemAllocAsync_ptsz, cuMemAllocAsync_v11020_ptsz);
SALUS_SHIM_COMPARE(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_v11020);
SALUS_SHIM_COMPARE(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync_v11020_ptsz);
SALUS_SHIM_COMPARE(cuMemCreate, cuMemCreate_v10020);
SALUS_SHIM_COMPARE(cuArrayCreate_v2, cuArrayCreate_v3020);
SALUS_SHIM_COMPARE(cuArray3DCreate_v2, cuArray3DCreate_v3020);
SALUS_SHIM_COMPARE(cuMemFree_v2, cuMemFree_v3020);
SALUS_SHIM_COMPARE(cuMemFreeAsync, cuMemFreeAsync_v11020);
SALUS_SHIM_COMPARE(cuMemFreeAsync_ptsz, cuMemFreeAsync_v11020_ptsz);
SALUS_SHIM_COMPARE(cuArrayDestroy, cuArrayDestroy_v2000);
SALUS_SHIM_COMPARE(cuIpcGetMemHandle, cuIpcGetMemHandle_v4010);
SALUS_SHIM_COMPARE(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle_v11000);
SALUS_SHIM_COMPARE(cuIpcGetEventHandle, cuIpcGetEventHandle_v4010);
SALUS_SHIM_COMPARE(cuIpcOpenEventHandle, cuIpcOpenEventHandle_v4010);
SALUS_SHIM_COMPARE(cuMemExportToShareableHandle, cuMemExportToShareableHandle_v10020);
SALUS_SHIM_COMPARE(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle_v10020);
SALUS_SHIM_COMPARE(cuMemMap, cuMemMap_v10020);
SALUS_SHIM_COMPARE(cuMemUnmap, cuMemUnmap_v10020);
SALUS_SHIM_COMPARE(cuMemRelease, cuMemRelease_v10020);
SALUS_SHIM_COMPARE(cuStreamDestroy_v2, cuStreamDestroy_v4000);
SALUS_SHIM_COMPARE(cuCtxDestroy_v2, cuCtxDestroy_v4000);
SALUS_SHIM_COMPARE(cuInit, cuInit_v2000);
SALUS_SHIM_COMPARE(cuMemGetInfo_v2, cuMemGetInfo_v3020);
SALUS_SHIM_COMPARE(cuGetProcAddress, cuGetProcAddress_v11030);
SALUS_SHIM_COMPARE(cuGetProcAddress_v2, cuGetProcAddress_v12000);

#define SALUS_SHIM_IS_COMPARED(symbol, ...) static_assert(is_compared_##symbol##_);
SALUS_SHIM_LAUNCHES(SALUS_SHIM_IS_COMPARED)
SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_IS_COMPARED)
SALUS_SHIM_FREES(SALUS_SHIM_IS_COMPARED)
SALUS_SHIM_EXCHANGES(SALUS_SHIM_IS_COMPARED)
SALUS_SHIM_OTHERS(SALUS_SHIM_IS_COMPARED)

}  // namespace
}  // namespace salus::shim

#endif
