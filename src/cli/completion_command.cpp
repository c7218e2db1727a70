// salus completion: a script for the shell, made from the program's own commands and options.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/usage.h"
#include "policies/table.h"

namespace salus::cli {
namespace {

bool takes_a_job(const CLI::App& command) {
    return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
        return option->get_positional() && (option->get_name() == "job" || option->get_name() == "jobs");
    });
}

std::string policies() {
    std::string names;
    for (const Policy* policy : all_policies())
        names += std::string(names.empty() ? "" : " ") + std::string(policy->info.name);
    return names;
}

/// Its options, and what else it takes: commands below it, or values of its argument.
std::vector<std::string> words_of(const CLI::App& command) {
    std::vector<std::string> words = long_options_of(command);
    for (const CLI::App* below : commands_of(command)) words.push_back(below->get_name());
    if (takes_a_job(command)) words.push_back("$(_salus_jobs \"$1\")");
    if (command.get_name() == "policy") words.push_back(policies());
    if (command.get_name() == "completion") words.push_back("bash zsh fish");
    return words;
}

// Other users choose the names of jobs, and compgen would run `$(...)` in one: only plain names are offered.
std::string bash(const CLI::App& program) {
    std::string commands;
    std::string cases;
    for (const CLI::App* command : commands_of(program)) {
        commands += command->get_name() + " ";
        cases += fmt::format("        {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(words_of(*command), " "));
    }
    return fmt::format(R"bash(_salus_jobs() {{
    timeout 2 "$1" ps --json 2>/dev/null | sed -n 's/^ *"name": "\([A-Za-z0-9._+-]*\)",*$/\1/p'
}}
_salus() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words="" i
    if [ "${{COMP_WORDS[1]}}" = run ]; then
        for ((i = 2; i < COMP_CWORD; ++i)); do
            [ "${{COMP_WORDS[i]}}" = -- ] || continue
            if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); return; fi
            [ "$i" -ne $((COMP_CWORD - 1)) ] || COMPREPLY=($(compgen -c -- "$word"))
            [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -o default -- "$word"))
            return
        done
    fi
    case ${{COMP_WORDS[1]}} in
{0}    esac
    if [ "${{COMP_WORDS[COMP_CWORD - 1]}}" = --policy ]; then words="{2} all"; fi
    if [ "$COMP_CWORD" -eq 1 ]; then words="{1}"; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [ ${{#COMPREPLY[@]}} -eq 0 ]; then COMPREPLY=($(compgen -o default -- "$word")); fi
}}
complete -F _salus salus
)bash",
                       cases, commands, policies());
}

/// Between single quotes fish takes a backslash before a quote or a backslash. (bash's script has no text of ours, only
/// names.)
std::string quoted_for_fish(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + "'";
}

std::string fish(const CLI::App& program) {
    std::string out;
    for (const CLI::App* command : commands_of(program)) {
        out += fmt::format("complete -c salus -n __fish_use_subcommand -a {} -d {}\n", command->get_name(),
                           quoted_for_fish(command->get_description()));
        for (const std::string& option : long_options_of(*command)) {
            out += fmt::format("complete -c salus -n '__fish_seen_subcommand_from {}' -l {}\n", command->get_name(),
                               option.substr(2));
        }
    }
    return out;
}

/// zsh can use bash's.
std::string zsh(const CLI::App& program) { return "autoload -U +X bashcompinit && bashcompinit\n" + bash(program); }

}  // namespace

void add_completion_command(CLI::App& program, Action& action) {
    CLI::App* completion =
        program.add_subcommand("completion", "Print a completion script: source <(salus completion bash)");
    auto shell = std::make_shared<std::string>();
    completion->add_option("shell", *shell, "bash, zsh or fish")->required();
    completion->callback([shell, &program, &action] {
        action = [shell, &program] {
            if (*shell == "bash") fmt::print("{}", bash(program));
            else if (*shell == "zsh") fmt::print("{}", zsh(program));
            else if (*shell == "fish") fmt::print("{}", fish(program));
            else throw UsageError{fmt::format("no completion for '{}'; choose bash, zsh or fish", *shell)};
            return 0;
        };
    });
}

}  // namespace salus::cli
