#include "os/places.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Places, TheOneToTalkToIsNamedByTheEnvironment) {
    const auto saved = [](const char* name) {
        const char* value = std::getenv(name);
        return value ? std::optional<std::string>(value) : std::nullopt;
    };
    const auto restore = [](const char* name, const std::optional<std::string>& value) {
        if (value) ::setenv(name, value->c_str(), 1);
        else ::unsetenv(name);
    };
    const auto socket = saved("SALUS_SOCKET");
    const auto runtime = saved("XDG_RUNTIME_DIR");
    ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    EXPECT_EQ(user_socket(), "/nowhere/salus/socket");
    ::setenv("SALUS_SOCKET", "/somewhere/else", 1);
    EXPECT_EQ(default_socket(), "/somewhere/else");
    EXPECT_EQ(user_socket(), "/nowhere/salus/socket");
    ::setenv("SALUS_SOCKET", "", 1);
    ::setenv("XDG_RUNTIME_DIR", "", 1);
    EXPECT_EQ(user_socket(), "/tmp/salus-" + std::to_string(::getuid()) + "/socket");
    restore("SALUS_SOCKET", socket);
    restore("XDG_RUNTIME_DIR", runtime);
}

}  // namespace
}  // namespace salus::os
