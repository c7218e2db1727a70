// How much more memory this process could use.
#pragma once

#include <cstdint>

namespace salus::os {

/// The least of what the machine has available and what each control group of the process still allows. 0 if nobody can
/// tell.
std::uint64_t spare_memory();

}  // namespace salus::os
