// Ends of jobs that no service was there to record.
#pragma once

#include <string>

#include "history/store.h"
#include "os/places.h"

namespace salus::cli {

/// Leaves it to the next service at that place.
Result<bool> leave_untold(os::Whose whose, const std::string& socket, const history::Run& run);
/// Tells the service at that place what was left to it; nothing was, mostly.
void tell_untold(os::Whose whose, const std::string& socket);

}  // namespace salus::cli
