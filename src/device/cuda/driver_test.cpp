#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include <gtest/gtest.h>

#include "tests/standin/standin_fixture.h"
#include "tests/standin/versions.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include "tests/same_function.h"
#endif

namespace salus::device::cuda {
namespace {

#if __has_include(<cuda.h>)

// Our declarations against those of cuda.h: the same sizes at the same places, and the same values.
static_assert(sizeof(Status) == sizeof(CUresult) && sizeof(Ordinal) == sizeof(CUdevice));
static_assert(sizeof(Address) == sizeof(CUdeviceptr) && sizeof(Handle) == sizeof(CUmemGenericAllocationHandle));
static_assert(kSuccess == CUDA_SUCCESS && kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotReady == CUDA_ERROR_NOT_READY);
static_assert(sizeof(Uuid) == sizeof(CUuuid));

static_assert(sizeof(Location) == sizeof(CUmemLocation));
static_assert(offsetof(Location, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));
static_assert(Location{}.type == CU_MEM_LOCATION_TYPE_DEVICE);

using Flags = AllocationProperties::Flags;
using RealFlags = decltype(CUmemAllocationProp::allocFlags);
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(AllocationProperties, requested_handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, win32_handle_metadata) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(Flags) == sizeof(RealFlags));
static_assert(offsetof(Flags, compression_type) == offsetof(RealFlags, compressionType));
static_assert(offsetof(Flags, gpu_direct_rdma_capable) == offsetof(RealFlags, gpuDirectRDMACapable));
static_assert(offsetof(Flags, usage) == offsetof(RealFlags, usage));
static_assert(AllocationProperties{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(AllocationProperties{}.requested_handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(AccessDescription{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

static_assert(kHandleTypeDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kWaitGreaterOrEqual == CU_STREAM_WAIT_VALUE_GEQ && kWaitEqual == CU_STREAM_WAIT_VALUE_EQ);
static_assert(kWaitAnd == CU_STREAM_WAIT_VALUE_AND);
static_assert(kAttributeVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kAttributeDescriptorHandles == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);

using test::SameFunction;

struct Symbols {
#define SALUS_CUDA_SYMBOL(member, symbol, parameters) std::string_view member = symbol;
    SALUS_CUDA_FUNCTIONS(SALUS_CUDA_SYMBOL)
    SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_CUDA_SYMBOL)
#undef SALUS_CUDA_SYMBOL
};

// cuda.h renames functions to their newest version: the symbol that we look up has to be of the version declared.
#define SALUS_TEXT_OF(name) #name
#define SALUS_CUDA_COMPARE(member, function)                                                                         \
    constexpr bool member##_is_compared = true;                                                                      \
    static_assert(SameFunction<decltype(Driver::member), decltype(&function)>::value, #member " is not " #function); \
    static_assert(Symbols{}.member == SALUS_TEXT_OF(function), #member " is looked up under another name")
SALUS_CUDA_COMPARE(init, cuInit);
SALUS_CUDA_COMPARE(driver_version, cuDriverGetVersion);
SALUS_CUDA_COMPARE(error_name, cuGetErrorName);
SALUS_CUDA_COMPARE(device_count, cuDeviceGetCount);
SALUS_CUDA_COMPARE(device_get, cuDeviceGet);
SALUS_CUDA_COMPARE(device_name, cuDeviceGetName);
SALUS_CUDA_COMPARE(device_uuid, cuDeviceGetUuid);
SALUS_CUDA_COMPARE(device_total_memory, cuDeviceTotalMem);
SALUS_CUDA_COMPARE(device_attribute, cuDeviceGetAttribute);
SALUS_CUDA_COMPARE(retain_primary_context, cuDevicePrimaryCtxRetain);
SALUS_CUDA_COMPARE(get_current, cuCtxGetCurrent);
SALUS_CUDA_COMPARE(set_current, cuCtxSetCurrent);
SALUS_CUDA_COMPARE(context_synchronize, cuCtxSynchronize);
SALUS_CUDA_COMPARE(memory_granularity, cuMemGetAllocationGranularity);
SALUS_CUDA_COMPARE(memory_create, cuMemCreate);
SALUS_CUDA_COMPARE(memory_release, cuMemRelease);
SALUS_CUDA_COMPARE(memory_export, cuMemExportToShareableHandle);
SALUS_CUDA_COMPARE(memory_import, cuMemImportFromShareableHandle);
SALUS_CUDA_COMPARE(address_reserve, cuMemAddressReserve);
SALUS_CUDA_COMPARE(address_free, cuMemAddressFree);
SALUS_CUDA_COMPARE(memory_map, cuMemMap);
SALUS_CUDA_COMPARE(memory_unmap, cuMemUnmap);
SALUS_CUDA_COMPARE(memory_set_access, cuMemSetAccess);
SALUS_CUDA_COMPARE(copy_on_device, cuMemcpyDtoDAsync);
SALUS_CUDA_COMPARE(copy_to_device_async, cuMemcpyHtoDAsync);
SALUS_CUDA_COMPARE(copy_to_host_async, cuMemcpyDtoHAsync);
SALUS_CUDA_COMPARE(stream_create, cuStreamCreate);
SALUS_CUDA_COMPARE(stream_destroy, cuStreamDestroy);
SALUS_CUDA_COMPARE(stream_synchronize, cuStreamSynchronize);
SALUS_CUDA_COMPARE(stream_wait_event, cuStreamWaitEvent);
SALUS_CUDA_COMPARE(stream_context, cuStreamGetCtx);
SALUS_CUDA_COMPARE(stream_is_capturing, cuStreamIsCapturing);
SALUS_CUDA_COMPARE(memory_info, cuMemGetInfo);
// We look up its first version, which drivers before 12.8 have as well; the second differs in what it says of odd events.
constexpr bool event_elapsed_is_compared = true;
static_assert(SameFunction<decltype(Driver::event_elapsed), decltype(&cuEventElapsedTime)>::value);
SALUS_CUDA_COMPARE(exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
SALUS_CUDA_COMPARE(event_create, cuEventCreate);
SALUS_CUDA_COMPARE(event_destroy, cuEventDestroy);
SALUS_CUDA_COMPARE(event_record, cuEventRecord);
SALUS_CUDA_COMPARE(event_query, cuEventQuery);
SALUS_CUDA_COMPARE(event_synchronize, cuEventSynchronize);
SALUS_CUDA_COMPARE(context_device, cuCtxGetDevice);
SALUS_CUDA_COMPARE(stream_wait_value, cuStreamWaitValue32);
SALUS_CUDA_COMPARE(stream_write_value, cuStreamWriteValue32);
SALUS_CUDA_COMPARE(host_register, cuMemHostRegister);
SALUS_CUDA_COMPARE(host_unregister, cuMemHostUnregister);
SALUS_CUDA_COMPARE(host_get_device_pointer, cuMemHostGetDevicePointer);

#define SALUS_CUDA_IS_COMPARED(member, symbol, parameters) static_assert(member##_is_compared);
SALUS_CUDA_FUNCTIONS(SALUS_CUDA_IS_COMPARED)
SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_CUDA_IS_COMPARED)

// The stand-in's, each with what there is of that name since that version.
static_assert(sizeof(LaunchConfiguration) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfiguration, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(LaunchConfiguration, block_z) == offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(LaunchConfiguration, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfiguration, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfiguration, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfiguration, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

// These two cudaTypedefs.h shows to nobody.
using PFN_cuCtxCreate_v2000 = CUresult (*)(CUcontext*, unsigned, CUdevice);
using PFN_cuMemAlloc_v2000 = CUresult (*)(unsigned*, unsigned);

#define SALUS_STANDIN_COMPARE(member, name, since, flavour)                                             \
    constexpr bool member##_is_of_a_version = true;                                                     \
    static_assert(SameFunction<decltype(test::Standin::member), PFN_##name##_v##since##flavour>::value, \
                  #member " is not " #name " of " #since);
SALUS_STANDIN_VERSIONS(SALUS_STANDIN_COMPARE)

#define SALUS_STANDIN_IS_COMPARED(member, symbol, parameters) static_assert(member##_is_of_a_version);
SALUS_CUDA_FUNCTIONS(SALUS_STANDIN_IS_COMPARED)
SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_STANDIN_IS_COMPARED)
SALUS_STANDIN_DRIVER_FUNCTIONS(SALUS_STANDIN_IS_COMPARED)

#endif

TEST(Driver, TextOfAUuidIsThatOfNvidiaSmi) {
    EXPECT_EQ(text_of(Uuid{}), "GPU-00000000-0000-0000-0000-000000000000");
    EXPECT_EQ(
        text_of(Uuid{{0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5, 0xc6, 0xd7, 0xe8, 0xff}}),
        "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8ff");
}

/// The stand-in, with the optional functions under other names.
void write_older_driver(const std::string& file) {
    std::ifstream in(SALUS_STANDIN_DIR "/libcuda.so.1", std::ios::binary);
    std::string library(std::istreambuf_iterator<char>(in), {});
#define SALUS_CUDA_RENAME(member, symbol, parameters) \
    for (auto at = library.find(symbol); at != std::string::npos; at = library.find(symbol, at)) library[at] = '_';
    SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_CUDA_RENAME)
#undef SALUS_CUDA_RENAME
    std::ofstream(file, std::ios::binary) << library;
}

TEST(Driver, AnOlderOneLacksOptionalFunctions) {
    const std::string file = ::testing::TempDir() + "salus-older-driver-" + std::to_string(::getpid());
    write_older_driver(file);
    for (const bool is_older : {true, false}) {
        const test::Part part({}, [&](const test::Line&) {
            ASSERT_TRUE(::dlopen(is_older ? file.c_str() : SALUS_STANDIN_DIR "/libcuda.so.1", RTLD_NOW)) << ::dlerror();
            const auto loaded = driver();
            ASSERT_TRUE(loaded.ok()) << loaded.error();
            EXPECT_EQ(loaded.value()->stream_wait_value == nullptr, is_older);
            EXPECT_EQ(loaded.value()->stream_write_value == nullptr, is_older);
            EXPECT_EQ(loaded.value()->host_register == nullptr, is_older);
            EXPECT_EQ(loaded.value()->host_unregister == nullptr, is_older);
            EXPECT_EQ(loaded.value()->host_get_device_pointer == nullptr, is_older);
        });
    }
    std::filesystem::remove(file);
}

}  // namespace
}  // namespace salus::device::cuda
