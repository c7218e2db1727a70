// One message, one packet: messages over a socket. Never raises a signal, never blocks unless asked to.
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
    std::string why;             ///< of kGarbage
    bool other_version = false;  ///< of kGarbage: ours, but of another version
};

/// False if it could not be sent at once: the peer is gone, or does not read.
bool send(int socket, const Message& message, std::span<const int> descriptors = {});

/// One packet. Waits for it only if the socket is a blocking one.
Received receive(int socket);

}  // namespace salus::wire
