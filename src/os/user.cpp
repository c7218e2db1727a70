#include "os/user.h"

#include <pwd.h>

#include <array>

namespace salus::os {

std::string name_of_user(unsigned uid) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found;
    return known ? found->pw_name : std::to_string(uid);
}

}  // namespace salus::os
