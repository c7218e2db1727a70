// What is wrong with a command line, in our own words.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace salus {

/// The commands directly below `app`, and its long options with their dashes.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
std::vector<std::string> long_options_of(const CLI::App& app);

/// That `above` has no command of this name, and which is the nearest one.
std::string no_command(const CLI::App& above, const std::string& name);

/// One line. The program has just failed to parse its arguments.
std::string explain(const CLI::App& program, const CLI::ParseError& error);

}  // namespace salus
