#include "cli/history_file.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/service_link.h"
#include "cli/untold_runs.h"
#include "history/records_json.h"
#include "os/places.h"

namespace salus::cli {
namespace {

/// How long to wait for the file; the service writes rarely and briefly.
constexpr Duration kPatience = seconds(2);

}  // namespace

HistoryPlace place_of_history() {
    const os::Service service = find_service_on_its_way();
    if (service.connection) tell_untold(service.whose, service.socket);
    std::string state = os::default_state_directory();
    const Result<Status> status = ask_status();
    if (status && !status.value().service.state_directory.empty()) state = status.value().service.state_directory;
    // Another user's directory cannot be written to; an administrator may have let others look into it.
    return {state + "/" + history::kFileName, !status || ::access(state.c_str(), W_OK) == 0};
}

nlohmann::json ask_for_history(const wire::Command& command) {
    const Result<std::string> answer = ask_service(command);
    if (!answer) throw Failure{answer.error()};
    return nlohmann::json::parse(answer.value(), nullptr, false);
}

std::unique_ptr<history::Store> open_history(const HistoryPlace& place) {
    const std::string file = trusted(place.file);
    std::error_code error;
    if (!std::filesystem::exists(file, error) && !error) return nullptr;
    Result<std::unique_ptr<history::Store>> store = history::Store::open(file, kPatience);
    if (!store) throw Failure{store.error()};
    return std::move(store).value();
}

std::optional<unsigned> whose_history() { return ::getuid() == 0 ? std::nullopt : std::optional(::getuid()); }

std::vector<history::Record> records_of_history() {
    const HistoryPlace place = place_of_history();
    if (!place.is_ours) return history::records_from(ask_for_history(wire::AskHistory{}));
    const auto store = open_history(place);
    if (!store) return {};
    Result<std::vector<history::Record>> listed = store->list(whose_history());
    if (!listed) throw Failure{listed.error()};
    return std::move(listed).value();
}

}  // namespace salus::cli
