// Waiting until descriptors can be read from.
#pragma once

#include <signal.h>

#include <cstdint>
#include <span>

#include "base/time.h"

namespace salus::os {

/// For as long as it takes.
inline constexpr Duration kForEver{-1};

/// Which of them have something to read, or an end to see: a bit each, the first the lowest. 0: none in time, or a signal
/// came. Negative numbers are left out. `signals`: those blocked meanwhile, instead of those that are.
/// REQUIRES: 32 descriptors at most.
std::uint32_t readable_of(std::span<const int> descriptors, Duration limit, const sigset_t* signals = nullptr);

bool readable_within(int descriptor, Duration limit);

}  // namespace salus::os
