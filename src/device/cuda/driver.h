// The part of the CUDA driver's interface that Salus uses, loaded at run time: nothing links CUDA, and building needs no
// CUDA. The declarations are those of cuda.h; driver_test.cpp compares them where cuda.h is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace salus::device::cuda {

using Status = int;     ///< CUresult; 0 is success
using Ordinal = int;    ///< CUdevice
using Context = void*;  ///< CUcontext
using Stream = void*;   ///< CUstream; null is the default one
using Event = void*;    ///< CUevent
using Address = std::uint64_t;
using Handle = std::uint64_t;

inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotReady = 600;
inline constexpr Status kInvalidContext = 201;
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kContextIsDestroyed = 709;
inline constexpr Status kStreamCaptureImplicit = 906;

struct Uuid {
    unsigned char bytes[16];
};

struct Location {
    int type = 1;  ///< a device
    int id = 0;
};
struct AllocationProperties {
    int type = 1;                    ///< pinned: it stays where it is
    int requested_handle_types = 1;  ///< file descriptors
    Location location;
    void* win32_handle_metadata = nullptr;
    struct Flags {
        unsigned char compression_type = 0;
        unsigned char gpu_direct_rdma_capable = 0;
        unsigned short usage = 0;
        unsigned char reserved[4] = {};
    } flags;
};
struct AccessDescription {
    Location location;
    int flags = 3;  ///< read and write
};

inline constexpr int kHandleTypeDescriptor = 1;
inline constexpr int kGranularityMinimum = 0;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventWithoutTime = 2;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kHostRegisterDeviceMap = 2;  ///< the device may use the memory, too
/// Of stream_wait_value: until (int32_t)(word - value) >= 0, word == value, or (word & value) != 0.
inline constexpr unsigned kWaitGreaterOrEqual = 0, kWaitEqual = 1, kWaitAnd = 2;
inline constexpr int kAttributeVirtualMemory = 102;  ///< virtual memory management is supported
inline constexpr int kAttributeDescriptorHandles =
    103;  ///< ... and its memory can be passed to other processes as descriptors

/// Every function: its member here, its symbol in libcuda.so.1, its parameters.
#define SALUS_CUDA_FUNCTIONS(X)                                                                                             \
    X(init, "cuInit", (unsigned flags))                                                                                     \
    X(driver_version, "cuDriverGetVersion", (int* version))                                                                 \
    X(error_name, "cuGetErrorName", (Status status, const char** name))                                                     \
    X(device_count, "cuDeviceGetCount", (int* count))                                                                       \
    X(device_get, "cuDeviceGet", (Ordinal * device, int ordinal))                                                           \
    X(device_name, "cuDeviceGetName", (char* name, int size, Ordinal device))                                               \
    X(device_uuid, "cuDeviceGetUuid_v2", (Uuid * uuid, Ordinal device))                                                     \
    X(device_total_memory, "cuDeviceTotalMem_v2", (std::size_t * bytes, Ordinal device))                                    \
    X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, Ordinal device))                                \
    X(retain_primary_context, "cuDevicePrimaryCtxRetain", (Context * context, Ordinal device))                              \
    X(get_current, "cuCtxGetCurrent", (Context * context))                                                                  \
    X(set_current, "cuCtxSetCurrent", (Context context))                                                                    \
    X(context_synchronize, "cuCtxSynchronize", ())                                                                          \
    X(memory_info, "cuMemGetInfo_v2", (std::size_t * free, std::size_t * total))                                            \
    X(memory_granularity, "cuMemGetAllocationGranularity",                                                                  \
      (std::size_t * granularity, const AllocationProperties* properties, int option))                                      \
    X(memory_create, "cuMemCreate",                                                                                         \
      (Handle * handle, std::size_t size, const AllocationProperties* properties, unsigned long long flags))                \
    X(memory_release, "cuMemRelease", (Handle handle))                                                                      \
    X(memory_export, "cuMemExportToShareableHandle", (void* descriptor, Handle handle, int type, unsigned long long flags)) \
    X(memory_import, "cuMemImportFromShareableHandle", (Handle * handle, void* descriptor, int type))                       \
    X(address_reserve, "cuMemAddressReserve",                                                                               \
      (Address * start, std::size_t size, std::size_t alignment, Address hint, unsigned long long flags))                   \
    X(address_free, "cuMemAddressFree", (Address start, std::size_t size))                                                  \
    X(memory_map, "cuMemMap",                                                                                               \
      (Address start, std::size_t size, std::size_t offset, Handle handle, unsigned long long flags))                       \
    X(memory_unmap, "cuMemUnmap", (Address start, std::size_t size))                                                        \
    X(memory_set_access, "cuMemSetAccess",                                                                                  \
      (Address start, std::size_t size, const AccessDescription* access, std::size_t count))                                \
    X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Address to, Address from, std::size_t size, Stream stream))                  \
    X(copy_to_device_async, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, std::size_t size, Stream stream))        \
    X(copy_to_host_async, "cuMemcpyDtoHAsync_v2", (void* to, Address from, std::size_t size, Stream stream))                \
    X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                                                   \
    X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                                                \
    X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                                           \
    X(stream_wait_event, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))                                 \
    X(stream_context, "cuStreamGetCtx", (Stream stream, Context * context))                                                 \
    X(stream_is_capturing, "cuStreamIsCapturing", (Stream stream, int* status))                                             \
    X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                                              \
    X(event_create, "cuEventCreate", (Event * event, unsigned flags))                                                       \
    X(event_destroy, "cuEventDestroy_v2", (Event event))                                                                    \
    X(event_record, "cuEventRecord", (Event event, Stream stream))                                                          \
    X(event_query, "cuEventQuery", (Event event))                                                                           \
    X(event_synchronize, "cuEventSynchronize", (Event event))                                                               \
    X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))

/// ... and those that a driver need not have: their members may be null.
#define SALUS_CUDA_OPTIONAL_FUNCTIONS(X)                                                                                 \
    X(context_device, "cuCtxGetDevice", (Ordinal * device))                                                              \
    X(stream_wait_value, "cuStreamWaitValue32_v2", (Stream stream, Address word, std::uint32_t value, unsigned flags))   \
    X(stream_write_value, "cuStreamWriteValue32_v2", (Stream stream, Address word, std::uint32_t value, unsigned flags)) \
    X(host_register, "cuMemHostRegister_v2", (void* start, std::size_t size, unsigned flags))                            \
    X(host_unregister, "cuMemHostUnregister", (void* start))                                                             \
    X(host_get_device_pointer, "cuMemHostGetDevicePointer_v2", (Address * address, void* start, unsigned flags))

struct Driver {
#define SALUS_CUDA_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
    SALUS_CUDA_FUNCTIONS(SALUS_CUDA_MEMBER)
    SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_CUDA_MEMBER)
#undef SALUS_CUDA_MEMBER

    /// CUDA_ERROR_OUT_OF_MEMORY and the like.
    std::string name_of(Status status) const;
};

/// Loads libcuda.so.1, once per process; it stays loaded. Does not initialise it. The error is one line.
Result<const Driver*> driver();

/// "GPU-0a1b2c3d-…", as nvidia-smi and CUDA_VISIBLE_DEVICES have it.
std::string text_of(const Uuid& uuid);

}  // namespace salus::device::cuda
