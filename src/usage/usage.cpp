#include "usage/usage.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/text.h"

namespace salus {
namespace {

/// The command that was named, with those above it: "sim fuzz"; empty: none. `help` prints what it takes.
struct NamedCommand {
    const CLI::App* app;
    std::string path;
    std::string help;

    /// To begin a line about it.
    std::string prefix() const { return path.empty() ? "" : path + ": "; }
};

/// The program itself, the command below it, the one below that. A program with commands has one that explains them.
std::vector<NamedCommand> named_commands(const CLI::App& program) {
    const std::string help = program.get_name() + (commands_of(program).empty() ? " --help" : " help");
    std::vector<NamedCommand> chain = {{&program, "", help}};
    for (auto below = program.get_subcommands(); !below.empty(); below = below.front()->get_subcommands()) {
        const std::string& above = chain.back().path;
        const std::string path = (above.empty() ? "" : above + " ") + below.front()->get_name();
        chain.push_back({below.front(), path, help + " " + path});
    }
    return chain;
}

std::string nearest_of(const std::vector<std::string>& names, const std::string& typed) {
    return did_you_mean(typed, std::vector<std::string_view>(names.begin(), names.end()));
}

std::string no_option(const NamedCommand& command, const std::string& word) {
    const std::string typed = word.substr(0, word.find('='));
    std::string hint = nearest_of(long_options_of(*command.app), typed);
    if (hint.empty()) hint = "; " + command.help + " lists them";
    // `salus start` hands over options that it does not know itself.
    if (command.app->get_option_no_throw("options")) hint = "; options of the service follow --";
    return fmt::format("{}no option '{}'{}", command.prefix(), typed, hint);
}

/// A word that no option and no argument takes; empty: there is none.
std::string explain_extra(const std::vector<NamedCommand>& chain) {
    for (const NamedCommand& command : chain) {
        const std::vector<std::string> extras = command.app->remaining();
        const auto word = std::ranges::find_if(extras, [](const std::string& extra) { return extra != "--"; });
        if (word == extras.end()) continue;
        if (word->size() > 1 && word->front() == '-') return no_option(command, *word);
        const bool is_last = command.app == chain.back().app;
        if (is_last && !commands_of(*command.app).empty()) return no_command(*command.app, *word);
        return fmt::format("{}'{}' is one argument too many; {} explains it", command.prefix(), *word, command.help);
    }
    return {};
}

/// The option or argument that an error is about; null: unknown. The error has no more than its text.
const CLI::Option* option_in(const CLI::App& app, const std::string& text) {
    const auto is_in = [&](const std::string& name) {
        const std::size_t at = text.find(name);
        const std::string_view after = at == std::string::npos ? "x" : std::string_view(text).substr(at + name.size());
        return after.empty() || after.front() == ' ' || after.front() == ':';
    };
    const auto options = app.get_options();
    const auto found = std::ranges::find_if(options, [&](const CLI::Option* option) { return is_in(option->get_name()); });
    return found == options.end() ? nullptr : *found;
}

/// As people type it: "--name", "JOB".
std::string shown_name(const CLI::Option& option) {
    if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
    if (!option.get_snames().empty()) return "-" + option.get_snames().front();
    std::string name = option.get_name();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name;
}

std::string explain_value(const CLI::Option& option) {
    const std::string name = shown_name(option);
    if (option.get_items_expected_max() == 0) return name + " takes no value";
    const std::string value = option.results().empty() ? "" : option.results().back();
    if (parse_integer(value)) return fmt::format("{}: '{}' is out of range", name, value);
    const bool fraction = option.get_type_name() == "FLOAT";
    return fmt::format("{} must be a {}; got '{}'", name, fraction ? "number" : "whole number", value);
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

std::vector<std::string> long_options_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
}

std::string no_command(const CLI::App& above, const std::string& name) {
    std::vector<std::string> names;
    for (const CLI::App* command : commands_of(above)) names.push_back(command->get_name());
    const std::string hint = nearest_of(names, name);
    return fmt::format("no command '{}'{}", name, hint.empty() ? "; salus help lists them" : hint);
}

std::string explain(const CLI::App& program, const CLI::ParseError& error) {
    const std::vector<NamedCommand> chain = named_commands(program);
    // Before what is missing: a mistyped option is often the reason.
    if (const std::string extra = explain_extra(chain); !extra.empty()) return extra;
    const NamedCommand& command = chain.back();
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const CLI::Option* option = option_in(*command.app, error.what());
    if (is_missing && !option && !commands_of(*command.app).empty())
        return fmt::format("{}no command given; {} lists them", command.prefix(), command.help);
    if (is_missing && option)
        return fmt::format("{} needs {}; {} explains it", command.path, shown_name(*option), command.help);
    const bool is_value =
        dynamic_cast<const CLI::ConversionError*>(&error) || dynamic_cast<const CLI::ValidationError*>(&error);
    if (option && is_value) return explain_value(*option);
    if (option && dynamic_cast<const CLI::ArgumentMismatch*>(&error))
        return fmt::format("{} {}", shown_name(*option), option->count() > 1 ? "is given twice" : "needs a value");
    return fmt::format("{}an argument is wrong; {} explains them", command.prefix(), command.help);
}

}  // namespace salus
