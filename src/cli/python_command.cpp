#include "cli/python_command.h"

#include <algorithm>
#include <filesystem>

namespace salus::cli {
namespace {

bool is_python(const std::string& word) {
    const std::string name = std::filesystem::path(word).filename().string();
    return name.starts_with("python") &&
           std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace

std::optional<PythonCommand> parse_python(const std::vector<std::string>& command) {
    if (command.empty() || !is_python(command[0])) return std::nullopt;
    PythonCommand python;
    std::size_t at = 1;
    for (; at < command.size(); ++at) {
        const std::string& word = command[at];
        if (word == "-" || !word.starts_with('-')) break;
        if (word == "--") {
            ++at;
            break;
        }
        if (word == "--check-hash-based-pycs") ++at;
        if (word.starts_with("--")) continue;
        for (std::size_t i = 1; i < word.size(); ++i) {  // options of one letter may share a word
            const char option = word[i];
            if (option == 'I' || option == 'E' || option == 'S')
                python.shuts_out = python.shuts_out ? python.shuts_out : option;
            if (option == 'W' || option == 'X') {
                if (i + 1 == word.size()) ++at;  // what it says is the next word
                break;
            }
            if (option == 'c' || option == 'm') {
                python.program = i + 1 == word.size() ? at + 1 : at;
                return python;
            }
        }
    }
    python.program = at;
    python.is_script = at < command.size() && command[at] != "-";
    return python;
}

std::string name_of_command(const std::vector<std::string>& command) {
    const auto python = parse_python(command);
    const bool shows_what =
        python && python->program < command.size() && (python->is_script || command[python->program - 1].ends_with('m'));
    return std::filesystem::path(command[shows_what ? python->program : 0]).filename().string();
}

}  // namespace salus::cli
