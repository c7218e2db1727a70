#include "os/program.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "os/descriptor.h"

extern char** environ;

namespace salus::os {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

/// posix_spawn's two arguments that are objects of the C library.
class SpawnSettings {
public:
    explicit SpawnSettings(const Launch& launch) {
        ::posix_spawn_file_actions_init(&files_);
        ::posix_spawnattr_init(&attributes_);
        if (launch.input >= 0) ::posix_spawn_file_actions_adddup2(&files_, launch.input, STDIN_FILENO);
        if (launch.output >= 0) ::posix_spawn_file_actions_adddup2(&files_, launch.output, STDOUT_FILENO);
        if (launch.output >= 0) ::posix_spawn_file_actions_adddup2(&files_, launch.output, STDERR_FILENO);
        int flags = launch.leads == Launch::Leads::kGroup ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID;
        if (launch.fresh) {
            // posix_spawn_file_actions_addclosefrom_np needs glibc 2.34. The listing's own descriptor is closed by then,
            // which posix_spawn does not mind.
            for (const int descriptor : open_descriptors())
                if (descriptor > STDERR_FILENO) ::posix_spawn_file_actions_addclose(&files_, descriptor);
            sigset_t none;
            ::sigemptyset(&none);
            ::posix_spawnattr_setsigmask(&attributes_, &none);
            sigset_t ignored;
            ::sigemptyset(&ignored);
            for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) ::sigaddset(&ignored, signal);
            ::posix_spawnattr_setsigdefault(&attributes_, &ignored);
            flags |= POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        }
        ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
    }
    ~SpawnSettings() {
        ::posix_spawnattr_destroy(&attributes_);
        ::posix_spawn_file_actions_destroy(&files_);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    const posix_spawn_file_actions_t& files() const { return files_; }
    const posix_spawnattr_t& attributes() const { return attributes_; }

private:
    posix_spawn_file_actions_t files_{};
    posix_spawnattr_t attributes_{};
};

std::optional<Exit> exit_of(int child, int options) {
    siginfo_t end{};
    const idtype_t kind = child == kAnyChild ? P_ALL : P_PID;
    if (::waitid(kind, static_cast<id_t>(std::max(child, 0)), &end, WEXITED | options) != 0 || end.si_pid == 0)
        return std::nullopt;
    return Exit{end.si_pid, end.si_code != CLD_EXITED, end.si_status};
}

}  // namespace

std::string find_program(std::string_view name, std::initializer_list<std::string_view> other_directories) {
    const char* path = std::getenv("PATH");
    std::vector<std::string_view> directories = split(path ? path : "", ':');
    directories.insert(directories.end(), other_directories);
    for (const std::string_view directory : directories) {
        std::string program = std::string(directory) + "/" + std::string(name);
        if (directory.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    }
    return {};
}

std::vector<std::string> environment_with(std::vector<std::string> settings, std::string_view left_out) {
    const std::size_t ours = settings.size();
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view name(*entry, std::strcspn(*entry, "="));
        const bool replaced =
            std::any_of(settings.begin(), settings.begin() + static_cast<std::ptrdiff_t>(ours),
                        [&](std::string_view setting) { return setting.substr(0, setting.find('=')) == name; });
        if (!replaced && (left_out.empty() || !name.starts_with(left_out))) settings.emplace_back(*entry);
    }
    return settings;
}

Result<int> spawn(const Launch& launch) {
    const SpawnSettings settings(launch);
    const std::vector<char*> arguments = pointers_to(launch.command);
    const std::vector<char*> environment = pointers_to(launch.environment);
    pid_t child = -1;
    // Not fork(): the CUDA driver's threads would make that unsafe, and a large process slow.
    const int why = ::posix_spawnp(&child, arguments[0], &settings.files(), &settings.attributes(), arguments.data(),
                                   environment.data());
    if (why != 0) return Error{"cannot execute " + launch.command[0] + ": " + std::strerror(why)};
    return child;
}

std::optional<Exit> reap(int child) { return exit_of(child, WNOHANG); }
std::optional<Exit> wait_for_end(int child) { return exit_of(child, 0); }
std::optional<Exit> look_for_end(int child) { return exit_of(child, WNOHANG | WNOWAIT); }

}  // namespace salus::os
