#include "device/cuda/cuda_client_device.h"

#include "device/cuda/cuda_windows.h"

namespace salus::device {
namespace {

class NoLane : public LaneWindow {
public:
    NoLane() : LaneWindow(nullptr, 0) {}
    bool add_memory(std::size_t, std::vector<os::Descriptor>) override { return true; }
    bool resize(std::uint64_t) override { return true; }
    void drop() override {}
    bool make_private(Range) override { return false; }
    bool restore(Range) override { return false; }
};

class NoMemory : public PrivateWindow {
public:
    NoMemory() : PrivateWindow(nullptr, 0) {}
    bool back(Range) override { return false; }
    void discard(Range) override {}
};

}  // namespace

Result<std::unique_ptr<ClientDevice>> make_cuda_device_without_memory(GatePage* gates) {
    const Result<const cuda::Driver*> driver = cuda::driver();
    if (!driver) return Error{driver.error()};
    cuda::ClientContext context{driver.value(), nullptr, {}, {}, gates};
    const cuda::Status status = driver.value()->get_current(&context.context);
    if (status != cuda::kSuccess || !context.context) return Error{"this thread has no context on the GPU"};
    auto device = std::make_unique<ClientDevice>();
    device->traits = kCudaTraits;
    device->lane = std::make_unique<NoLane>();
    device->own = std::make_unique<NoMemory>();
    device->pace = make_cuda_pace(context);
    device->gated_streams = make_cuda_gated_streams(context);
    device->fences = make_cuda_fences(context);
    return device;
}

Result<std::unique_ptr<ClientDevice>> make_cuda_client_device(Bytes capacity, const std::string& uuid, GatePage* gates,
                                                              const Paging& paging) {
    const Result<cuda::Gpu> opened = cuda::open_gpu(uuid);
    if (!opened) return Error{opened.error()};
    const cuda::Gpu& gpu = opened.value();
    cuda::ClientContext context{gpu.driver, nullptr, cuda::memory_of(gpu.ordinal), {}, gates};
    context.access.location.id = gpu.ordinal;
    cuda::Status status = gpu.driver->retain_primary_context(&context.context, gpu.ordinal);
    if (status == cuda::kSuccess) status = gpu.driver->set_current(context.context);
    if (status != cuda::kSuccess) return Error{"cannot create a context on the GPU: " + gpu.driver->name_of(status)};
    // Twice the capacity: gaps between blocks cost address space only.
    const std::uint64_t size = (static_cast<std::uint64_t>(capacity.count) / cuda::kPieceMax * 2 + 1) * cuda::kPieceMax;
    Result<cuda::Reservation> lane = cuda::Reservation::make(*gpu.driver, size + cuda::kPieceMax);
    if (!lane) return Error{lane.error()};
    Result<cuda::Reservation> own = cuda::Reservation::make(*gpu.driver, size);
    if (!own) return Error{own.error()};
    auto device = std::make_unique<ClientDevice>();
    device->traits = kCudaTraits;
    device->ordinal = gpu.ordinal;
    auto lane_window = make_cuda_lane_window(context, std::move(lane).value(), size);
    auto private_window = make_cuda_private_window(context, std::move(own).value(), size);
    if (paging.on) device->pager = make_cuda_pager(context, {lane_window.get(), private_window.get()}, paging.directory);
    device->lane = std::move(lane_window);
    device->own = std::move(private_window);
    device->pace = make_cuda_pace(context);
    device->gated_streams = make_cuda_gated_streams(context);
    device->fences = make_cuda_fences(context);
    return device;
}

}  // namespace salus::device
