#include "device/cuda/cuda_client_device.h"
#include "device/host/host_client_device.h"

namespace salus::device {

Result<std::unique_ptr<ClientDevice>> open_client_device(std::string_view name, Bytes capacity,
                                                         const std::string& identity) {
    return name == kCudaTraits.name ? make_cuda_client_device(capacity, identity) : make_host_client_device(capacity);
}

}  // namespace salus::device
