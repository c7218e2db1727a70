// The file of the history, for the commands that read it without the service.
#pragma once

#include <memory>
#include <optional>

#include "history/store.h"

namespace salus::cli {

/// That of the running service, else of the one that would be started. Nothing: no command has ended yet. Throws a Failure
/// if it cannot be opened.
std::unique_ptr<history::Store> open_history();

/// Whose commands are shown: root sees everybody's (nothing), as with jobs; others their own.
std::optional<unsigned> whose_history();

}  // namespace salus::cli
