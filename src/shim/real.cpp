#include "shim/real.h"

#include <dlfcn.h>

#include "shim/dlsym.h"
#include "shim/entries.h"
#include "shim/old_glibc.h"

namespace salus::shim {
namespace {

struct Entry {
    const char* symbol;
    void* ours;
    std::atomic<void*> real;
};
Entry entries[] = {
#define SALUS_SHIM_ENTRY(symbol, ...) {#symbol, reinterpret_cast<void*>(::symbol), {nullptr}},
    SALUS_SHIM_LAUNCHES(SALUS_SHIM_ENTRY) SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_ENTRY) SALUS_SHIM_FREES(SALUS_SHIM_ENTRY)
        SALUS_SHIM_EXCHANGES(SALUS_SHIM_ENTRY) SALUS_SHIM_OTHERS(SALUS_SHIM_ENTRY)
#undef SALUS_SHIM_ENTRY
};
std::atomic<void*> library{nullptr};

/// The driver that the program has loaded, wherever from; if it has none and `load`, it is loaded now. Threads may come at
/// once: all of them find the same.
void* libcuda(bool load) {
    if (void* const known = library.load(std::memory_order_acquire)) return known;
    void* found = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!found && load) found = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (found) {
        for (Entry& entry : entries) entry.real.store(real_dlsym()(found, entry.symbol), std::memory_order_relaxed);
        library.store(found, std::memory_order_release);
    }
    ::dlerror();  // no driver, or one that lacks a function, is not the program's business
    return found;
}

}  // namespace

void* real(Function function) {
    std::atomic<void*>& slot = entries[static_cast<unsigned>(function)].real;
    if (void* const known = slot.load(std::memory_order_relaxed)) return known;
    libcuda(/*load=*/true);
    return slot.load(std::memory_order_relaxed);
}

void* real(const char* symbol) {
    void* const from = libcuda(/*load=*/true);
    return from ? real_dlsym()(from, symbol) : nullptr;
}

void* instead_of(void* found) {
    if (!found || !libcuda(/*load=*/false)) return found;
    for (const Entry& entry : entries) {
        if (entry.real.load(std::memory_order_relaxed) == found) return entry.ours;
    }
    return found;
}

}  // namespace salus::shim
