// A client's side of the host: mmap for its memory, and a file for what is paged out.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "device/device.h"

namespace salus::device {

inline constexpr Traits kHostTraits{.name = "host", .is_host = true};

/// Windows for a device of this capacity; an error if the address space cannot be had.
Result<std::unique_ptr<ClientDevice>> make_host_client_device(Bytes capacity);

}  // namespace salus::device
