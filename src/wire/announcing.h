// How a job is announced to the service: by its `salus run`, or by its own process (client/joining.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/messages.h"

namespace salus::wire {

/// What identifies a command: its keys, and its text. REQUIRES: at least one word.
Run announcement_of(const std::vector<std::string>& command, std::string_view directory);

/// The service's answer. Without `running`, `why_not` says why in one line.
struct Announced {
    std::optional<Running> running;
    std::string why_not;
    bool users_mistake = false;
    bool is_final = false;  ///< it would be the same again
    bool may_come = false;  ///< the service is being restarted
};
/// REQUIRES: the socket is blocking.
Announced announce(int socket, const Run& run);

}  // namespace salus::wire
