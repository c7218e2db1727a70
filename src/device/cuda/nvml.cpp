#include "device/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace salus::device::cuda {
namespace {

constexpr int kNotFound = 6, kInsufficientSize = 7, kGpuIsLost = 15, kResetRequired = 16;
constexpr unsigned long long kNotAvailable = ~0ull;

}  // namespace

struct Nvml::Functions {
    struct Memory2 {
        unsigned version = sizeof(Memory2) | 2u << 24;
        unsigned long long total = 0, reserved = 0, free = 0, used = 0;
    };
    struct ProcessInfo {
        unsigned pid;
        unsigned long long used;
        unsigned gpu_instance, compute_instance;
    };

    struct Utilisation {
        unsigned gpu_percent = 0, memory_percent = 0;
    };

    int (*init)() = nullptr;
    int (*device_by_uuid)(const char*, void**) = nullptr;
    int (*memory)(void*, Memory2*) = nullptr;
    int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
    int (*driver_version)(char*, unsigned) = nullptr;
    int (*index)(void*, unsigned*) = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device_by_index)(unsigned, void**) = nullptr;
    int (*uuid)(void*, char*, unsigned) = nullptr;
    int (*utilisation)(void*, Utilisation*) = nullptr;  ///< this and the next two are missing in some drivers
    int (*mig_count)(void*, unsigned*) = nullptr;
    int (*mig_by_index)(void*, unsigned, void**) = nullptr;
    int (*name)(void*, char*, unsigned) = nullptr;  ///< of its model
    bool complete = false;

    Functions() {
        void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) return;
        const auto find = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
            return function != nullptr;
        };
        complete = find(init, "nvmlInit_v2") && find(device_by_uuid, "nvmlDeviceGetHandleByUUID") &&
                   find(memory, "nvmlDeviceGetMemoryInfo_v2") &&
                   find(processes, "nvmlDeviceGetComputeRunningProcesses_v3") &&
                   find(driver_version, "nvmlSystemGetDriverVersion") && find(index, "nvmlDeviceGetIndex") &&
                   find(count, "nvmlDeviceGetCount_v2") && find(device_by_index, "nvmlDeviceGetHandleByIndex_v2") &&
                   find(uuid, "nvmlDeviceGetUUID");
        find(utilisation, "nvmlDeviceGetUtilizationRates");
        find(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
        find(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex");
        find(name, "nvmlDeviceGetName");
        complete = complete && init() == 0;
    }

    static const Functions& loaded() {
        static const Functions functions;
        return functions;
    }
    std::string uuid_of(void* device) const {
        char text[96] = "";
        return uuid(device, text, sizeof text) == 0 ? text : "";
    }
};

Result<Nvml> Nvml::open(const std::string& uuid) {
    const Functions& functions = Functions::loaded();
    if (!functions.complete) return Error{"the driver's management library (libnvidia-ml.so.1) is missing, or too old"};
    Nvml nvml;
    nvml.functions_ = &functions;
    if (functions.device_by_uuid(uuid.c_str(), &nvml.device_) != 0)
        return Error{"the management library does not know " + uuid};
    return nvml;
}

std::optional<Bytes> Nvml::used() const {
    Functions::Memory2 memory;
    if (functions_->memory(device_, &memory) != 0) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(memory.used)};
}

std::optional<std::map<int, Bytes>> Nvml::used_by_process() const {
    std::vector<Functions::ProcessInfo> found(64);
    for (;;) {
        auto count = static_cast<unsigned>(found.size());
        const int status = functions_->processes(device_, &count, found.data());
        if (status == kInsufficientSize) {
            found.resize(2 * std::max<std::size_t>(count, found.size()));
            continue;
        }
        if (status != 0) return std::nullopt;
        found.resize(count);
        break;
    }
    std::map<int, Bytes> used;
    for (const Functions::ProcessInfo& process : found) {
        if (process.used != kNotAvailable)
            used[static_cast<int>(process.pid)] += Bytes{static_cast<std::int64_t>(process.used)};
    }
    return used;
}

std::optional<double> Nvml::busy_share() const {
    Functions::Utilisation used;
    if (!functions_->utilisation || functions_->utilisation(device_, &used) != 0) return std::nullopt;
    return std::min(used.gpu_percent / 100.0, 1.0);
}

std::optional<unsigned> Nvml::index() const {
    unsigned index = 0;
    return functions_->index(device_, &index) == 0 ? std::optional(index) : std::nullopt;
}

bool Nvml::is_lost() const {
    Functions::Memory2 memory;
    const int status = functions_->memory(device_, &memory);
    return status == kGpuIsLost || status == kResetRequired || status == kNotFound;
}

std::vector<DeviceNames> Nvml::all() {
    const Functions& nvml = Functions::loaded();
    unsigned count = 0;
    if (!nvml.complete || nvml.count(&count) != 0) return {};
    std::vector<DeviceNames> found;
    for (unsigned i = 0; i < count; ++i) {
        void* gpu = nullptr;
        if (nvml.device_by_index(i, &gpu) != 0) continue;
        found.push_back({i, nvml.uuid_of(gpu)});
        unsigned instances = 0;
        if (!nvml.mig_count || !nvml.mig_by_index || nvml.mig_count(gpu, &instances) != 0) continue;
        for (unsigned j = 0; j < instances; ++j) {
            void* instance = nullptr;
            if (nvml.mig_by_index(gpu, j, &instance) == 0) found.push_back({kNoNumber, nvml.uuid_of(instance)});
        }
    }
    return found;
}

bool Nvml::are_of_one_model() {
    const Functions& nvml = Functions::loaded();
    unsigned count = 0;
    if (!nvml.complete || !nvml.name || nvml.count(&count) != 0) return true;
    std::set<std::string> models;
    for (unsigned i = 0; i < count; ++i) {
        void* gpu = nullptr;
        char text[128] = "";
        if (nvml.device_by_index(i, &gpu) == 0 && nvml.name(gpu, text, sizeof text) == 0) models.insert(text);
    }
    return models.size() < 2;
}

std::string Nvml::driver_version() const {
    char text[96] = "";
    return functions_->driver_version(text, sizeof text) == 0 ? text : "?";
}

}  // namespace salus::device::cuda
