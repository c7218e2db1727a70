#include "device/host/host_client_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "device/host/host_lane_window.h"
#include "device/host/host_pager.h"

namespace salus::device {
namespace {

std::byte* reserve(std::uint64_t size, int protection) {
    void* start = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
}

class HostPrivateWindow : public PrivateWindow {
public:
    using PrivateWindow::PrivateWindow;
    ~HostPrivateWindow() override { ::munmap(start(), size()); }

    bool back(Range) override { return true; }  // the kernel does it at the first touch
    void discard(Range range) override { ::madvise(start() + range.offset, range.size, MADV_DONTNEED); }
};

}  // namespace

Result<std::unique_ptr<ClientDevice>> make_host_client_device(Bytes capacity) {
    // Twice the capacity: gaps between blocks cost address space only.
    const std::uint64_t size = ((static_cast<std::uint64_t>(capacity.count) >> 21) + 1) << 22;
    const auto no_space = [] {
        return Error{std::string("no address space for the device's memory: ") + std::strerror(errno)};
    };
    auto device = std::make_unique<ClientDevice>();
    device->traits = kHostTraits;
    // For tests of the helper's part in a hand-over, which only an asynchronous device needs.
    device->traits.asynchronous = std::getenv("SALUS_HOST_ASYNCHRONOUS") != nullptr;
    std::byte* lane = reserve(size, PROT_NONE);
    if (!lane) return no_space();
    device->lane = std::make_unique<HostLaneWindow>(lane, size);
    std::byte* own = reserve(size, PROT_READ | PROT_WRITE);
    if (!own) return no_space();
    device->own = std::make_unique<HostPrivateWindow>(own, size);
    device->pager = make_host_pager();
    device->fences = std::make_unique<Fences>();  // work on the host is done when the call returns
    return device;
}

}  // namespace salus::device
