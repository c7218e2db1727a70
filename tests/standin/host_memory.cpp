// Memory of the host that is registered: the device may use it, at the address that it has there.
#include <unistd.h>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

/// Whether the process has memory there, everywhere.
bool is_there(Address start, std::uint64_t size) {
    const auto page = static_cast<Address>(::sysconf(_SC_PAGESIZE));
    const Address from = start / page * page, to = (start + size + page - 1) / page * page;
    std::vector<unsigned char> residency((to - from) / page);
    return ::mincore(pointer(from), to - from, residency.data()) == 0;
}

}  // namespace

bool is_registered(Address start, std::uint64_t size) {
    auto range = state.registered.upper_bound(start);
    if (range == state.registered.begin()) return false;
    --range;
    return start + size <= range->first + range->second.size;
}

Status host_register(void* start, std::size_t size, unsigned flags) {
    SALUS_STANDIN_ENTER(host_register, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    const auto address = reinterpret_cast<Address>(start);
    SALUS_STANDIN_REQUIRE(start && size > 0 && (flags & ~0xfu) == 0 && is_there(address, size));
    const auto after = state.registered.lower_bound(address + size);
    if (after != state.registered.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second.size > address) return kAlreadyRegistered;
    }
    state.registered[address] = {size, current()};
    return kSuccess;
}

Status host_unregister(void* start) {
    SALUS_STANDIN_ENTER(host_unregister, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    SALUS_STANDIN_REQUIRE(start);
    const auto found = state.registered.find(reinterpret_cast<Address>(start));
    if (found == state.registered.end()) return kNotRegistered;
    const auto [address, memory] = *found;
    state.registered.erase(found);
    if (is_touched(address, memory.size)) break_down("memory was unregistered under work in flight", {address, memory.size});
    return kSuccess;
}

Status host_get_device_pointer(Address* address, void* start, unsigned flags) {
    SALUS_STANDIN_ENTER(host_get_device_pointer, kContext);
    SALUS_STANDIN_REQUIRE(address && flags == 0 && is_registered(reinterpret_cast<Address>(start), 1));
    *address = reinterpret_cast<Address>(start);
    return kSuccess;
}

}  // namespace salus::standin
