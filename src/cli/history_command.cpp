// salus history: lists and clears the record of commands that have run. Works on the file itself and needs no service.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/history_view.h"
#include "cli/service_link.h"
#include "history/store.h"
#include "os/clock.h"
#include "os/places.h"

namespace salus::cli {
namespace {

/// How long to wait for the file; the service writes rarely and briefly.
constexpr Duration kPatience = seconds(2);

struct HistoryArguments {
    bool json = false;
    bool all = false;
    std::string part;
};

/// The file of the running service, else of the one that would be started.
std::string history_file() {
    std::string state = os::default_state_directory();
    const Result<Status> status = ask_status();
    if (status && !status.value().service.state_directory.empty()) state = status.value().service.state_directory;
    return state + "/" + history::kFileName;
}

/// Nothing: no command has ended yet.
std::unique_ptr<history::Store> open_store() {
    const std::string path = trusted(history_file());
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return nullptr;
    Result<std::unique_ptr<history::Store>> store = history::Store::open(path, kPatience);
    if (!store) throw Failure{store.error()};
    return std::move(store).value();
}

/// Root sees everybody's commands, as with jobs.
std::optional<unsigned> whose() { return ::getuid() == 0 ? std::nullopt : std::optional(::getuid()); }

int show(bool as_json) {
    std::vector<history::Record> records;
    if (const auto store = open_store()) {
        Result<std::vector<history::Record>> listed = store->list(whose());
        if (!listed) throw Failure{listed.error()};
        records = std::move(listed).value();
    }
    fmt::print("{}", as_json ? history_json(records) : format_history(records, os::unix_time_s()));
    return 0;
}

int clear_history(const HistoryArguments& a) {
    if (a.part.empty() != a.all) throw UsageError{"history clear: give either a part of a command or --all"};
    std::uint64_t cleared = 0;
    if (const auto store = open_store()) {
        const Result<std::uint64_t> done = store->clear(whose(), a.part);
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
