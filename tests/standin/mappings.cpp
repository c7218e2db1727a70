// Memory by the driver's virtual memory interface: handles, reserved addresses, mappings.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/standin/state.h"

namespace salus::standin {

Memory::~Memory() {
    ::close(descriptor);
    drop(row);
}

bool may_access(Address start, std::uint64_t size, int access) {
    if (is_registered(start, size)) return true;
    auto mapping = state.mappings.upper_bound(start);
    if (mapping == state.mappings.begin()) return false;
    --mapping;
    Address at = mapping->first;
    for (; mapping != state.mappings.end() && mapping->first == at && at < start + size; ++mapping) {
        if (at += mapping->second.memory->size; at > start && (mapping->second.access & access) != access) return false;
    }
    return at >= start + size;
}
namespace {

constexpr const char* kMemoryName = "salus-standin-";  // and the device

constexpr bool is_granular(std::uint64_t size) { return size > 0 && size % kGranularity == 0; }

/// Takes the descriptor, also when there is nothing.
std::shared_ptr<Memory> make_memory(int descriptor, int device, bool exportable, bool created) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0) {
        const auto size = static_cast<std::uint64_t>(status.st_size);
        if (const auto row = charge({device, status.st_ino, size, created}))
            return std::make_shared<Memory>(descriptor, size, exportable, *row);
    }
    ::close(descriptor);
    return nullptr;
}

/// The device whose memory a descriptor is; nothing if it is another file.
std::optional<int> device_of(int descriptor) {
    char target[128] = "";
    const std::string prefix = std::string("/memfd:") + kMemoryName;
    if (::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), target, sizeof target - 1) < 0) return {};
    if (std::strncmp(target, prefix.c_str(), prefix.size()) != 0) return {};
    return std::atoi(target + prefix.size());
}

/// The mappings that begin in a range.
std::pair<std::map<Address, Mapping>::iterator, std::map<Address, Mapping>::iterator> mappings_in(Address start,
                                                                                                  std::uint64_t size) {
    return {state.mappings.lower_bound(start), state.mappings.lower_bound(start + size)};
}
bool is_unmapped(Address start, std::uint64_t size) {
    auto [first, last] = mappings_in(start, size);
    if (first != last) return false;
    if (first == state.mappings.begin()) return true;
    --first;
    return first->first + first->second.memory->size <= start;
}
/// Whole mappings side by side, and nothing else; no blocks.
bool is_mapped_whole(Address start, std::uint64_t size) {
    const auto [first, last] = mappings_in(start, size);
    Address at = start;
    for (auto mapping = first; mapping != last && mapping->first == at && !mapping->second.owner; ++mapping)
        at += mapping->second.memory->size;
    return size > 0 && at == start + size;
}
bool is_reserved(Address start, std::uint64_t size) {
    auto reservation = state.reservations.upper_bound(start);
    if (reservation == state.reservations.begin()) return false;
    --reservation;
    return start + size <= reservation->first + reservation->second;
}

bool put_back_reservation(Address start, std::uint64_t size) {
    return ::mmap(pointer(start), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

}  // namespace

std::shared_ptr<Memory> create_memory(int device, std::uint64_t size, bool exportable) {
    const int descriptor = ::memfd_create((kMemoryName + std::to_string(device)).c_str(), MFD_CLOEXEC);
    if (descriptor < 0) return nullptr;
    if (::ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
        ::close(descriptor);
        return nullptr;
    }
    return make_memory(descriptor, device, exportable, true);
}

std::optional<Address> reserve_addresses(std::uint64_t size, std::uint64_t alignment, Address hint) {
    // More than is needed, of which the aligned part stays.
    const std::size_t taken = size + alignment;
    void* const place = hint % alignment == 0 ? pointer(hint) : nullptr;
    void* const mapped = ::mmap(place, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return std::nullopt;
    const auto from = reinterpret_cast<Address>(mapped);
    const Address start = (from + alignment - 1) / alignment * alignment;
    if (start > from) ::munmap(mapped, start - from);
    ::munmap(pointer(start + size), from + taken - (start + size));
    return start;
}

bool show(Address start, const Memory& memory, int protection) {
    return ::mmap(pointer(start), memory.size, protection, MAP_SHARED | MAP_FIXED, memory.descriptor, 0) != MAP_FAILED;
}

/// Nobody need ask for both.
Status memory_info(std::size_t* free, std::size_t* total) {
    SALUS_STANDIN_ENTER(memory_info, kContext);
    const std::uint64_t used = usage(current()->device).used, all = total_memory(current()->device);
    if (total) *total = all;
    if (free) *free = all > used ? all - used : 0;
    return kSuccess;
}

Status memory_granularity(std::size_t* granularity, const AllocationProperties* properties, int option) {
    SALUS_STANDIN_ENTER(memory_granularity, kInitialised);
    SALUS_STANDIN_REQUIRE(properties && properties->location.type == 1 && (option == 0 || option == 1));
    if (!context_of(properties->location.id)) return kInvalidDevice;
    *granularity = kGranularity;
    return kSuccess;
}

Status memory_create(Handle* handle, std::size_t size, const AllocationProperties* properties, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_create, kInitialised);
    SALUS_STANDIN_REQUIRE(is_granular(size) && flags == 0 && properties && properties->type == 1);
    SALUS_STANDIN_REQUIRE(properties->location.type == 1 && (properties->requested_handle_types & ~1) == 0);
    const DeviceContext* const context = context_of(properties->location.id);
    if (!context) return kInvalidDevice;
    if (is_lost(context->device)) return kUnknown;
    auto memory = create_memory(context->device, size, properties->requested_handle_types == kHandleTypeDescriptor);
    if (!memory) return kOutOfMemory;
    *handle = state.released.empty() ? reinterpret_cast<Handle>(new_handle())
                                     : state.released.extract(state.released.begin()).value();
    state.handles[*handle] = std::move(memory);
    return kSuccess;
}

Status memory_release(Handle handle) {
    SALUS_STANDIN_ENTER(memory_release, kInitialised);
    SALUS_STANDIN_REQUIRE(state.handles.erase(handle) == 1);
    if (reuses_handles()) state.released.insert(handle);
    let_others_reuse(entered);
    return kSuccess;
}

Status memory_export(void* descriptor, Handle handle, int type, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_export, kInitialised);
    const auto found = state.handles.find(handle);
    SALUS_STANDIN_REQUIRE(found != state.handles.end() && found->second->exportable);
    SALUS_STANDIN_REQUIRE(descriptor && type == kHandleTypeDescriptor && flags == 0);
    const int copy = ::fcntl(found->second->descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return kOperatingSystem;
    *static_cast<int*>(descriptor) = copy;
    return kSuccess;
}

Status memory_import(Handle* handle, void* descriptor, int type) {
    SALUS_STANDIN_ENTER(memory_import, kInitialised);
    const int theirs = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
    const auto device = device_of(theirs);
    SALUS_STANDIN_REQUIRE(type == kHandleTypeDescriptor && device);
    const bool is_visible = std::any_of(state.primary_contexts.begin(), state.primary_contexts.end(),
                                        [&](const DeviceContext& context) { return context.device == *device; });
    if (!is_visible) return kInvalidDevice;
    const int ours = ::fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    if (ours < 0) return kOperatingSystem;
    auto memory = make_memory(ours, *device, true, false);
    if (!memory) return kOperatingSystem;
    *handle = reinterpret_cast<Handle>(new_handle());
    state.handles[*handle] = std::move(memory);
    return kSuccess;
}

Status address_reserve(Address* start, std::size_t size, std::size_t alignment, Address hint, unsigned long long flags) {
    SALUS_STANDIN_ENTER(address_reserve, kInitialised);
    SALUS_STANDIN_REQUIRE(is_granular(size) && (alignment & (alignment - 1)) == 0 && flags == 0);
    const auto reserved = reserve_addresses(size, std::max<std::size_t>(alignment, kGranularity), hint);
    if (!reserved) return kOutOfMemory;
    *start = *reserved;
    state.reservations[*start] = size;
    return kSuccess;
}

Status address_free(Address start, std::size_t size) {
    SALUS_STANDIN_ENTER(address_free, kInitialised);
    const auto found = state.reservations.find(start);
    SALUS_STANDIN_REQUIRE(found != state.reservations.end() && found->second == size && is_unmapped(start, size));
    ::munmap(pointer(start), size);
    state.reservations.erase(found);
    return kSuccess;
}

Status memory_map(Address start, std::size_t size, std::size_t offset, Handle handle, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_map, kContext);
    const auto found = state.handles.find(handle);
    SALUS_STANDIN_REQUIRE(found != state.handles.end() && flags == 0 && size > 0);
    SALUS_STANDIN_REQUIRE(start % kGranularity == 0 && is_reserved(start, size) && is_unmapped(start, size));
    if (offset != 0) return kNotSupported;
    SALUS_STANDIN_REQUIRE(size == found->second->size);
    state.mappings[start].memory = found->second;
    return kSuccess;
}

Status memory_unmap(Address start, std::size_t size) {
    SALUS_STANDIN_ENTER(memory_unmap, kInitialised);
    SALUS_STANDIN_REQUIRE(is_mapped_whole(start, size));
    if (!put_back_reservation(start, size)) return kOperatingSystem;
    const auto [first, last] = mappings_in(start, size);
    state.mappings.erase(first, last);
    // It may run at this very moment.
    if (is_touched(start, size)) break_down("memory was unmapped under work in flight", {start, size});
    return kSuccess;
}

Status memory_set_access(Address start, std::size_t size, const AccessDescription* access, std::size_t count) {
    SALUS_STANDIN_ENTER(memory_set_access, kContext);
    SALUS_STANDIN_REQUIRE(access && count == 1 && access->location.type == 1 && is_mapped_whole(start, size));
    SALUS_STANDIN_REQUIRE(access->flags == 0 || access->flags == 1 || access->flags == 3);
    if (!context_of(access->location.id)) return kInvalidDevice;
    const int protection = access->flags == 0 ? PROT_NONE : access->flags == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
    const auto [first, last] = mappings_in(start, size);
    for (auto mapping = first; mapping != last; ++mapping) {
        if (!show(mapping->first, *mapping->second.memory, protection)) return kOperatingSystem;
        mapping->second.access = protection;
    }
    return kSuccess;
}

}  // namespace salus::standin
