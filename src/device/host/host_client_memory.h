// A client's memory on the host: mmap and a file for what is paged out.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "device/device.h"

namespace salus::device {

/// Windows for a device of this capacity; an error if the address space cannot be had.
Result<std::unique_ptr<ClientMemory>> make_host_client_memory(Bytes capacity);

}  // namespace salus::device
