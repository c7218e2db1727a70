// The one client of this process, for the parts of the library that share it.
#pragma once

#include <string>

#include "client/process_client.h"
#include "library/holdings.h"

struct salus_client {
    explicit salus_client(salus::client::Identity identity) : client(std::move(identity)) {}
    salus::client::ProcessClient client;
};

namespace salus::library {

/// nullptr if the process has not attached.
salus_client* the_client();

/// Attaches a client that leaves its memory to the program, of which it holds so much by now. nullptr: it cannot be, and
/// `why_not` says why in one line; if that is empty, another client is there already. REQUIRES: current_context().
salus_client* attach_without_memory(std::uint64_t holds, std::string& why_not);

/// What the program has taken from the driver by itself, and the limit of the process. Never destroyed.
Holdings& holdings();

/// The calling thread's context on a GPU; nullptr: it has none.
void* current_context();

}  // namespace salus::library
