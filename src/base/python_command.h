// Commands that start Python: what they run, and whether Python reads its environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace salus {

struct PythonCommand {
    enum class Runs : std::uint8_t { kNothing, kScript, kModule, kCode } runs = Runs::kNothing;
    std::string program;  ///< the script ("-": standard input), the module's name, or the code
    char shuts_out = 0;   ///< the option that makes Python ignore its environment: I, E or S; 0: none
};

/// Nothing if the command's name is not that of Python: python, python3, python3.11.
std::optional<PythonCommand> parse_python(const std::vector<std::string>& command);

/// A name for the job: the script or module rather than "python". REQUIRES: at least one word.
std::string name_of_command(const std::vector<std::string>& command);

}  // namespace salus
