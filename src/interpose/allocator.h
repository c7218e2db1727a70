// Serves the large blocks of a library that allocates with posix_memalign, as PyTorch's does for CPU tensors, from the
// client's memory.
#pragma once

#include <string_view>

#include "base/result.h"
#include "client/process_client.h"

namespace salus::interpose {

/// The client must live as long as the process.
Result<bool> allocator_of(std::string_view library, client::ProcessClient& client);
bool uses(const client::ProcessClient& client);

}  // namespace salus::interpose
