// The users of this machine.
#pragma once

#include <string>

namespace salus::os {

/// Its name, or its number if it has none. May ask a server in the network.
std::string name_of_user(unsigned uid);

}  // namespace salus::os
