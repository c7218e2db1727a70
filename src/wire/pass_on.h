// The service tells `salus run` to kill its command by a signal, which arrives whatever `salus run` is doing.
#pragma once

namespace salus::wire {

/// The value that comes with SIGTERM (as by sigqueue()) if the command must get SIGKILL. `salus run` could not catch a
/// SIGKILL and pass it on.
inline constexpr int kPassOnAsKill = 0x6b696c6c;

}  // namespace salus::wire
