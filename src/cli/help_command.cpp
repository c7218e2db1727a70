// salus help and salus version: the same as --help and --version.
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/version.h"
#include "cli/commands.h"
#include "usage/usage.h"

namespace salus::cli {
namespace {

const CLI::App& find_command(const CLI::App& above, const std::string& name) {
    for (const CLI::App* command : commands_of(above)) {
        if (command->get_name() == name) return *command;
    }
    throw UsageError{no_command(above, name)};
}

int help(const CLI::App& program, const std::vector<std::string>& words) {
    const CLI::App* command = &program;
    std::string path = program.get_name();
    for (const std::string& word : words) {
        command = &find_command(*command, word);
        path += " " + word;
    }
    // Not help(): that would be the help of this command, which was named.
    fmt::print("{}", command->get_formatter()->make_help(command, path, CLI::AppFormatMode::Normal));
    return 0;
}

}  // namespace

std::string version_text() { return std::string("salus ") + kSalusVersion; }

void add_help_command(CLI::App& program, Action& action) {
    auto words = std::make_shared<std::vector<std::string>>();
    CLI::App* command = program.add_subcommand("help", "Explain a command");
    command->add_option("command", *words, "The command; without one, all commands are listed");
    command->callback([words, &program, &action] { action = [words, &program] { return help(program, *words); }; });
    program.add_subcommand("version", "Print the version")->callback([&action] {
        action = [] { return fmt::print("{}\n", version_text()), 0; };
    });
}

}  // namespace salus::cli
