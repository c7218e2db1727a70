// Sockets that carry messages: connect, send, receive. Never raises a signal, never blocks unless asked to.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "wire/descriptor.h"
#include "wire/messages.h"

namespace salus::wire {

struct Received {
    enum class Kind { kMessage, kNothingNow, kClosed, kGarbage } kind = Kind::kNothingNow;
    Message message;
    Descriptor descriptors[kDescriptorsMax];
    std::string why;             ///< of kGarbage
    bool other_version = false;  ///< of kGarbage: ours, but of another version
};

/// False if it could not be sent at once: the peer is gone, or does not read.
bool send(int socket, const Message& message, std::span<const int> descriptors = {});

/// One packet. Waits for it only if the socket is a blocking one.
Received receive(int socket);

/// The peer's credentials as the kernel knows them.
struct Peer {
    int pid = 0;
    unsigned uid = 0;
};
std::optional<Peer> peer_of(int socket);

/// Blocking, close-on-exec, with a limit of 5 s for each call. Only to a service of this user's or root's, in a directory
/// that nobody else can write to.
Result<Descriptor> connect_to(const std::string& path);

/// Where services listen, absolute like all paths here: `socket` in the directory of the user's own, or of the system's.
std::string user_socket();
inline constexpr const char* kSystemSocket = "/run/salus/socket";
/// The one to talk to: $SALUS_SOCKET, else the user's if there is one, else the system's if there is one, else the user's.
std::string default_socket();

/// A directory of Salus's below the one that the variable names, else below the user's home, else in /tmp.
std::string user_directory(const char* variable, const char* below_home);
/// Where a service keeps trace, logs and history unless told otherwise: $SALUS_STATE, else the user's.
std::string default_state_directory();

}  // namespace salus::wire
