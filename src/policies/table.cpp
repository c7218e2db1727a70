#include "policies/table.h"

#include <array>

// One row a policy: its file defines `const Policy& NAME_policy()`.
// clang-format off
#define SALUS_POLICIES(row) \
    row(fifo)               \
    row(srtf)               \
    row(las)                \
    row(fair)               \
    row(rr)                 \
    row(priority)           \
    row(pack)
// clang-format on

namespace salus {

#define SALUS_DECLARE(name) const Policy& name##_policy();
SALUS_POLICIES(SALUS_DECLARE)

std::span<const Policy* const> all_policies() {
#define SALUS_ENTRY(name) &name##_policy(),
    static const std::array table{SALUS_POLICIES(SALUS_ENTRY)};
    return table;
}

const Policy* find_policy(std::string_view name) {
    for (const Policy* policy : all_policies()) {
        if (policy->info.name == name) return policy;
    }
    return nullptr;
}

const Policy& fallback_policy() { return fifo_policy(); }

}  // namespace salus
