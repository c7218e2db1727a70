// Moves memory of this process to a nameless file and back.
#pragma once

#include <memory>

#include "device/device.h"

namespace salus::device {

std::unique_ptr<Pager> make_host_pager();

}  // namespace salus::device
