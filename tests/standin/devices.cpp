// The driver and its devices.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr int kAttributeWaitNor = 123;  ///< streams wait for a word by CU_STREAM_WAIT_VALUE_NOR, too
constexpr int kAttributesThatItHas[] = {kAttributeVirtualMemory, kAttributeDescriptorHandles, kAttributeWaitNor};

/// The devices that CUDA_VISIBLE_DEVICES leaves: those before the first that there is none of.
std::vector<int> visible_devices() {
    std::vector<int> all, visible;
    for (int device = 0; device < device_count(); ++device) {
        if (!is_lost(device)) all.push_back(device);
    }
    const char* selection = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!selection) return all;
    std::istringstream list(selection);
    for (std::string item; std::getline(list, item, ',');) {
        const auto found = std::find_if(all.begin(), all.end(), [&](int device) {
            return item == std::to_string(device) || (item.size() > 4 && uuid_text(device).starts_with(item));
        });
        if (found == all.end()) break;
        visible.push_back(*found);
    }
    return visible;
}

}  // namespace

DeviceContext* context_of(Ordinal device) {
    const bool is_one = device >= 0 && static_cast<std::size_t>(device) < state.primary_contexts.size();
    return is_one ? &state.primary_contexts[static_cast<std::size_t>(device)] : nullptr;
}

Status init(unsigned flags) {
    SALUS_STANDIN_ENTER(init, kNothing);
    SALUS_STANDIN_REQUIRE(flags == 0);
    if (initialised_in != 0) return kSuccess;
    const std::vector<int> visible = visible_devices();
    if (visible.empty()) return kNoDevice;
    for (const int device : visible) state.primary_contexts.push_back({device});
    start();
    std::thread(work_for_ever).detach();
    initialised_in = ::getpid();
    return kSuccess;
}

Status error_name(Status status, const char** name) {
    static const auto& names = *new std::map<Status, const char*>{
        {kSuccess, "CUDA_SUCCESS"},
        {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
        {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
        {kNotInitialised, "CUDA_ERROR_NOT_INITIALIZED"},
        {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
        {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
        {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
        {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
        {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
        {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE"},
        {kNotFound, "CUDA_ERROR_NOT_FOUND"},
        {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
        {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        {kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM"},
        {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
        {kNotReady, "CUDA_ERROR_NOT_READY"},
        {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
        {kUnknown, "CUDA_ERROR_UNKNOWN"},
        {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
        {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
        {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
        {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
        {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    };
    const auto found = names.find(status);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? kSuccess : kInvalidValue;
}

Status device_count(int* count) {
    SALUS_STANDIN_ENTER(device_count, kInitialised);
    *count = static_cast<int>(state.primary_contexts.size());
    return kSuccess;
}

Status device_get(Ordinal* device, int ordinal) {
    SALUS_STANDIN_ENTER(device_get, kInitialised);
    if (!context_of(ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
}

Status device_name(char* name, int size, Ordinal device) {
    SALUS_STANDIN_ENTER(device_name, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    SALUS_STANDIN_REQUIRE(size > 0);
    name[std::string("Stand-in GPU").copy(name, static_cast<std::size_t>(size) - 1)] = '\0';
    return kSuccess;
}

Status device_uuid(Uuid* uuid, Ordinal device) {
    SALUS_STANDIN_ENTER(device_uuid, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    std::memcpy(uuid->bytes, uuid_of(context_of(device)->device).data(), sizeof uuid->bytes);
    return kSuccess;
}

Status device_total_memory(std::size_t* bytes, Ordinal device) {
    SALUS_STANDIN_ENTER(device_total_memory, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    *bytes = total_memory(context_of(device)->device);
    return kSuccess;
}

Status device_attribute(int* value, int attribute, Ordinal device) {
    SALUS_STANDIN_ENTER(device_attribute, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    *value = std::ranges::find(kAttributesThatItHas, attribute) != std::end(kAttributesThatItHas);
    return kSuccess;
}

}  // namespace salus::standin
