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

/// In clock ticks since boot; together with the pid it identifies a process uniquely. Nothing if there is no such process.
std::optional<std::uint64_t> start_time_of(int pid);

/// Whose it is: its effective user. Nothing if there is no such process.
std::optional<unsigned> user_of(int pid);

/// Processor time of all its threads together. Nothing if there is no such process.
std::optional<Duration> cpu_time_of(int pid);

/// Processor time of this process.
Duration cpu_time();
/// What this process has read from disks, not from the page cache; 0 if the kernel does not tell.
std::uint64_t bytes_read_from_storage();

/// Stopped by a signal or a debugger.
bool is_stopped(int pid);
/// Whether a thread of it runs, or waits for a processor or a disk. It may wait for long on a busy machine.
bool is_busy(int pid);
/// Whether the process has ended; its parent may not have read its status yet.
bool has_ended(int pid);

/// 0: there is no such process.
int parent_of(int pid);

/// "NAME=value" was in its environment when its program started.
bool was_started_with(int pid, const std::string& variable);

struct ChildProcess {
    int pid = 0;
    Descriptor pidfd;
};
/// The child of `parent` that is `pid` or an ancestor of it; none if `pid` does not descend from `parent`.
ChildProcess child_above(int pid, int parent);

/// Stops a process and all that descend from it, or lets them continue.
void stop_tree(int pid);
void continue_tree(int pid);

/// Sends by the descriptor, so that the signal never hits another process. A value other than 0 is sent along, as with
/// sigqueue().
bool send_signal(int pidfd, int signal, int value = 0);

}  // namespace salus::os
