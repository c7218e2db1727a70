#include "cli/runnable.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.h"

namespace salus::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

bool is_executable(const std::string& path) {
    std::error_code error;
    return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, error);
}

/// As execvp() looks for it.
bool is_in_path(const std::string& program) {
    const char* path = std::getenv("PATH");
    if (!path) return true;  // there is a default, which only execvp() knows
    return std::ranges::any_of(split(path, ':'), [&](std::string_view directory) {
        return is_executable(fmt::format("{}/{}", directory.empty() ? "." : directory, program));
    });
}

}  // namespace

std::optional<Failure> why_not_runnable(const std::string& program) {
    const bool is_path = program.find('/') != std::string::npos;
    if (is_path ? is_executable(program) : is_in_path(program)) return std::nullopt;
    std::error_code error;
    if (program.empty() || !fs::exists(program, error))
        return Failure{is_path ? fmt::format("no file '{}'", program) : fmt::format("no command '{}' in PATH", program),
                       kNotFound};
    if (fs::is_directory(program, error)) return Failure{fmt::format("{} is a directory", program), kNotExecutable};
    if (is_executable(program))
        return Failure{fmt::format("no command '{0}' in PATH; did you mean './{0}'?", program), kNotFound};
    if (program.ends_with(".py")) {
        const char* python = is_in_path("python") ? "python" : "python3";
        return Failure{fmt::format("{0} is not executable; did you mean '{1} {0}'?", program, python), kNotExecutable};
    }
    return Failure{fmt::format("{0} is not executable; chmod +x {0} makes it so", program), kNotExecutable};
}

}  // namespace salus::cli
