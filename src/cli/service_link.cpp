#include "cli/service_link.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "os/clock.h"
#include "os/places.h"
#include "os/socket.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

/// salusd's exit status if what it was given makes no sense.
constexpr int kOptionsRefused = 2;

}  // namespace

Result<std::string> ask_service(const std::string& socket, const std::string& command) {
    if (command.size() >= 384) return Error{"the command is too long"};
    Result<os::Descriptor> connection = os::connect_to(socket);
    if (!connection) return Error{connection.error()};
    // If it cannot be sent, the reason may be there to be read.
    wire::send(connection.value().get(), wire::Command{wire::Text<384>(command)});
    wire::Received received = wire::receive(connection.value().get());
    if (received.kind == wire::Received::Kind::kGarbage) return Error{"the service " + received.why};
    if (received.kind != wire::Received::Kind::kMessage) return Error{"the service does not answer"};
    if (const auto* sorry = std::get_if<wire::Sorry>(&received.message)) return Error{std::string(sorry->why.view())};
    const auto* answer = std::get_if<wire::Answer>(&received.message);
    if (!answer || !received.descriptors[0] || answer->size > (std::uint64_t{1} << 30))
        return Error{"the service gave no answer"};
    std::string text(answer->size, '\0');
    if (::pread(received.descriptors[0].get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return Error{"the service's answer cannot be read"};
    }
    if (answer->ok == 0) return Error{text};
    return text;
}

std::string own_directory() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::optional<StartFailure> start_service(const std::string& socket, const std::vector<std::string>& options) {
    const std::string state = os::default_state_directory();
    if (const Result<bool> made = os::make_private_directory(state); !made) return StartFailure{made.error()};
    const std::string log = state + "/salusd.log";
    const os::Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!output) return StartFailure{log + ": " + std::strerror(errno)};

    std::vector<std::string> words = {own_directory() + "/salusd", "--socket", socket, "--state", state};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child < 0) return StartFailure{std::string("fork: ") + std::strerror(errno)};
    if (child == 0) {
        ::setsid();  // it outlives the terminal
        const int nothing = ::open("/dev/null", O_RDONLY);
        ::dup2(nothing, STDIN_FILENO);
        ::dup2(output.get(), STDOUT_FILENO);
        ::dup2(output.get(), STDERR_FILENO);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    for (int i = 0; i < 2000; ++i) {  // a GPU takes its time
        if (os::connect_to(socket)) return std::nullopt;
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) == child) {
            // Two may have been started at once: the other one has the lock.
            if (os::connect_to(socket)) return std::nullopt;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return StartFailure{"cannot start " + words[0]};
            std::ifstream said(log);
            const bool refused = WIFEXITED(status) && WEXITSTATUS(status) == kOptionsRefused;
            return StartFailure{"the service did not start: " + last_line_of(said), refused};
        }
        os::sleep_for(milliseconds(10));
    }
    return StartFailure{"the service does not come up; see " + log};
}

Result<os::Descriptor> connect_or_start(const std::string& socket) {
    Result<os::Descriptor> connection = os::connect_to(socket);
    if (connection) return connection;
    if (const auto failure = start_service(socket, {})) return Error{failure->why};
    return os::connect_to(socket);
}

}  // namespace salus::cli
