// salus profiles: what commands have needed on this node, and on several, for a cluster's engine (docs/cluster.md).
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/history_file.h"
#include "cli/shares.h"
#include "history/profiles.h"
#include "os/file.h"

namespace salus::cli {
namespace {

history::Profiles profiles_of_node(const std::string& lane) {
    const Shares shares = shares_of_service(lane);
    history::Profiles profiles;
    merge(profiles, {history::Profiles::Shares{shares.capacity, shares.lane}, history::profiles_of(records_of_history())});
    return profiles;
}

std::string text_in(const std::string& file) {
    if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
    Result<std::string> text = os::read_file(file);
    if (!text) throw Failure{text.error()};
    return std::move(text).value();
}

history::Profiles profiles_in(const std::vector<std::string>& files) {
    history::Profiles all;
    for (const std::string& file : files) {
        const Result<history::Profiles> read = history::read_profiles(text_in(file));
        if (!read) throw Failure{(file == "-" ? "standard input" : file) + ": " + read.error()};
        merge(all, read.value());
    }
    return all;
}

/// An engine may be reading the file: it sees the old profiles or the new ones.
int put_profiles(const history::Profiles& profiles, const std::string& file) {
    const std::string text = text_of(profiles);
    if (file.empty()) fmt::print("{}", text);
    else if (const auto written = os::replace_file(file, text); !written) throw Failure{written.error()};
    return 0;
}

}  // namespace

void add_profiles_command(CLI::App& program, Action& action) {
    CLI::App* profiles = program.add_subcommand("profiles", "Tell a cluster's engine what commands have needed");
    profiles->require_subcommand(1);
    struct Arguments {
        std::string lane, output;
        std::vector<std::string> files = {"-"};
    };
    auto a = std::make_shared<Arguments>();
    const auto add = [&](const char* name, const char* about) {
        CLI::App* command = profiles->add_subcommand(name, about);
        command->add_option("-o,--output", a->output, "Write to this file (default: standard output)")->type_name("FILE");
        return command;
    };
    CLI::App* one = add("export", "What commands have needed on this node");
    add_lane_option(*one, a->lane);
    one->callback([a, &action] { action = [a] { return put_profiles(profiles_of_node(a->lane), a->output); }; });
    CLI::App* several = add("merge", "Join the exports of several nodes into one");
    several->add_option("files", a->files, "Exports (default: standard input)")->type_name("FILE");
    several->callback([a, &action] { action = [a] { return put_profiles(profiles_in(a->files), a->output); }; });
}

}  // namespace salus::cli
