// How a process of a random program makes others, and how it ends.
#pragma once

#include "tests/shim/orders_world.h"

namespace orders {

/// The program itself, or its other build: that which links libcuda, and that which does not.
std::string own_path(bool linked);

/// Ends the process in one of the ways that do not return from main(), or returns.
void end_process(World& world);

}  // namespace orders
