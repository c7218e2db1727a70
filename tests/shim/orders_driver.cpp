#include "tests/shim/orders_driver.h"

#include <dlfcn.h>
#include <link.h>

#ifdef ORDERS_LINKED
#define ORDERS_DECLARE(symbol, name, suffix, parameters) extern "C" orders::Status symbol parameters;
using namespace orders;  // NOLINT: the types of their parameters
ORDERS_FUNCTIONS(ORDERS_DECLARE)
#undef ORDERS_DECLARE
#endif

namespace orders {

int Driver::count() const {
    int found = 0;
#define ORDERS_COUNT(symbol, name, suffix, parameters) found += symbol != nullptr;
    ORDERS_FUNCTIONS(ORDERS_COUNT)
#undef ORDERS_COUNT
    return found;
}

Driver driver_by_symbol() {
    Driver driver;
#ifdef ORDERS_LINKED
#define ORDERS_TAKE(symbol, name, suffix, parameters) driver.symbol = ::symbol;
    ORDERS_FUNCTIONS(ORDERS_TAKE)
#undef ORDERS_TAKE
#endif
    return driver;
}

Driver driver_by_dlsym(void* library, Flavour flavour) {
    Driver driver;
#define ORDERS_LOOK_UP(symbol, name, suffix, parameters) \
    driver.symbol =                                      \
        reinterpret_cast<decltype(driver.symbol)>(::dlsym(library, flavour == kPerThread ? #symbol suffix : #symbol));
    ORDERS_FUNCTIONS(ORDERS_LOOK_UP)
#undef ORDERS_LOOK_UP
    return driver;
}

Driver driver_by_resolver(void* library, Flavour flavour, int generation) {
    Driver driver;
    using First = Status (*)(const char*, void**, int, std::uint64_t);
    using Second = Status (*)(const char*, void**, int, std::uint64_t, int*);
    const int newest = generation == 1 ? 11040 : 12000;
    const auto ask = [&](void* with, const char* name, int version, void** function) {
        int result = -1;
        return generation == 1 ? reinterpret_cast<First>(with)(name, function, version, flavour)
                               : reinterpret_cast<Second>(with)(name, function, version, flavour, &result);
    };
    // Runtimes ask the resolver for itself, and use what it gives.
    void* const found = ::dlsym(library, generation == 1 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    void* resolver = nullptr;
    if (!found || ask(found, "cuGetProcAddress", newest, &resolver) != 0 || !resolver) return driver;
        // Of cuCtxCreate later versions have other parameters. What is from a later version than asked for is left out.
#define ORDERS_RESOLVE(symbol, name, suffix, parameters)                        \
    if (ask(resolver, name, std::string(name) == "cuCtxCreate" ? 4000 : newest, \
            reinterpret_cast<void**>(&driver.symbol)) != 0)                     \
        driver.symbol = nullptr;                                                \
    if (!driver.symbol) driver.symbol = reinterpret_cast<decltype(driver.symbol)>(::dlsym(library, #symbol));
    ORDERS_FUNCTIONS(ORDERS_RESOLVE)
#undef ORDERS_RESOLVE
    return driver;
}

std::string path_of(void* library) {
    const link_map* map = nullptr;
    return ::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map ? map->l_name : "";
}

}  // namespace orders
