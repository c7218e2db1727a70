#include "device/cuda/cuda_client_device.h"

#include "device/cuda/cuda_windows.h"

namespace salus::device {

Result<std::unique_ptr<ClientDevice>> make_cuda_client_device(Bytes capacity, const std::string& uuid) {
    const Result<cuda::Gpu> opened = cuda::open_gpu(uuid);
    if (!opened) return Error{opened.error()};
    const cuda::Gpu& gpu = opened.value();
    cuda::ClientContext context{gpu.driver, nullptr, cuda::memory_of(gpu.ordinal), {}};
    context.access.location.id = gpu.ordinal;
    cuda::Status status = gpu.driver->retain_primary_context(&context.context, gpu.ordinal);
    if (status == cuda::kSuccess) status = gpu.driver->set_current(context.context);
    if (status != cuda::kSuccess) return Error{"cannot create a context on the GPU: " + gpu.driver->name_of(status)};
    // Twice the capacity: gaps between blocks cost address space only.
    const std::uint64_t size = (static_cast<std::uint64_t>(capacity.count) / cuda::kPiece * 2 + 1) * cuda::kPiece;
    Result<cuda::Reservation> lane = cuda::Reservation::make(*gpu.driver, size + cuda::kPiece);
    if (!lane) return Error{lane.error()};
    Result<cuda::Reservation> own = cuda::Reservation::make(*gpu.driver, size);
    if (!own) return Error{own.error()};
    auto device = std::make_unique<ClientDevice>();
    device->traits = kCudaTraits;
    device->ordinal = gpu.ordinal;
    device->lane = make_cuda_lane_window(context, std::move(lane).value(), size);
    device->own = make_cuda_private_window(context, std::move(own).value(), size);
    device->fences = make_cuda_fences(context);
    return device;
}

}  // namespace salus::device
