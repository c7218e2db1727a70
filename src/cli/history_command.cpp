// salus history: lists and clears the record of commands that have run. Works on the file itself and needs no service,
// unless the file belongs to the machine's service: then it asks that.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/history_file.h"
#include "cli/history_view.h"
#include "history/store.h"
#include "os/clock.h"

namespace salus::cli {
namespace {

struct HistoryArguments {
    bool json = false;
    bool all = false;
    std::string part;
};

int show(bool as_json) {
    const std::vector<history::Record> records = records_of_history();
    fmt::print("{}", as_json ? history_json(records) : format_history(records, os::unix_time_s()));
    return 0;
}

int clear_history(const HistoryArguments& a) {
    if (a.part.empty() != a.all) throw UsageError{"history clear: give either a part of a command or --all"};
    std::uint64_t cleared = 0;
    const HistoryPlace place = place_of_history();
    if (!place.is_ours) {
        const wire::Text<256> part(a.part);
        if (part.view() != a.part) throw UsageError{"history clear: this text is too long"};
        const nlohmann::json answer = ask_for_history(wire::ClearHistory{part});
        if (answer.is_object()) cleared = answer.value("cleared", std::uint64_t{0});
    } else if (const auto store = open_history(place)) {
        const Result<std::uint64_t> done = store->clear(whose_history(), a.part);
        if (!done) throw Failure{done.error()};
        cleared = done.value();
    }
    fmt::print("{} command{} forgotten\n", cleared, cleared == 1 ? "" : "s");
    return 0;
}

}  // namespace

void add_history_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<HistoryArguments>();
    CLI::App* list = program.add_subcommand("history", "List earlier commands with their lengths and memory");
    list->add_flag("--json", a->json, "Print JSON");
    list->callback([a, list, &action] {
        if (list->get_subcommands().empty()) action = [a] { return show(a->json); };
    });
    CLI::App* forget = list->add_subcommand("clear", "Forget commands");
    forget->add_option("command", a->part, "Forget commands that contain this text");
    forget->add_flag("--all", a->all, "Forget all commands");
    forget->callback([a, &action] { action = [a] { return clear_history(*a); }; });
}

}  // namespace salus::cli
