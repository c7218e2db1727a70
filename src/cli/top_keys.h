// What the keys of `salus top` do. Pure: a key and the present screen in; the next screen, and perhaps a command, out.
#pragma once

#include <optional>

#include "cli/top_view.h"
#include "wire/messages.h"

namespace salus::cli {

/// Keys that are no characters. The terminal's own numbers are another library's matter.
enum Key : int {
    kKeyUp = 0x110000,
    kKeyDown,
    kKeyPageUp,
    kKeyPageDown,
    kKeyHome,
    kKeyEnd,
    kKeyEscape = 27,
    kKeyEnter = '\r',
    kKeyBackspace = 127,
};

struct Pressed {
    bool quits = false;
    std::optional<wire::Command> command = {};  ///< for the service
    std::string done = {};                      ///< what to say if the service obeys
};

Pressed press(int key, const Status& status, const Rates& rates, TopOptions& options);

}  // namespace salus::cli
