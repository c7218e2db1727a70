// Sends and receives messages over a socket, one message per packet. Raises no signal. send() never blocks; receive() blocks
// only on a blocking socket.
#pragma once

#include <span>
#include <string>

#include "os/descriptor.h"
#include "wire/messages.h"

namespace salus::wire {

struct Received {
    enum class Kind { kMessage, kNothingNow, kClosed, kGarbage } kind = Kind::kNothingNow;
    Message message;
    os::Descriptor descriptors[kDescriptorsMax];
    std::string why;             ///< for kGarbage
    bool other_version = false;  ///< for kGarbage: a Salus message of another version
};

/// False if the message could not be sent at once: the peer is gone, or does not read.
bool send(int socket, const Message& message, std::span<const int> descriptors = {});

/// Receives one packet. Waits for it only if the socket is blocking.
Received receive(int socket);

}  // namespace salus::wire
