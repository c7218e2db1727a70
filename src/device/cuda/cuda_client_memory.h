// A client's memory on a GPU: two windows of its address space, and what the driver maps there.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "device/device.h"

namespace salus::device {

/// Windows for the GPU with this UUID, of which jobs may use so much. Makes the process's (primary) context on it, unless
/// there is one. The error is one line.
Result<std::unique_ptr<ClientMemory>> make_cuda_client_memory(Bytes capacity, const std::string& uuid);

}  // namespace salus::device
