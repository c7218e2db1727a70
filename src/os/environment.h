// The environment of this process.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace salus::os {

/// Sets these variables at once, for a process whose other threads may read its environment meanwhile: unlike setenv(), it
/// changes and frees nothing that they have found. Only one thread may change the environment at a time.
void set_variables(const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace salus::os
