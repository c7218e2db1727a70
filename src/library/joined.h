// A process that has announced itself: the one Joining of this process, its environment, and its end.
#pragma once

#include <string>

#include "base/result.h"
#include "base/time.h"
#include "client/process_client.h"

namespace salus::library {

/// See salus_announce_within. True: the process may start; false: not yet. `signals`: the mask while it waits.
Result<bool> join(const std::string& name, const std::string& key, Duration at_most, const sigset_t* signals = nullptr);
/// Whether the environment asks processes to join that nobody has announced.
bool should_join();
/// Whether this process has announced itself, and is a job by itself, whether or not it may start.
bool has_joined();
/// Whether it wanted to, and the last answer was that it cannot.
bool was_refused();

/// If this process has joined: the client attaches as the job's.
void identify_joined(client::Identity& identity);
/// Its client is about to leave, with the connection over which it was announced. The process goes on, and so does the job.
void outlive_client();

}  // namespace salus::library
