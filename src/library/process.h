// The one client of this process, for the parts of the library that share it.
#pragma once

#include <string>

#include "client/process_client.h"
#include "client/use_marks.h"
#include "library/holdings.h"

struct salus_client {
    explicit salus_client(salus::client::Identity identity) : client(std::move(identity)) {}
    salus::client::ProcessClient client;
};

namespace salus::library {

/// The client that has attached, or does so now; nullptr: none. Another thread may free it at any time.
salus_client* the_client();
/// The same once it has attached.
salus_client* attached_client();

/// The client that has attached, which is not freed while this lives: Note [Who uses the client] in client/use_marks.h.
class ClientInUse {
public:
    ClientInUse() {
        client::begin_use();
        if (salus_client* const attached = attached_client()) client_ = &attached->client;
    }
    ~ClientInUse() { client::end_use(); }
    ClientInUse(const ClientInUse&) = delete;
    ClientInUse& operator=(const ClientInUse&) = delete;

    explicit operator bool() const { return client_ != nullptr; }
    client::ProcessClient* get() const { return client_; }
    client::ProcessClient* operator->() const { return client_; }

private:
    client::ProcessClient* client_ = nullptr;
};

/// Another adaptor has attached than attach_without_memory(): whether it shows iterations is to be seen (shim_link.cpp).
void adaptor_has_attached();

/// Attaches a client that leaves its memory to the program, of which it holds so much by now. nullptr: it cannot be, and
/// `why_not` says why in one line; if that is empty, another client is there already. REQUIRES: current_context().
salus_client* attach_without_memory(std::uint64_t holds, std::string& why_not);

/// Tells the service, for `salus ps`, why this process of a job runs without sharing; in one line.
void tell_unshared(const std::string& why);

/// What the program has taken from the driver by itself, and the limit of the process. Never destroyed.
Holdings& holdings();

/// The calling thread's context on a GPU; nullptr: it has none.
void* current_context();

}  // namespace salus::library
