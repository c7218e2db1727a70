// salus help and salus version: the same as --help and --version.
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/version.h"
#include "cli/commands.h"

namespace salus::cli {
namespace {

int help(const CLI::App& program, const std::vector<std::string>& words) {
    const CLI::App* command = &program;
    std::string above;
    for (const std::string& word : words) {
        const auto found = command->get_subcommands([&](const CLI::App* below) { return below->get_name() == word; });
        if (found.empty()) throw UsageError{fmt::format("there is no command '{}'; salus help lists them", word)};
        above += (above.empty() ? "" : " ") + command->get_name();
        command = found.front();
    }
    fmt::print("{}", command->get_formatter()->make_help(
                         command, above.empty() ? command->get_name() : above + " " + command->get_name(),
                         CLI::AppFormatMode::Normal));
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
