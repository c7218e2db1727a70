#include <cstdlib>
#include <string>

#include "device/cuda/cuda_client_device.h"
#include "device/cuda/gpu.h"
#include "device/host/host_client_device.h"

namespace salus::device {

std::string gpu_in_use() {
    const std::string known = cuda::uuid_of_current();
    if (!known.empty()) return known;
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string_view list = visible ? visible : "";
    return std::string(list.substr(0, list.find(',')));
}

Result<std::unique_ptr<ClientDevice>> open_client_device(std::string_view name, Bytes capacity, const std::string& identity,
                                                         GatePage* gates, const Paging& paging) {
    if (name == kCudaTraits.name) return make_cuda_client_device(capacity, identity, gates, paging);
    if (name == kHostTraits.name) return make_host_client_device(capacity);
    return Error{"this version of Salus knows no device \"" + std::string(name) + "\""};
}

Result<std::unique_ptr<ClientDevice>> open_device_without_memory(std::string_view name, GatePage* gates) {
    if (name == kCudaTraits.name) return make_cuda_device_without_memory(gates);
    return Error{"the service does not share a GPU"};
}

}  // namespace salus::device
