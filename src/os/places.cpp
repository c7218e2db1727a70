#include "os/places.h"

#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "os/trust.h"

namespace salus::os {
namespace {

/// Nothing if it is unset or empty.
std::optional<std::string> variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

/// A variable that names a directory for all programs: by the XDG specification, a relative path is invalid.
std::optional<std::string> directory_in(const char* name) {
    const auto value = variable(name);
    return value && value->starts_with('/') ? value : std::nullopt;
}

}  // namespace

std::string user_socket() {
    const auto runtime = directory_in("XDG_RUNTIME_DIR");
    return runtime ? *runtime + "/salus/socket" : directory_without_home() + "/socket";
}

std::string default_socket() {
    if (const auto named = variable("SALUS_SOCKET")) return absolute_path(*named);
    const auto is_there = [](const std::string& path) {
        struct stat status {};
        return ::stat(path.c_str(), &status) == 0;
    };
    const std::string own = user_socket();
    return !is_there(own) && (is_there(kSystemSocket) || is_there(kSystemMark)) ? kSystemSocket : own;
}

std::string user_directory(const char* name, const char* below_home) {
    if (const auto named = directory_in(name)) return *named + "/salus";
    if (const auto home = directory_in("HOME")) return *home + below_home + "/salus";
    return directory_without_home();
}

std::string default_state_directory() {
    const auto named = variable("SALUS_STATE");
    return named ? absolute_path(*named) : user_directory("XDG_STATE_HOME", "/.local/state");
}

}  // namespace salus::os
