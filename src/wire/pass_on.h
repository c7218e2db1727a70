// What the service tells `salus run` by a signal, which reaches it whatever it does just then.
#pragma once

namespace salus::wire {

/// Comes with a SIGTERM, as with sigqueue(): the command is to have SIGKILL, which nobody can catch and pass on.
inline constexpr int kPassOnAsKill = 0x6b696c6c;

}  // namespace salus::wire
