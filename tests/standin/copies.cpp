// Copies and fills.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

std::chrono::microseconds latency() {
    const char* text = std::getenv("SALUS_STANDIN_LATENCY");
    return std::chrono::microseconds{text ? std::atoi(text) : 200};
}

/// The parts of a mapped range that were ever written to; the others are holes, and zero.
std::map<Address, Address> written_in(Address start, Address end) {
    std::map<Address, Address> parts;
    for (auto mapping = std::prev(state.mappings.upper_bound(start)); mapping != state.mappings.end(); ++mapping) {
        const auto [at, shown] = *mapping;
        if (at >= end) break;
        const int file = shown.memory->descriptor;
        const auto stop = static_cast<off_t>(std::min(end - at, shown.memory->size));
        for (auto from = static_cast<off_t>(std::max(start, at) - at); from < stop;) {
            const off_t data = ::lseek(file, from, SEEK_DATA);
            if (data < 0 || data >= stop) break;
            from = std::min(::lseek(file, data, SEEK_HOLE), stop);
            parts[at + static_cast<Address>(data)] = at + static_cast<Address>(from);
        }
    }
    return parts;
}

/// Holes stay holes: to copy them would cost a page, and a fault, for every 4 KiB. REQUIRES: both are mapped.
void copy(Address to, Address from, std::uint64_t size) {
    for (const auto& [start, end] : written_in(to, to + size)) std::memset(pointer(start), 0, end - start);
    for (const auto& [start, end] : written_in(from, from + size))
        std::memcpy(pointer(to + (start - from)), pointer(start), end - start);
}

}  // namespace

Step fill_step(Address start, std::size_t size, unsigned char value, unsigned microseconds) {
    return {.touches = {{start, size}}, .duration = std::chrono::microseconds{microseconds}, .run = [=] {
                if (size == 0) return true;
                if (!may_access(start, size, PROT_WRITE)) return false;
                std::memset(pointer(start), value, size);
                return true;
            }};
}

Status copy_on_device(Address to, Address from, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(copy_on_device, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(may_access(to, size, PROT_WRITE) && may_access(from, size, PROT_READ));
    return submit(entered, *queue,
                  {.touches = {{to, size}, {from, size}}, .duration = latency(), .starts_when_queued = true, .run = [=] {
                       if (!may_access(to, size, PROT_WRITE) || !may_access(from, size, PROT_READ)) return false;
                       copy(to, from, size);
                       return true;
                   }});
}

}  // namespace salus::standin
