#include "device/cuda/driver.h"

#include <dlfcn.h>

#include <cstdio>

namespace salus::device::cuda {
namespace {

struct Loaded {
    Driver driver;
    std::string why_not;
};

/// Where the shim stands before the driver (src/shim), it says what the real functions are: our own calls are not the
/// program's.
using RealFunction = void* (*)(const char* symbol);

Loaded load() {
    Loaded loaded;
    const auto behind_shim = reinterpret_cast<RealFunction>(::dlsym(RTLD_DEFAULT, "salus_shim_real"));
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        loaded.why_not = "no CUDA driver found (libcuda.so.1)";
        return loaded;
    }
    const auto look_up = [&](const char* symbol) { return behind_shim ? behind_shim(symbol) : ::dlsym(library, symbol); };
#define SALUS_CUDA_LOOK_UP(member, symbol, parameters) \
    loaded.driver.member = reinterpret_cast<decltype(loaded.driver.member)>(look_up(symbol));
#define SALUS_CUDA_REQUIRE(member, symbol, parameters) \
    if (!loaded.driver.member) loaded.why_not = std::string("the CUDA driver is too old: it has no ") + symbol;
    SALUS_CUDA_FUNCTIONS(SALUS_CUDA_LOOK_UP)
    SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_CUDA_LOOK_UP)
    SALUS_CUDA_FUNCTIONS(SALUS_CUDA_REQUIRE)
#undef SALUS_CUDA_REQUIRE
#undef SALUS_CUDA_LOOK_UP
    return loaded;
}

}  // namespace

std::string Driver::name_of(Status status) const {
    const char* name = nullptr;
    if (error_name(status, &name) != kSuccess || !name) return "CUDA error " + std::to_string(status);
    return name;
}

Result<const Driver*> driver() {
    static const Loaded loaded = load();
    if (!loaded.why_not.empty()) return Error{loaded.why_not};
    return &loaded.driver;
}

std::string text_of(const Uuid& uuid) {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += digits;
    }
    return text;
}

}  // namespace salus::device::cuda
