// Whether a file can be trusted: only this user and root can have written it, or can replace it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace salus::os {

/// Resolved against the current working directory; other processes, and this one later, may have another one.
std::string absolute_path(std::string_view path);

/// Where Salus keeps a user's files if the environment names no place: in /tmp, where another user may have created it
/// first.
std::string directory_without_home();

/// One line that says why the path cannot be trusted; nothing if it can be, or does not exist. See Note [Trust].
std::optional<std::string> why_distrusted(const std::string& path);

/// For a user who is neither this one nor root: "another user", unless the user namespace hides who it is. Then it says so.
std::string describe_other_user(unsigned uid);

/// Creates the directory, closed to other users, and those above it. An error if it cannot be trusted or does not belong to
/// this user. True if it was created now, false if it existed.
Result<bool> make_private_directory(const std::string& path);

}  // namespace salus::os
