// What the kernel knows of other processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "os/descriptor.h"

namespace salus::os {

/// A descriptor that becomes readable when the process is gone; none if it is gone already.
Descriptor open_pidfd(int pid);

/// In clock ticks since boot; with the pid it names a process for good. Nothing if there is none.
std::optional<std::uint64_t> start_time_of(int pid);

/// Time that all its threads together have been on a processor. Nothing if there is none.
std::optional<Duration> cpu_time_of(int pid);

/// Stopped by a signal or a debugger.
bool is_stopped(int pid);
/// Whether nothing is left of it but, perhaps, its status for its parent to read.
bool has_ended(int pid);

/// 0: there is no such process.
int parent_of(int pid);

/// "NAME=value" was in its environment when its program started.
bool was_started_with(int pid, const std::string& variable);

struct ChildProcess {
    int pid = 0;
    Descriptor pidfd;
};
/// The child of `parent` that `pid` is or comes from; none if it does not come from it.
ChildProcess child_above(int pid, int parent);

/// By the descriptor, so that it never hits another process. A value other than 0 comes along, as with sigqueue().
bool send_signal(int pidfd, int signal, int value = 0);

}  // namespace salus::os
