// salus completion: a script for the shell, made from the program's own commands and options.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "policies/table.h"
#include "sim/swarm.h"
#include "sim/workloads.h"
#include "usage/usage.h"

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

template <typename Named>
std::string names_in(std::span<const Named> all) {
    std::string names;
    for (const Named& one : all) names += (names.empty() ? "" : " ") + std::string(one.name);
    return names;
}

/// "batch|interactive" in its help: an option of fixed values.
std::string values_of(const CLI::Option& option) {
    if (option.check_lname("policy")) return policies() + " all";
    if (option.check_lname("workload")) return names_in(sim::all_workloads());
    if (option.check_lname("canary")) return names_in(sim::all_canaries());
    std::string values = option.get_type_name();
    if (values.find('|') == std::string::npos) return {};
    std::ranges::replace(values, '|', ' ');
    return values;
}

/// Values of a command's arguments that are words of their own.
std::string arguments_of(const CLI::App& command) {
    if (command.get_name() == "policy") return policies();
    if (command.get_name() == "completion") return "bash zsh fish";
    return command.get_name() == "set" ? "priority= weight= iterations= class=batch class=interactive" : "";
}

std::string names_of(const std::vector<const CLI::App*>& commands) {
    std::string names;
    for (const CLI::App* command : commands) names += (names.empty() ? "" : " ") + command->get_name();
    return names;
}

bool takes_value(const CLI::Option& option) { return !option.get_lnames().empty() && option.get_items_expected_max() > 0; }

/// A case for each option that takes a value: the words that it may have, or none, and then files are offered.
std::string value_cases(const CLI::App& command, const std::string& first_word) {
    std::string cases;
    for (const CLI::Option* option : command.get_options()) {
        if (!takes_value(*option)) continue;
        cases += fmt::format("        '{} --{}') words=\"{}\" ;;\n", first_word, option->get_lnames().front(),
                             values_of(*option));
    }
    return cases;
}

/// Its options, and what else it takes: commands below it, or values of its argument.
std::vector<std::string> words_of(const CLI::App& command, const CLI::App& program) {
    std::vector<std::string> words = long_options_of(command);
    for (const CLI::App* below : commands_of(command)) words.push_back(below->get_name());
    if (takes_a_job(command)) words.push_back("$(_salus_jobs \"$1\")");
    if (const std::string arguments = arguments_of(command); !arguments.empty()) words.push_back(arguments);
    if (command.get_name() == "help") words.push_back(names_of(commands_of(program)));
    return words;
}

/// Other users choose the names of jobs, and compgen would run `$(...)` in one: only plain names are offered.
std::string bash(const CLI::App& program) {
    std::string cases;
    std::string values;
    for (const CLI::App* command : commands_of(program)) {
        cases +=
            fmt::format("        {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(words_of(*command, program), " "));
        values += value_cases(*command, command->get_name());
        for (const CLI::App* below : commands_of(*command)) {
            cases += fmt::format("        '{} {}') words=\"{}\" ;;\n", command->get_name(), below->get_name(),
                                 fmt::join(words_of(*below, program), " "));
            values += value_cases(*below, command->get_name());
        }
    }
    return fmt::format(R"bash(_salus_jobs() {{
    timeout 2 "$1" ps --json 2>/dev/null | sed -n 's/^ *"name": "\([A-Za-z0-9._+-]*\)",*$/\1/p'
}}
_salus_service_options() {{
    timeout 2 "${{1}}d" --help 2>/dev/null | awk -v option="$2" '
        $1 == option && $2 ~ /[|]/ {{ sub(/=.*/, "", $2); gsub(/[|]/, " ", $2); values = $2 }}
        $1 ~ /^--/ {{ sub(/=.*/, "", $1); options = options " " $1 }}
        END {{ print values ? values : options }}'
}}
_salus() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words="" i
    if [ "$word" = = ]; then word=""; elif [ "$before" = = ]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    if [ "${{COMP_WORDS[1]}}" = run ]; then
        for ((i = 2; i < COMP_CWORD; ++i)); do
            [ "${{COMP_WORDS[i]}}" = -- ] || continue
            if type _command_offset >/dev/null 2>&1; then _command_offset $((i + 1)); return; fi
            [ "$i" -ne $((COMP_CWORD - 1)) ] || COMPREPLY=($(compgen -c -- "$word"))
            return
        done
    fi
    local named=${{COMP_WORDS[1]}}
    if [ "$COMP_CWORD" -gt 2 ]; then named="$named ${{COMP_WORDS[2]}}"; fi
    for i in "${{COMP_WORDS[1]}}" "$named"; do
        case $i in
{0}        'start --') words=$(_salus_service_options "$1" "$before") ;;
        esac
    done
    case "${{COMP_WORDS[1]}} $before" in
{2}        'set class') words="batch interactive" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then words="{1}"; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case ${{COMPREPLY[0]:-}} in *=) compopt -o nospace 2>/dev/null ;; esac
}}
complete -o default -F _salus salus
)bash",
                       cases, names_of(commands_of(program)), values);
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

std::string fish_options(const CLI::App& command, const std::string& condition) {
    std::string out;
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_lnames().empty()) continue;
        const std::string values = values_of(*option);
        out += fmt::format(
            "complete -c salus -n {} -l {}{} -d {}\n", quoted_for_fish(condition), option->get_lnames().front(),
            !values.empty() ? " -x -a " + quoted_for_fish(values) : std::string(takes_value(*option) ? " -r" : ""),
            quoted_for_fish(option->get_description()));
    }
    return out;
}

std::string fish(const CLI::App& program) {
    std::string out = R"fish(function __salus_jobs
    timeout 2 salus ps --json 2>/dev/null | string replace -rf '^ *"name": "([A-Za-z0-9._+-]*)",*$' '$1'
end
function __salus_service_options
    timeout 2 salusd --help 2>/dev/null | string replace -rf '^ *(--[a-z-]+).*' '$1'
end
)fish";
    for (const CLI::App* command : commands_of(program)) {
        const std::string& name = command->get_name();
        const std::string here = "__fish_seen_subcommand_from " + name;
        out += fmt::format("complete -c salus -n __fish_use_subcommand -f -a {} -d {}\n", name,
                           quoted_for_fish(command->get_description()));
        out += fish_options(*command, here);
        const std::string below = names_of(commands_of(*command));
        std::string arguments = arguments_of(*command);
        if (name == "help") arguments = names_of(commands_of(program));
        if (name == "start") arguments = "(__salus_service_options)";
        if (takes_a_job(*command)) arguments = "(__salus_jobs)" + (arguments.empty() ? "" : " " + arguments);
        if (!arguments.empty())
            out += fmt::format("complete -c salus -n {} -f -a {}\n", quoted_for_fish(here), quoted_for_fish(arguments));
        for (const CLI::App* part : commands_of(*command)) {
            out += fmt::format("complete -c salus -n {} -f -a {} -d {}\n",
                               quoted_for_fish(here + "; and not __fish_seen_subcommand_from " + below), part->get_name(),
                               quoted_for_fish(part->get_description()));
            out += fish_options(*part, here + "; and __fish_seen_subcommand_from " + part->get_name());
        }
        if (name == "run") out += "complete -c salus -n '" + here + "' -a '(__fish_complete_subcommand --fcs-skip=2)'\n";
    }
    return out;
}

/// zsh can use bash's. As a file in $fpath, which zsh reads when it first completes, it completes at once.
std::string zsh(const CLI::App& program) {
    std::string script = bash(program);
    for (std::size_t at = 0; (at = script.find("_salus", at)) != std::string::npos; at += 6) {
        const bool whole = script.compare(at, 11, "_salus_jobs") != 0 && script.compare(at, 14, "_salus_service") != 0;
        if (whole) script.insert(at + 6, "_words"), at += 6;
    }
    return "#compdef salus\nautoload -U +X bashcompinit && bashcompinit\n" + script +
           "if [[ ${funcstack[1]} == _salus ]]; then _bash_complete -o default -F _salus_words; fi\n";
}

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
