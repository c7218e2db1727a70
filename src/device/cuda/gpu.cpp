#include "device/cuda/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "device/cuda/nvml.h"

namespace salus::device::cuda {
namespace {

Result<bool> check_memory(const Driver& driver, Ordinal ordinal) {
    int virtual_memory = 0;
    int descriptors = 0;
    driver.device_attribute(&virtual_memory, kAttributeVirtualMemory, ordinal);
    driver.device_attribute(&descriptors, kAttributeDescriptorHandles, ordinal);
    if (!virtual_memory) return Error{"the GPU does not support virtual memory management"};
    if (!descriptors) return Error{"memory of the GPU cannot be passed to other processes (no file descriptors for it)"};
    const AllocationProperties properties = memory_of(ordinal);
    std::size_t granularity = 0;
    const Status status = driver.memory_granularity(&granularity, &properties, kGranularityMinimum);
    if (status != kSuccess) return Error{"the GPU's memory cannot be managed: " + driver.name_of(status)};
    if (granularity == 0 || kPieceMin % granularity != 0) return Error{"the GPU's pages are of an unexpected size"};
    return true;
}

/// CUDA tells a MIG instance's UUID as if it were a GPU's.
std::string name_of_instance(const std::string& uuid) { return "MIG" + uuid.substr(3); }

Result<const Driver*> initialised_driver() {
    const Result<const Driver*> loaded = driver();
    if (!loaded) return loaded;
    const Status status = loaded.value()->init(0);
    if (status != kSuccess) return Error{"the CUDA driver failed to start: " + loaded.value()->name_of(status)};
    return loaded;
}

/// The error says why its memory cannot be shared. A GPU without UUID does not answer.
Result<Gpu> gpu_at(const Driver& driver, int number) {
    Gpu gpu;
    gpu.driver = &driver;
    Uuid id{};
    if (driver.device_get(&gpu.ordinal, number) != kSuccess || driver.device_uuid(&id, gpu.ordinal) != kSuccess)
        return Error{"the GPU does not answer"};
    gpu.uuid = text_of(id);
    char name[128] = "";
    std::size_t memory = 0;
    driver.device_name(name, sizeof name, gpu.ordinal);
    driver.device_total_memory(&memory, gpu.ordinal);
    gpu.name = name;
    gpu.memory = {static_cast<std::int64_t>(memory)};
    const Result<bool> usable = check_memory(driver, gpu.ordinal);
    if (!usable) return Error{usable.error()};
    return gpu;
}

}  // namespace

Result<std::vector<Gpu>> open_gpus(const std::function<void(const std::string&)>& tell) {
    const Result<const Driver*> loaded = initialised_driver();
    if (!loaded) return Error{loaded.error()};
    const Driver& driver = *loaded.value();
    int count = 0;
    driver.device_count(&count);
    if (count == 0) return Error{"there is no GPU, or CUDA_VISIBLE_DEVICES hides it"};
    const std::vector<DeviceNames> named = Nvml::all();
    std::vector<Gpu> gpus;
    std::string why;
    for (int i = 0; i < count; ++i) {
        Result<Gpu> gpu = gpu_at(driver, i);
        if (gpu) gpus.push_back(std::move(gpu).value());
        else tell(why = gpu.error());
        if (!gpu) continue;
        const std::string instance = name_of_instance(gpus.back().uuid);
        if (std::ranges::find(named, instance, &DeviceNames::uuid) != named.end()) gpus.back().uuid = instance;
    }
    if (gpus.empty()) return Error{why};
    return gpus;
}

Result<Gpu> open_gpu(const std::string& uuid) {
    const Result<const Driver*> loaded = initialised_driver();
    if (!loaded) return Error{loaded.error()};
    const Driver& driver = *loaded.value();
    int count = 0;
    driver.device_count(&count);
    if (count == 0) return Error{"there is no GPU, or CUDA_VISIBLE_DEVICES hides it"};
    for (int i = 0; i < count; ++i) {
        Ordinal ordinal = 0;
        Uuid id{};
        if (driver.device_get(&ordinal, i) != kSuccess || driver.device_uuid(&id, ordinal) != kSuccess) continue;
        const std::string found = text_of(id);
        if (uuid.empty() || found == uuid || name_of_instance(found) == uuid) return gpu_at(driver, i);
    }
    return Error{"this process does not see the GPU " + uuid + " (CUDA_VISIBLE_DEVICES?)"};
}

std::string uuid_of_current() {
    void* loaded = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!loaded) return {};
    ::dlclose(loaded);  // it stays: others have it
    const Result<const Driver*> found = driver();
    if (!found || !found.value()->context_device) return {};
    const Driver& driver = *found.value();
    Context context = nullptr;
    Ordinal ordinal = 0;
    Uuid id{};
    const bool has_context = driver.get_current(&context) == kSuccess && context;
    const bool found_device =
        has_context ? driver.context_device(&ordinal) == kSuccess : driver.device_get(&ordinal, 0) == kSuccess;
    const bool known = found_device && driver.device_uuid(&id, ordinal) == kSuccess;
    return known ? text_of(id) : std::string();
}

}  // namespace salus::device::cuda
