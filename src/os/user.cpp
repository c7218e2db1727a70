#include "os/user.h"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>

namespace salus::os {
namespace {
constexpr std::size_t kEntryMax = 16 << 20;
}

std::string name_of_user(unsigned uid) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found;
    return known ? found->pw_name : std::to_string(uid);
}

std::string local_name_of_user(unsigned uid) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
    if (!users) return std::to_string(uid);
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    while (::fgetpwent_r(users.get(), &entry, text.data(), text.size(), &found) == 0) {
        if (found->pw_uid == uid) return found->pw_name;
    }
    return std::to_string(uid);
}

std::string name_of_group(unsigned gid) {
    std::array<char, 16384> text;
    group entry{};
    group* found = nullptr;
    const bool known = ::getgrgid_r(gid, &entry, text.data(), text.size(), &found) == 0 && found;
    return known ? found->gr_name : std::to_string(gid);
}

namespace {
std::optional<unsigned> number_in(const std::string& text) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}
}  // namespace

std::optional<unsigned> user_called(const std::string& name) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found) == 0 && found) return found->pw_uid;
    return number_in(name);
}

std::optional<unsigned> group_called(const std::string& name) {
    // A group's entry names all its members.
    std::vector<char> text(16384);
    group entry{};
    group* found = nullptr;
    int error = 0;
    while ((error = ::getgrnam_r(name.c_str(), &entry, text.data(), text.size(), &found)) == ERANGE &&
           text.size() < kEntryMax)
        text.resize(text.size() * 4);
    if (error == 0 && found) return found->gr_gid;
    return number_in(name);
}

std::optional<std::vector<unsigned>> groups_of_user(unsigned uid) {
    std::array<char, 16384> text;
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(uid, &entry, text.data(), text.size(), &found) != 0 || !found) return std::nullopt;
    std::vector<gid_t> groups(64);
    auto count = static_cast<int>(groups.size());
    while (::getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) {
        if (count <= static_cast<int>(groups.size())) return std::nullopt;
        groups.resize(static_cast<std::size_t>(count));
    }
    return std::vector<unsigned>(groups.begin(), groups.begin() + count);
}

}  // namespace salus::os
