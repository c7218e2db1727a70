#include "device/cuda/gpu.h"

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

}  // namespace

Result<Gpu> open_gpu(const std::string& uuid) {
    const Result<const Driver*> loaded = driver();
    if (!loaded) return Error{loaded.error()};
    const Driver& driver = *loaded.value();
    const Status status = driver.init(0);
    if (status != kSuccess) return Error{"the CUDA driver failed to start: " + driver.name_of(status)};
    int count = 0;
    driver.device_count(&count);
    if (count == 0) return Error{"there is no GPU, or CUDA_VISIBLE_DEVICES hides it"};
    for (int i = 0; i < count; ++i) {
        Gpu gpu;
        gpu.driver = &driver;
        Uuid id{};
        if (driver.device_get(&gpu.ordinal, i) != kSuccess || driver.device_uuid(&id, gpu.ordinal) != kSuccess) continue;
        gpu.uuid = text_of(id);
        if (!uuid.empty() && gpu.uuid != uuid) continue;
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
    return Error{"this process does not see the GPU " + uuid + " (CUDA_VISIBLE_DEVICES?)"};
}

}  // namespace salus::device::cuda
