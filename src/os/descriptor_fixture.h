// What this process has open, for tests.
#pragma once

#include <cstddef>

#include "os/descriptor.h"

namespace salus::os {

/// Counted the same way each time, so that the difference of two is what was opened in between.
inline std::size_t count_open_descriptors() { return open_descriptors().size(); }

}  // namespace salus::os
