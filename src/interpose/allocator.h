// The large blocks of a library that allocates by posix_memalign, as PyTorch's does for tensors on the CPU, become the
// client's.
#pragma once

#include <string_view>

#include "base/result.h"
#include "client/client.h"

namespace salus::interpose {

/// The client must live as long as the process.
Result<bool> allocator_of(std::string_view library, client::Client& client);
bool uses(const client::Client& client);

}  // namespace salus::interpose
