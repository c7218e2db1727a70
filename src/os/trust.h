// Whether what lies at a path can be believed: nobody but this user and root can have written it, or can replace it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace salus::os {

/// Against the working directory of this moment; others, and this process later, may have another one.
std::string absolute_path(std::string_view path);

/// Where Salus keeps a user's files if the environment names no place: in /tmp, where others can be faster.
std::string directory_without_home();

/// One line of why not; nothing if it can be believed, or is not there. See Note [Trust].
std::optional<std::string> why_distrusted(const std::string& path);

/// Makes the directory, closed to others, and those above it. An error if it cannot be believed or is not this user's own.
/// True if it was made now, false if it was there.
Result<bool> make_private_directory(const std::string& path);

}  // namespace salus::os
