// Commands that start Python: what they run, and whether the adaptor gets in. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace salus::cli {

struct PythonCommand {
    std::size_t program = 0;  ///< index of the script, of the module's name after -m, or of the code after -c
    bool is_script = false;   ///< else a module or code; neither: it reads its standard input, and `program` is the end
    char shuts_out = 0;       ///< the option by which Python does not look at its environment: I, E or S; 0: none
};

/// Nothing if it is no Python, by its name.
std::optional<PythonCommand> parse_python(const std::vector<std::string>& command);

/// What to call a job: the script or module rather than "python".
std::string name_of_command(const std::vector<std::string>& command);

}  // namespace salus::cli
