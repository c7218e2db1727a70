// A stand-in for libnvidia-ml.so.1: what the accounting file (SALUS_STANDIN_STATE) says, as the real one would.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/standin/accounting.h"

namespace salus::standin {
namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotFound = 6, kInsufficientSize = 7, kGpuIsLost = 15;
constexpr int kMismatchedVersion = 25;

struct Memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct ProcessInfo {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

// A device is its number and one: null is none.
void* handle_of(int device) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(device) + 1); }
int device_of(void* handle) { return static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) - 1; }

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
    for (int device = 0; device < device_count(); ++device) {
        if (uuid_text(device) == uuid) return *handle = handle_of(device), kSuccess;
    }
    return kNotFound;
}

int nvmlDeviceGetCount_v2(unsigned* count) { return *count = static_cast<unsigned>(device_count()), kSuccess; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
    if (index >= static_cast<unsigned>(device_count())) return kInvalidArgument;
    return *handle = handle_of(static_cast<int>(index)), kSuccess;
}

int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
    if (!handle) return kInvalidArgument;
    const std::string uuid = uuid_text(device_of(handle));
    if (size <= uuid.size()) return kInsufficientSize;
    std::snprintf(text, size, "%s", uuid.c_str());
    return kSuccess;
}

int nvmlDeviceGetMemoryInfo_v2(void* handle, Memory2* memory) {
    if (!handle) return kInvalidArgument;
    if (memory->version != (sizeof(Memory2) | 2u << 24)) return kMismatchedVersion;
    if (is_lost(device_of(handle))) return kGpuIsLost;
    memory->total = total_memory(device_of(handle));
    memory->reserved = 0;
    memory->used = usage(device_of(handle)).used;
    memory->free = memory->total - memory->used;
    return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, ProcessInfo* infos) {
    if (!handle) return kInvalidArgument;
    if (is_lost(device_of(handle))) return kGpuIsLost;
    const Usage now = usage(device_of(handle));
    const unsigned room = *count;
    *count = static_cast<unsigned>(now.by_process.size());
    if (*count > room) return kInsufficientSize;
    for (const auto& [pid, used] : now.by_process) *infos++ = {static_cast<unsigned>(pid), used, ~0u, ~0u};
    return kSuccess;
}

int nvmlDeviceGetIndex(void* handle, unsigned* index) {
    if (!handle) return kInvalidArgument;
    *index = static_cast<unsigned>(device_of(handle));
    return kSuccess;
}

/// SALUS_STANDIN_MODELS: their names, with a comma between two.
int nvmlDeviceGetName(void* handle, char* text, unsigned size) {
    if (!handle) return kInvalidArgument;
    const char* const models = std::getenv("SALUS_STANDIN_MODELS");
    std::string_view rest = models ? models : "Stand-in";
    for (int device = 0; device < device_of(handle) && rest.find(',') != std::string_view::npos; ++device)
        rest.remove_prefix(rest.find(',') + 1);
    const std::string model(rest.substr(0, rest.find(',')));
    if (size <= model.size()) return kInsufficientSize;
    std::snprintf(text, size, "%s", model.c_str());
    return kSuccess;
}

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
    constexpr const char* kVersion = "0.0 (stand-in)";
    if (size <= std::strlen(kVersion)) return kInsufficientSize;
    std::snprintf(text, size, "%s", kVersion);
    return kSuccess;
}

}  // extern "C"

}  // namespace salus::standin
