// Where the history is, for the commands that show it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "history/store.h"
#include "wire/messages.h"

namespace salus::cli {

/// That of the running service, else of the one that would be started.
struct HistoryPlace {
    std::string file;
    bool is_ours = true;  ///< else only the service reads the file, and passes on what is the user's
};
HistoryPlace place_of_history();

/// Nothing: no command has ended yet. Throws a Failure if it cannot be opened. REQUIRES: is_ours.
std::unique_ptr<history::Store> open_history(const HistoryPlace& place);
/// All that the user may see. Throws a Failure if it cannot be read.
std::vector<history::Record> records_of_history();
/// What the service says of its history. Throws a Failure if it does not answer.
nlohmann::json ask_for_history(const wire::Command& command);

/// Whose commands are shown: root sees everybody's (nothing), as with jobs; others their own.
std::optional<unsigned> whose_history();

}  // namespace salus::cli
