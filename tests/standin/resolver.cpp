// cuGetProcAddress: what it gives is the exported function itself, by the version and the flavour that are asked for.
#include <algorithm>
#include <cstring>

#include "tests/standin/state.h"
#include "tests/standin/versions.h"

namespace salus::standin {
namespace {

constexpr int kDriverVersion = 13000;
constexpr std::uint64_t kDefaultFlavour = 0, kLegacyFlavour = 1, kPerThread = 2;
enum Result { kFound = 0, kNoSuchName = 1, kVersionTooLow = 2 };

/// All that is exported; a function without a definition does not link.
struct Exported {
#define SALUS_STANDIN_EXPORTED(member, symbol, parameters) \
    void* member = reinterpret_cast<void*>(static_cast<Status(*) parameters>(standin::member));
    SALUS_STANDIN_ALL_FUNCTIONS(SALUS_STANDIN_EXPORTED)
#undef SALUS_STANDIN_EXPORTED
};
const Exported kExported;

struct Version {
    const char* name;
    int since;
    bool is_per_thread;
    void* function;
};
const Version kVersions[] = {
#define SALUS_STANDIN_VERSION(member, name, since, flavour) {#name, since, sizeof(#flavour) > 1, kExported.member},
    SALUS_STANDIN_VERSIONS(SALUS_STANDIN_VERSION)
#undef SALUS_STANDIN_VERSION
};

/// The newest that there was in a version. A function with a per-thread flavour is looked for in that flavour alone, if that
/// is what is asked for.
std::pair<void*, Result> find_function(const char* name, int version, bool is_per_thread) {
    const auto is_named = [&](const Version& each) { return std::strcmp(each.name, name) == 0; };
    const bool has_flavour = std::any_of(std::begin(kVersions), std::end(kVersions),
                                         [&](const Version& each) { return is_named(each) && each.is_per_thread; });
    const Version* best = nullptr;
    Result otherwise = kNoSuchName;
    for (const Version& each : kVersions) {
        if (!is_named(each)) continue;
        otherwise = kVersionTooLow;
        if (each.since > version || each.is_per_thread != (is_per_thread && has_flavour)) continue;
        if (!best || each.since > best->since) best = &each;
    }
    return best ? std::pair(best->function, kFound) : std::pair<void*, Result>(nullptr, otherwise);
}

bool is_flavour(std::uint64_t flags) { return flags == kDefaultFlavour || flags == kLegacyFlavour || flags == kPerThread; }

}  // namespace

Status driver_version(int* version) {
    *version = kDriverVersion;
    return kSuccess;
}

// Programs call these before cuInit, and in forked children.

/// What is not found is no error, but null.
Status resolve(const char* name, void** function, int version, std::uint64_t flags, int* result) {
    SALUS_STANDIN_REQUIRE(name && function && version <= kDriverVersion && is_flavour(flags));
    const auto [found, how] = find_function(name, version, flags == kPerThread);
    *function = found;
    if (result) *result = how;
    return kSuccess;
}

/// Here it is one, and nothing is written.
Status resolve_v1(const char* name, void** function, int version, std::uint64_t flags) {
    SALUS_STANDIN_REQUIRE(name && function && version <= kDriverVersion && is_flavour(flags));
    const auto [found, how] = find_function(name, version, flags == kPerThread);
    if (how != kFound) return kNotFound;
    *function = found;
    return kSuccess;
}

}  // namespace salus::standin
