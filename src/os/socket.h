// Local sockets: those that carry packets and descriptors, and streams of bytes. Never raises a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::os {

/// The most descriptors that a packet carries.
inline constexpr std::size_t kDescriptorsAtOnceMax = 32;

/// False if it could not be sent at once: the peer is gone, or does not read (errno is EAGAIN).
bool send_packet(int socket, std::span<const std::byte> packet, std::span<const int> descriptors = {});

struct Arrival {
    enum class Kind { kPacket, kNothingNow, kClosed } kind = Kind::kNothingNow;
    std::size_t size = 0;  ///< of the packet; the part that does not fit into the buffer is lost
};
/// Waits for a packet only if the socket is blocking. Surplus descriptors are closed. Descriptors may come even with
/// kClosed, because an empty packet reads like the end of the connection.
Arrival receive_packet(int socket, std::span<std::byte> buffer, std::span<Descriptor> descriptors);

/// Two connected ends. Nothing, with errno set, on failure.
std::optional<std::pair<Descriptor, Descriptor>> make_socket_pair();

/// Two ends, of which one notifies the other. Not an eventfd or a pipe: between the check of a descriptor number and its
/// use, the job may reuse the number for a file of its own, and a byte sent to a socket cannot end up in a file.
std::optional<std::pair<Descriptor, Descriptor>> make_signal_pair();
/// A full socket is fine: its reader is notified anyway. False: the descriptor is not such an end.
bool signal_through(int end);
/// Discards pending notifications. Does nothing for a descriptor that is not such an end.
void discard_signals(int end);

/// The peer's credentials as the kernel translates them into this process's namespaces.
struct Peer {
    int pid = 0;  ///< 0: it is in a PID namespace that is not below ours
    unsigned uid = 0;
};
std::optional<Peer> peer_of(int socket);

/// Blocking, close-on-exec, with a limit of 5 s for each call. Connects only to a service of this user or of root, in a
/// directory to which nobody else can write. `is_absent` is set if nothing listens there.
Result<Descriptor> connect_to(const std::string& path, bool* is_absent = nullptr);
/// From here on, receiving waits without a time limit.
void receive_without_limit(int socket);
/// Threads in receive_packet() find the connection closed. Sent packets still go out.
void end_receiving(int socket);

/// Which of all files ever made a socket is.
struct SocketFile {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;

    bool operator==(const SocketFile&) const = default;
};
/// All zero: there is none at the path.
SocketFile socket_file_at(const std::string& path);

inline constexpr std::size_t kSocketPathMax = 107;
enum class SocketKind { kPackets, kStream };
/// Neither the listener nor accepted connections block. Removes the socket that an earlier listener left at the path.
/// REQUIRES: the lock of that path is held, or nobody else listens there.
Result<Descriptor> listen_at(const std::string& path, unsigned mode, SocketKind kind = SocketKind::kPackets);
/// On failure errno says why.
Descriptor accept_from(int listener);

// ---- streams of bytes

/// Whether somebody listens at the path, for streams or for packets.
bool is_served(const std::string& path);

/// Whether the text is an address, IPv4 or IPv6, that only this machine can reach.
bool is_loopback(const std::string& address);
/// As listen_at(), for streams. REQUIRES: is_loopback().
Result<Descriptor> listen_on_loopback(const std::string& address, std::uint16_t port);
/// How much of it was sent without waiting. Nothing: the peer is gone.
std::optional<std::size_t> send_some(int socket, std::string_view bytes);
/// Appends what has come, up to `at_most` bytes, without waiting. False: the peer sends no more.
bool receive_some(int socket, std::string& to, std::size_t at_most);
/// The peer finds the end of what it was sent.
void end_sending(int socket);

}  // namespace salus::os
