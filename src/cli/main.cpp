#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "base/characters.h"
#include "cli/commands.h"
#include "usage/usage.h"

namespace {

/// Messages of the service contain names that other people chose.
void say(const std::string& message) { std::fprintf(stderr, "salus: %s\n", salus::printable(message).c_str()); }

}  // namespace

int main(int argc, char** argv) {
    CLI::App program("Salus: several deep-learning jobs share one GPU.", "salus");
    salus::cli::Action action;
    salus::cli::add_commands(program, action);
    try {
        program.parse(argc, argv);
        const int status = action();
        if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
            std::fprintf(stderr, "salus: cannot write to standard output\n");
            return 1;
        }
        return status;
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
        say(salus::explain(program, error));
    } catch (const salus::cli::Failure& failure) {
        say(failure.message);
        return failure.status;
    } catch (const salus::cli::UsageError& error) {
        say(error.message);
    }
    return 2;
}
