// The files of the page, from web/: CMake puts them into the program.
#pragma once

#include <string_view>

namespace salus::web {

struct Asset {
    std::string_view name;
    std::string_view type;  ///< as HTTP names it
    std::string_view text;
};
/// nullptr: there is none of that name. The empty name is the page itself.
const Asset* find_asset(std::string_view name);

}  // namespace salus::web
