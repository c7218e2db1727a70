#include "cli/configuration.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "os/places.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

/// Nothing if the file does not say.
std::optional<bool> require_in(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw UsageError{path + " cannot be read"};
    std::optional<bool> require;
    try {
        for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
            const std::string name = item.fullname();
            if (name != "require") throw UsageError{fmt::format("{}: there is no option '{}'", path, name)};
            const std::string value = item.inputs.size() == 1 ? item.inputs.front() : "";
            if (value != "true" && value != "false")
                throw UsageError{fmt::format("{}: require must be true or false; got '{}'", path, value)};
            require = value == "true";
        }
    } catch (const CLI::Error& problem) {
        throw UsageError{fmt::format("{}: {}", path, problem.what())};
    }
    return require;
}

}  // namespace

std::vector<std::string> configuration_files() {
    return {os::user_directory("XDG_CONFIG_HOME", "/.config") + "/salus.toml", "/etc/salus/salus.toml"};
}

Configuration read_configuration(const std::vector<std::string>& files) {
    Configuration read;
    for (const std::string& path : files) {
        std::error_code error;
        if (!std::filesystem::exists(path, error)) continue;
        if (const auto why = os::why_distrusted(path)) {
            read.not_trusted = fmt::format("{}; {} is not read", *why, path);
            continue;
        }
        const auto require = require_in(path);
        if (!require) continue;
        read.require = *require;
        break;
    }
    return read;
}

}  // namespace salus::cli
