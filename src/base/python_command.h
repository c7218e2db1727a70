// Commands that start Python: what they run, and whether anything gets in by its environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace salus {

struct PythonCommand {
    enum class Runs : std::uint8_t { kNothing, kScript, kModule, kCode } runs = Runs::kNothing;
    std::string program;  ///< the script ("-": standard input), the module's name, or the code
    char shuts_out = 0;   ///< the option by which Python does not look at its environment: I, E or S; 0: none
};

/// Nothing if it is no Python, by its name: python, python3, python3.11.
std::optional<PythonCommand> parse_python(const std::vector<std::string>& command);

/// What to call it: the script or module rather than "python". REQUIRES: at least one word.
std::string name_of_command(const std::vector<std::string>& command);

}  // namespace salus
