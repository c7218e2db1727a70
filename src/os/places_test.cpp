#include "os/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "os/file.h"
#include "os/socket.h"

namespace salus::os {
namespace {

/// Of this test alone. Processes of several users and the machine's service: tests/found_test.cpp.
class Places : public ::testing::Test {
protected:
    Places() {
        for (const char* name : {"SALUS_SOCKET", "SALUS_STATE", "XDG_RUNTIME_DIR"}) {
            const char* value = std::getenv(name);
            saved_[name] = value ? std::optional<std::string>(value) : std::nullopt;
            ::unsetenv(name);
        }
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-places-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        ::chmod(directory_.c_str(), 0755);  // where others cannot go, they cannot write
        ::setenv("SALUS_STATE", (directory_ + "/state").c_str(), 1);
        std::filesystem::create_directory(directory_ + "/state");
    }
    ~Places() override {
        for (const auto& [name, value] : saved_) {
            if (value) ::setenv(name.c_str(), value->c_str(), 1);
            else ::unsetenv(name.c_str());
        }
        std::filesystem::remove_all(directory_);
    }
    std::string runtime_directory() const { return directory_ + "/runtime"; }
    std::string in_runtime_directory() const { return runtime_directory() + "/salus/socket"; }
    Descriptor listen_in(const std::string& directory) const {
        std::filesystem::create_directories(directory);
        Result<Descriptor> socket = listen_at(directory + "/socket", 0600);
        EXPECT_TRUE(socket) << socket.error();
        return std::move(socket).value();
    }
    static std::string without_session() {
        const std::string uid = std::to_string(::getuid());
        struct stat status {};
        const bool logged_in = ::stat(("/run/user/" + uid).c_str(), &status) == 0 && status.st_uid == ::getuid();
        return logged_in ? "/run/user/" + uid + "/salus/socket" : "/tmp/salus-" + uid + "/socket";
    }

    std::string directory_;

private:
    std::map<std::string, std::optional<std::string>> saved_;
};

TEST_F(Places, TheUsersSocketIsInTheRuntimeDirectoryWhileThereIsOne) {
    ::setenv("XDG_RUNTIME_DIR", runtime_directory().c_str(), 1);
    EXPECT_EQ(user_socket(), without_session()) << "nobody has made it";
    std::filesystem::create_directory(runtime_directory());
    EXPECT_EQ(user_socket(), in_runtime_directory());
    ::setenv("XDG_RUNTIME_DIR", "runtime", 1);
    EXPECT_EQ(user_socket(), without_session()) << "a relative path is invalid";
    ::setenv("XDG_RUNTIME_DIR", "/proc", 1);
    if (::getuid() != 0) {
        EXPECT_EQ(user_socket(), without_session()) << "it is another user's";
    }
    ::unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ(user_socket(), without_session());
}

TEST_F(Places, TheEnvironmentNamesAServiceThatNobodyElseStarts) {
    ::setenv("SALUS_SOCKET", (directory_ + "/named/socket").c_str(), 1);
    Service found = find_service();
    EXPECT_EQ(found.whose, Whose::kNamed);
    EXPECT_TRUE(found.is_absent);
    EXPECT_EQ(found.connection.error(), "no service runs at " + directory_ + "/named/socket");
    const Descriptor listener = listen_in(directory_ + "/named");
    found = find_service();
    EXPECT_TRUE(found.connection);
    EXPECT_FALSE(found.is_absent);
    EXPECT_EQ(find_service_at(kSystemSocket).whose, Whose::kMachines);
}

// `salus run` names the socket to its job, in which it may have to start the service again.
TEST_F(Places, AJobsVariableMayNameTheUsersOwn) {
    ::setenv("XDG_RUNTIME_DIR", runtime_directory().c_str(), 1);
    std::filesystem::create_directory(runtime_directory());
    ::setenv("SALUS_SOCKET", in_runtime_directory().c_str(), 1);
    EXPECT_EQ(find_service().whose, Whose::kOwn);
    EXPECT_EQ(find_service().socket, in_runtime_directory());
    std::filesystem::remove(runtime_directory());
    EXPECT_EQ(find_service().whose, Whose::kOwn) << "after a logout";
    EXPECT_EQ(find_service().socket, without_session());
}

TEST_F(Places, TheLockOfTheStateDirectoryIsFollowed) {
    ::setenv("XDG_RUNTIME_DIR", runtime_directory().c_str(), 1);
    std::filesystem::create_directory(runtime_directory());
    const Descriptor moved = listen_in(directory_ + "/elsewhere");
    const std::string elsewhere = directory_ + "/elsewhere/socket";
    ASSERT_TRUE(write_file(lock_in(default_state_directory()), elsewhere));
    Service found = find_service_at(in_runtime_directory());
    EXPECT_TRUE(found.connection);
    EXPECT_EQ(found.at, elsewhere);
    EXPECT_EQ(found.socket, in_runtime_directory());
    const Descriptor at_home = listen_in(runtime_directory() + "/salus");
    EXPECT_EQ(find_service_at(in_runtime_directory()).at, in_runtime_directory()) << "the usual place comes first";
}

TEST_F(Places, ALockThatOthersCouldHaveWrittenIsNotFollowed) {
    ::setenv("XDG_RUNTIME_DIR", runtime_directory().c_str(), 1);
    std::filesystem::create_directory(runtime_directory());
    const Descriptor moved = listen_in(directory_ + "/elsewhere");
    const std::string lock = lock_in(default_state_directory());
    ASSERT_TRUE(write_file(lock, directory_ + "/elsewhere/socket"));
    ::chmod(lock.c_str(), 0666);
    EXPECT_FALSE(find_service_at(in_runtime_directory()).connection);
    ::chmod(lock.c_str(), 0600);
    EXPECT_TRUE(find_service_at(in_runtime_directory()).connection);
}

}  // namespace
}  // namespace salus::os
