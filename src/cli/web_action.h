// What the web page may ask for a job. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/messages.h"

namespace salus::cli {

struct WebAction {
    wire::Command command;
    std::string done;  ///< what follows the job's name: "is resumed"
};

/// Reads {"job": 3, "action": "pause"}; the action "priority" has a "value". An error is one line for the user.
Result<WebAction> web_action_in(std::string_view body);

}  // namespace salus::cli
