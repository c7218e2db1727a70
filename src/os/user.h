// The users of this machine.
#pragma once

#include <optional>
#include <string>

namespace salus::os {

/// Its name, or its number if it has none. May ask a server in the network.
std::string name_of_user(unsigned uid);
std::string name_of_group(unsigned gid);
/// The user of that name or number; nothing: there is no such name.
std::optional<unsigned> user_called(const std::string& name);

}  // namespace salus::os
