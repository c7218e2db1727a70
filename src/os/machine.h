// Which machine this is: a home directory may be that of several.
#pragma once

#include <string>
#include <string_view>

namespace salus::os {

struct Machine {
    std::string host;
    std::string id;    ///< of /etc/machine-id; empty: there is none, as in many containers
    std::string boot;  ///< the same in all containers of a machine, until that starts again
};

Machine this_machine();

/// In one line, and back; what is missing in the text is empty.
std::string text_of(const Machine& machine);
Machine machine_in(std::string_view text);

/// By what lasts: the boot tells the containers of a machine, the id tells it after it has started again or been renamed.
/// The name counts only if there is no id to compare.
bool is_same(const Machine& a, const Machine& b);

}  // namespace salus::os
