// salus usage: what the jobs that have ended have used of the device, by user and command. Works on the history's file, as
// salus history does.
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/history_file.h"
#include "cli/usage_table.h"
#include "history/records_json.h"
#include "os/clock.h"
#include "os/user.h"

namespace salus::cli {
namespace {

struct UsageArguments {
    std::string user;
    std::optional<std::string> since;
    bool json = false;
};

std::optional<unsigned> whose_usage(const std::string& user) {
    if (user.empty()) return whose_history();
    const auto uid = os::user_called(user);
    if (!uid) throw UsageError{fmt::format("--user: there is no user '{}'", user)};
    if (const auto visible = whose_history(); visible && *uid != *visible)
        throw Failure{fmt::format("only root sees what other users have used; you are {}", os::name_of_user(::getuid()))};
    return uid;
}

int show_usage(const UsageArguments& a) {
    const auto uid = whose_usage(a.user);
    double since_s = 0;
    if (a.since) {
        const auto since = parse_since(*a.since, os::unix_time_s());
        if (!since)
            throw UsageError{fmt::format(
                "--since must be a time ago such as 12h or 7d, or a date such as 2026-11-18; got '{}'", *a.since)};
        since_s = *since;
    }
    std::vector<history::Usage> usage;
    const HistoryPlace place = place_of_history();
    if (!place.is_ours) {
        usage = history::usage_from(ask_for_history(wire::AskUsage{since_s}));
    } else if (const auto store = open_history(place)) {
        Result<std::vector<history::Usage>> found = store->usage(uid, since_s);
        if (!found) throw Failure{found.error()};
        usage = std::move(found).value();
    }
    fmt::print("{}", a.json ? usage_json(usage, since_s, os::name_of_user) : format_usage(usage, os::name_of_user));
    return 0;
}

}  // namespace

void add_usage_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<UsageArguments>();
    CLI::App* usage = program.add_subcommand("usage", "Show what jobs that have ended used, by user and command");
    usage->add_option("--user", a->user, "Only this user's jobs (root; others see their own)")->type_name("USER");
    usage->add_option("--since", a->since, "Only jobs that ended since: 12h or 7d ago, or a date such as 2026-11-18")
        ->type_name("TIME");
    usage->add_flag("--json", a->json, "Print JSON");
    usage->callback([a, &action] { action = [a] { return show_usage(*a); }; });
}

}  // namespace salus::cli
