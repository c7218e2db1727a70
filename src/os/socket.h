// Sockets of the machine that carry packets, and descriptors with them. Never raises a signal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::os {

/// No packet carries more.
inline constexpr std::size_t kDescriptorsAtOnceMax = 32;

/// False if it could not be sent at once: the peer is gone, or does not read (errno is EAGAIN).
bool send_packet(int socket, std::span<const std::byte> packet, std::span<const int> descriptors = {});

struct Arrival {
    enum class Kind { kPacket, kNothingNow, kClosed } kind = Kind::kNothingNow;
    std::size_t size = 0;  ///< of the packet; what does not fit into the buffer is lost
};
/// Waits for a packet only if the socket is a blocking one. Descriptors beyond those asked for are closed; some may come
/// even with kClosed, as an empty packet reads like the end.
Arrival receive_packet(int socket, std::span<std::byte> buffer, std::span<Descriptor> descriptors);

/// The peer's credentials as the kernel knows them.
struct Peer {
    int pid = 0;
    unsigned uid = 0;
};
std::optional<Peer> peer_of(int socket);

/// Blocking, close-on-exec, with a limit of 5 s for each call. Only to a service of this user's or root's, in a directory
/// that nobody else can write to.
Result<Descriptor> connect_to(const std::string& path);

}  // namespace salus::os
