#include "interpose/allocator.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "client/arena.h"
#include "client/memory.h"
#include "interpose/slots.h"

namespace salus::interpose {
namespace {

using AllocateFunction = int (*)(void**, std::size_t, std::size_t);
using FreeFunction = void (*)(void*);

std::atomic<client::ProcessClient*> the_client{nullptr};
AllocateFunction allocate_before = ::posix_memalign;
FreeFunction free_before = ::free;
/// The address ranges of the client's blocks: comparisons are enough to rule out other blocks.
std::array<const std::byte*, 2> windows{};
std::size_t window_size = 0;

bool is_ours(const void* block) {
    const auto* at = static_cast<const std::byte*>(block);
    return (at >= windows[0] && at < windows[0] + window_size) || (at >= windows[1] && at < windows[1] + window_size);
}

/// Throws nothing into the library. After an error the block comes from the library's previous allocator.
int allocate(void** block, std::size_t alignment, std::size_t size) {
    if (size >= client::kManagedMin && alignment <= client::Arena::kGranule) {
        try {
            if (const auto given = the_client.load(std::memory_order_relaxed)->allocate_for(size)) {
                *block = *given;
                return *given ? 0 : ENOMEM;
            }
        } catch (...) {
            the_client.load()->fail("out of memory for bookkeeping");
        }
    }
    return allocate_before(block, alignment, size);
}

void free(void* block) {
    if (!is_ours(block)) return free_before(block);
    try {
        the_client.load(std::memory_order_relaxed)->free(block);
    } catch (...) {
        the_client.load()->fail("a block cannot be freed");
    }
}

}  // namespace

Result<bool> allocator_of(std::string_view library, client::ProcessClient& client) {
    if (client.window_size() == 0) return Error{"the client is not attached"};
    if (client.device() != "host") return Error{"the service shares a GPU, whose memory the library cannot use"};
    if (the_client.load()) return Error{"a library is already interposed"};
    windows = client.windows();
    window_size = client.window_size();
    the_client = &client;
    const Result<bool> done = redirect(
        library, {{"free", reinterpret_cast<void*>(&free), reinterpret_cast<void**>(&free_before)},
                  {"posix_memalign", reinterpret_cast<void*>(&allocate), reinterpret_cast<void**>(&allocate_before)}});
    if (!done) the_client = nullptr;
    return done;
}

bool uses(const client::ProcessClient& client) { return the_client.load() == &client; }

}  // namespace salus::interpose
