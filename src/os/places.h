// Where Salus keeps a user's sockets and files. All paths are absolute.
#pragma once

#include <string>

namespace salus::os {

/// Where services listen: `socket` in the user's own directory, or in the system's.
std::string user_socket();
inline constexpr const char* kSystemSocket = "/run/salus/socket";
/// There while the system's service runs or restarts, when its socket may be missing (packaging/salusd.service.in).
inline constexpr const char* kSystemMark = "/run/salus/up";
/// The one to talk to: $SALUS_SOCKET, else the user's if there is one, else the system's if there is one or will be,
/// else the user's.
std::string default_socket();

/// The directory of Salus below the one that the variable names, else below the user's home, else in /tmp.
std::string user_directory(const char* variable, const char* below_home);
/// Where a service keeps trace, logs and history unless told otherwise: $SALUS_STATE, else the user's.
std::string default_state_directory();

}  // namespace salus::os
