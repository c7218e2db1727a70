// A TCP socket that only programs of this machine reach, and what keeps strangers among them out.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::os {

struct Loopback {
    Descriptor listener;
    int port = 0;
};
/// On 127.0.0.1. Neither the listener nor accepted connections block. `port` 0: one that is free.
Result<Loopback> listen_on_loopback(int port);

/// From the kernel, as hexadecimal digits: two for each byte.
std::string random_digits(std::size_t bytes);

}  // namespace salus::os
