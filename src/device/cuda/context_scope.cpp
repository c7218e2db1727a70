#include "device/cuda/context_scope.h"

namespace salus::device::cuda {

Result<Reservation> Reservation::make(const Driver& driver, std::uint64_t size) {
    Address start = 0;
    const Status status = driver.address_reserve(&start, size, 0, 0, 0);
    if (status != kSuccess) return Error{"no address space for the GPU's memory: " + driver.name_of(status)};
    return Reservation(driver, start, size);
}

Handle map_new(const ClientContext& client, Address at, std::uint64_t size) {
    const Driver& driver = *client.driver;
    Handle handle = 0;
    if (driver.memory_create(&handle, size, &client.properties, 0) != kSuccess) return 0;
    if (driver.memory_map(at, size, 0, handle, 0) == kSuccess) {
        if (driver.memory_set_access(at, size, &client.access, 1) == kSuccess) return handle;
        driver.memory_unmap(at, size);
    }
    driver.memory_release(handle);
    return 0;
}

void put_away(const ClientContext& client, Address at, std::uint64_t size, Handle handle) {
    client.driver->memory_unmap(at, size);
    client.driver->memory_release(handle);
}

}  // namespace salus::device::cuda
