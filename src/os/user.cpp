#include "os/user.h"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <charconv>

namespace salus::os {

std::string name_of_user(unsigned uid) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found;
    return known ? found->pw_name : std::to_string(uid);
}

std::string name_of_group(unsigned gid) {
    std::array<char, 16384> text;
    group entry{};
    group* found = nullptr;
    const bool known = ::getgrgid_r(gid, &entry, text.data(), text.size(), &found) == 0 && found;
    return known ? found->gr_name : std::to_string(gid);
}

std::optional<unsigned> user_called(const std::string& name) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found) == 0 && found) return found->pw_uid;
    unsigned uid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), uid);
    return error == std::errc{} && end == name.data() + name.size() ? std::optional(uid) : std::nullopt;
}

}  // namespace salus::os
