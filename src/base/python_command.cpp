#include "base/python_command.h"

#include <string_view>

namespace salus {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_python(std::string_view name) {
    return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

}  // namespace

std::optional<PythonCommand> parse_python(const std::vector<std::string>& command) {
    using enum PythonCommand::Runs;
    if (command.empty() || !is_python(file_name(command[0]))) return std::nullopt;
    PythonCommand python;
    for (std::size_t i = 1; i < command.size(); ++i) {
        const std::string& word = command[i];
        if (word == "-" || !word.starts_with('-')) {
            python.runs = kScript;
            python.program = word;
            return python;
        }
        if (word == "--check-hash-based-pycs") ++i;
        if (word.starts_with("--")) continue;
        // Letters may stand together, "-um module"; these take the rest of the word, or the next one.
        const std::size_t last = word.find_first_of("mcWX", 1);
        const std::size_t shuts_out = word.substr(0, last).find_first_of("IES", 1);
        if (shuts_out != std::string::npos && python.shuts_out == 0) python.shuts_out = word[shuts_out];
        if (last == std::string::npos) continue;
        const std::string value = last + 1 < word.size() ? word.substr(last + 1) : ++i < command.size() ? command[i] : "";
        if (word[last] == 'W' || word[last] == 'X') continue;
        python.runs = word[last] == 'm' ? kModule : kCode;
        python.program = value;
        return python;
    }
    return python;
}

std::string name_of_command(const std::vector<std::string>& command) {
    using enum PythonCommand::Runs;
    const auto python = parse_python(command);
    const bool shows_what =
        python && (python->runs == kScript || python->runs == kModule) && python->program != "-" && !python->program.empty();
    return std::string(file_name(shows_what ? python->program : command[0]));
}

}  // namespace salus
