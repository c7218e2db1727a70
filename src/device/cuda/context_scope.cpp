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

Status map_new_side_by_side(const ClientContext& client, std::span<const Piece> pieces, std::vector<Handle>& handles) {
    const Driver& driver = *client.driver;
    handles.clear();
    Status status = kSuccess;
    for (const Piece& piece : pieces) {
        Handle handle = 0;
        if (status = driver.memory_create(&handle, piece.size, &client.properties, 0); status != kSuccess) break;
        if (status = driver.memory_map(piece.at, piece.size, 0, handle, 0); status != kSuccess) {
            driver.memory_release(handle);
            break;
        }
        handles.push_back(handle);
    }
    const Address start = pieces.front().at;
    const std::uint64_t size = pieces.back().at + pieces.back().size - start;
    if (status == kSuccess) status = driver.memory_set_access(start, size, &client.access, 1);
    if (status == kSuccess) return kSuccess;
    for (std::size_t i = 0; i < handles.size(); ++i) put_away(client, pieces[i].at, pieces[i].size, handles[i]);
    return status;
}

bool unmap_side_by_side(const ClientContext& client, std::span<const Piece> pieces) {
    const Address start = pieces.front().at;
    return client.driver->memory_unmap(start, pieces.back().at + pieces.back().size - start) == kSuccess;
}

}  // namespace salus::device::cuda
