// The users of this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace salus::os {

/// Its name, or its number if it has none. May ask a server in the network.
std::string name_of_user(unsigned uid);
/// The same by this machine's own list of users alone, so that nobody waits for a server.
std::string local_name_of_user(unsigned uid);
std::string name_of_group(unsigned gid);
/// The user of that name or number; nothing: there is no such name.
std::optional<unsigned> user_called(const std::string& name);
std::optional<unsigned> group_called(const std::string& name);
/// The user's groups, by the machine's database: those that a process of the user has may be others. Nothing: the user is
/// not in it, or it does not answer.
std::optional<std::vector<unsigned>> groups_of_user(unsigned uid);

}  // namespace salus::os
