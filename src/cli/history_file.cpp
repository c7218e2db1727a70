#include "cli/history_file.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/service_link.h"
#include "os/places.h"

namespace salus::cli {
namespace {

/// How long to wait for the file; the service writes rarely and briefly.
constexpr Duration kPatience = seconds(2);

std::string path() {
    std::string state = os::default_state_directory();
    const Result<Status> status = ask_status(os::default_socket());
    if (status && !status.value().service.state_directory.empty()) state = status.value().service.state_directory;
    return state + "/" + history::kFileName;
}

}  // namespace

std::unique_ptr<history::Store> open_history() {
    const std::string file = trusted(path());
    std::error_code error;
    if (!std::filesystem::exists(file, error) && !error) return nullptr;
    Result<std::unique_ptr<history::Store>> store = history::Store::open(file, kPatience);
    if (!store) throw Failure{store.error()};
    return std::move(store).value();
}

std::optional<unsigned> whose_history() { return ::getuid() == 0 ? std::nullopt : std::optional(::getuid()); }

}  // namespace salus::cli
