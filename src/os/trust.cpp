// Note [Trust]
// A path is walked name by name, links included. Each directory on the way, and the file at its end, must belong to this
// user or to root, and must not be writable by others. Otherwise another user could have written the file, or could replace
// it. A directory above may be writable if it is sticky, as /tmp is: there only an entry's owner can remove it, and that
// owner is checked. Below a directory that others cannot enter, only owners are checked.
#include "os/trust.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "os/file.h"

namespace salus::os {
namespace {

constexpr int kLinksMax = 40;
/// In a user namespace, the files of all users that it does not map (root's among them) appear under this id. So it is
/// accepted only for directories above.
constexpr uid_t kUnmapped = 65534;

/// Where each user has a group of their own, with the same number, files are often writable by that group. Nobody else is in
/// it.
bool is_harmless(gid_t group) { return group == 0 || (group == ::getgid() && group == ::getuid()); }

/// `what` is S_IWOTH or S_IXOTH.
bool others_may(mode_t what, const struct stat& status) {
    return (status.st_mode & what) != 0 || ((status.st_mode & what << 3) != 0 && !is_harmless(status.st_gid));
}

/// Pushes the names of a path onto the stack of names still to be walked; the next one to walk is the last.
void push_names(std::vector<std::string>& names, std::string_view path) {
    std::size_t end = path.size();
    while (end > 0) {
        const std::size_t slash = path.rfind('/', end - 1);
        const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
        if (begin < end) names.emplace_back(path.substr(begin, end - begin));
        end = slash == std::string_view::npos ? 0 : slash;
    }
}

std::optional<std::string> why_distrusted(const std::string& here, const struct stat& status, bool above, bool closed) {
    const bool trusted_owner = status.st_uid == ::getuid() || status.st_uid == 0 || (above && status.st_uid == kUnmapped);
    if (!trusted_owner) return here + " belongs to " + describe_other_user(status.st_uid);
    if (S_ISLNK(status.st_mode) || S_ISCHR(status.st_mode)) return std::nullopt;  // a device such as /dev/null
    const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if (!closed && others_may(S_IWOTH, status) && !(above && sticky))
        return here + " can be written by other users; chmod go-w helps";
    if (here == directory_without_home() && (status.st_uid != ::getuid() || (status.st_mode & 077) != 0))
        return here + " is open to other users; chmod 700 helps";
    return std::nullopt;
}

}  // namespace

std::string absolute_path(std::string_view path) {
    if (path.starts_with('/')) return std::string(path);
    char directory[PATH_MAX];
    if (!::getcwd(directory, sizeof directory)) return std::string(path);
    return std::string(directory) + "/" + std::string(path);
}

std::string directory_without_home() { return "/tmp/salus-" + std::to_string(::getuid()); }

std::optional<std::string> why_distrusted(const std::string& path) {
    std::vector<std::string> names;
    push_names(names, absolute_path(path));
    std::string at;       // the root has no name
    bool closed = false;  // other users cannot get further than here
    for (int links = 0; !names.empty();) {
        const std::string name = names.back();
        names.pop_back();
        if (name == ".") continue;
        if (name == "..") {
            at.erase(at.empty() ? 0 : at.rfind('/'));
            closed = false;
            continue;
        }
        const std::string here = at + "/" + name;
        struct stat status {};
        if (::lstat(here.c_str(), &status) != 0) return std::nullopt;  // opening it will tell why
        const bool is_link = S_ISLNK(status.st_mode);
        if (auto why = why_distrusted(here, status, /*above=*/is_link || !names.empty(), closed)) return why;
        if (!is_link) {
            at = here;
            closed = closed || (status.st_uid != kUnmapped && S_ISDIR(status.st_mode) && !others_may(S_IXOTH, status));
            continue;
        }
        char target[PATH_MAX];
        const ssize_t size = ::readlink(here.c_str(), target, sizeof target);
        if (size <= 0 || ++links > kLinksMax) return here + " is a link that leads nowhere";
        const std::string_view leads_to(target, static_cast<std::size_t>(size));
        push_names(names, leads_to);
        if (leads_to.starts_with('/')) at.clear();
        closed = false;
    }
    return std::nullopt;
}

std::string describe_other_user(unsigned uid) {
    if (uid != kUnmapped) return "another user";
    constexpr const char* kMapsAll = " 4294967295";  // as many as there are: this is no container
    const Result<std::string> map = read_file("/proc/self/uid_map");
    const bool is_told = !map || map.value().find(kMapsAll) != std::string::npos;
    return is_told ? "another user" : "a user whom this user namespace does not map";
}

Result<bool> make_private_directory(const std::string& named) {
    const std::string path = named.substr(0, named.find_last_not_of('/') + 1);
    if (const auto why = why_distrusted(path)) return Error{*why};
    bool made = false;
    for (std::size_t end = 0; end != std::string::npos;) {
        end = path.find('/', end + 1);
        const std::string part = path.substr(0, end);
        made = ::mkdir(part.c_str(), end == std::string::npos ? 0700 : 0755) == 0;
        struct stat status {};
        if (!made && errno != EEXIST) {
            const int why = errno;  // a file system may refuse a directory that exists
            if (::stat(part.c_str(), &status) != 0) return Error{part + ": " + std::strerror(why)};
        }
    }
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return Error{path + " is not a directory"};
    if (status.st_uid != ::getuid()) return Error{path + " belongs to " + describe_other_user(status.st_uid)};
    if (const auto why = why_distrusted(path)) return Error{*why};  // another user may have been faster
    return made;
}

}  // namespace salus::os
