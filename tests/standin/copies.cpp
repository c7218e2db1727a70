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

/// From memory of the host, as it will be then, or as it is now: then `source` holds a copy.
Step copy_in_step(Address to, const void* from, std::size_t size, std::shared_ptr<std::vector<std::byte>> source = {}) {
    return {.touches = {{to, size}}, .duration = latency(), .starts_when_queued = true, .run = [=] {
                if (!may_access(to, size, PROT_WRITE)) return false;
                std::memcpy(pointer(to), source ? source->data() : from, size);
                return true;
            }};
}
Step copy_out_step(void* to, Address from, std::size_t size) {
    return {.touches = {{from, size}}, .duration = latency(), .starts_when_queued = true, .run = [=] {
                if (!may_access(from, size, PROT_READ)) return false;
                std::memcpy(to, pointer(from), size);
                return true;
            }};
}

Status submit_and_wait(Entered& entered, Queue& queue, Step step) {
    SALUS_STANDIN_TRY(submit(entered, queue, std::move(step)));
    return wait_for(entered, enqueue_record(queue));
}

Status submit_fill(Entered& entered, Address start, unsigned char value, std::size_t size, Stream stream) {
    SALUS_STANDIN_FIND(queue, stream);
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(may_access(start, size, PROT_WRITE));
    return submit(entered, *queue, fill_step(start, size, value, 0));
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

Status copy_to_device(Address to, const void* from, std::size_t size) {
    SALUS_STANDIN_ENTER(copy_to_device, kContext);
    SALUS_STANDIN_FIND(queue, nullptr);
    SALUS_STANDIN_TRY(refuse_capturing(*queue));
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(from && may_access(to, size, PROT_WRITE));
    return submit_and_wait(entered, *queue, copy_in_step(to, from, size));
}

Status copy_to_host(void* to, Address from, std::size_t size) {
    SALUS_STANDIN_ENTER(copy_to_host, kContext);
    SALUS_STANDIN_FIND(queue, nullptr);
    SALUS_STANDIN_TRY(refuse_capturing(*queue));
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(to && may_access(from, size, PROT_READ));
    return submit_and_wait(entered, *queue, copy_out_step(to, from, size));
}

/// Memory that is not registered is copied at the call, as by the real driver.
Status copy_to_device_async(Address to, const void* from, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(copy_to_device_async, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(from && may_access(to, size, PROT_WRITE));
    if (queue->capture || is_registered(reinterpret_cast<Address>(from), size))
        return submit(entered, *queue, copy_in_step(to, from, size));
    const auto* const bytes = static_cast<const std::byte*>(from);
    return submit(entered, *queue,
                  copy_in_step(to, from, size, std::make_shared<std::vector<std::byte>>(bytes, bytes + size)));
}

/// ... and waited for.
Status copy_to_host_async(void* to, Address from, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(copy_to_host_async, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(to && may_access(from, size, PROT_READ));
    if (queue->capture || is_registered(reinterpret_cast<Address>(to), size))
        return submit(entered, *queue, copy_out_step(to, from, size));
    return submit_and_wait(entered, *queue, copy_out_step(to, from, size));
}

/// It does not wait either.
Status set_bytes(Address start, unsigned char value, std::size_t size) {
    SALUS_STANDIN_ENTER(set_bytes, kContext);
    return submit_fill(entered, start, value, size, nullptr);
}

Status set_bytes_async(Address start, unsigned char value, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(set_bytes_async, kContext);
    return submit_fill(entered, start, value, size, stream);
}

}  // namespace salus::standin
