// The table of policies: the command line's help, docs/policies.md, the conformance tests and the simulator read it.
#pragma once

#include <span>
#include <string_view>

#include "core/policy.h"

namespace salus {

/// All policies, the fallback (fifo) first.
std::span<const Policy* const> all_policies();

/// nullptr if there is none of that name.
const Policy* find_policy(std::string_view name);

const Policy& fallback_policy();

}  // namespace salus
