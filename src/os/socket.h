// Sockets of the machine that carry packets, and descriptors with them. Never raises a signal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

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

/// A packet of either end is the other's. Nothing, and errno, if there is none.
std::optional<std::pair<Descriptor, Descriptor>> make_socket_pair();

/// Two ends of which one tells the other that something has happened. Not an eventfd or a pipe: what is sent to a socket
/// cannot land in a file of a job's, should the number have come to mean one between the look at it and its use.
std::optional<std::pair<Descriptor, Descriptor>> make_signal_pair();
/// If it is full, whoever reads it has enough to see. False: it is no such end.
bool signal_through(int end);
/// Only the moment counts at which they came. What is no such end has nothing to be read.
void discard_signals(int end);

/// The peer's credentials as the kernel knows them.
struct Peer {
    int pid = 0;
    unsigned uid = 0;
};
std::optional<Peer> peer_of(int socket);

/// Blocking, close-on-exec, with a limit of 5 s for each call. Only to a service of this user's or root's, in a directory
/// that nobody else can write to.
Result<Descriptor> connect_to(const std::string& path);
/// From here on receiving waits for as long as it takes.
void receive_without_limit(int socket);
/// Who waits in receive_packet() finds the connection closed. What is sent still goes out.
void end_receiving(int socket);

inline constexpr std::size_t kSocketPathMax = 107;
/// Neither it nor what it accepts blocks. What an earlier listener has left at the path is removed: REQUIRES the lock of it.
Result<Descriptor> listen_at(const std::string& path, unsigned mode);
/// errno says why there is none.
Descriptor accept_from(int listener);

}  // namespace salus::os
