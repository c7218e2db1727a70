#include "os/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/trust.h"

namespace salus::os {
namespace {

constexpr std::size_t kControlSize = CMSG_SPACE(kDescriptorsAtOnceMax * sizeof(int));

/// Takes over every descriptor, and closes those for which there is no place.
void take_descriptors(msghdr& header, std::span<Descriptor> places) {
    std::size_t count = 0;
    for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights; rights = CMSG_NXTHDR(&header, rights)) {
        if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= rights->cmsg_len; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof fd);
            Descriptor owned(fd);
            if (count < places.size()) places[count++] = std::move(owned);
        }
    }
}

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    static_assert(kSocketPathMax + 1 == sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    if (path.size() > kSocketPathMax) return Error{"the path of the socket is too long: " + path};
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

std::optional<std::pair<Descriptor, Descriptor>> pair_of(int type) {
    int ends[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return std::nullopt;
    return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

}  // namespace

bool send_packet(int socket, std::span<const std::byte> packet, std::span<const int> descriptors) {
    SALUS_CHECK(descriptors.size() <= kDescriptorsAtOnceMax, "no packet takes more descriptors");
    iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
    alignas(cmsghdr) char control[kControlSize] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    ssize_t sent = 0;
    do sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(packet.size());
}

Arrival receive_packet(int socket, std::span<std::byte> buffer, std::span<Descriptor> descriptors) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) char control[kControlSize] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got = 0;
    int resets = 0;  // a peer that closes with unread data may still have sent a reason, which comes after the error
    do got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (got < 0) return {Arrival::Kind::kClosed};
    take_descriptors(header, descriptors);
    if (got == 0) return {Arrival::Kind::kClosed};
    return {Arrival::Kind::kPacket, static_cast<std::size_t>(got)};
}

std::optional<std::pair<Descriptor, Descriptor>> make_socket_pair() { return pair_of(SOCK_SEQPACKET); }
std::optional<std::pair<Descriptor, Descriptor>> make_signal_pair() { return pair_of(SOCK_STREAM); }

bool signal_through(int end) {
    const char signal = 1;
    return ::send(end, &signal, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN || errno == EPIPE;
}

void discard_signals(int end) {
    char signals[256];
    for (int i = 0; i < 16 && ::recv(end, signals, sizeof signals, MSG_DONTWAIT) == sizeof signals; ++i) {}
}

std::optional<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
    return Peer{credentials.pid, credentials.uid};
}

Result<Descriptor> connect_to(const std::string& path, bool* is_absent) {
    const Result<sockaddr_un> address = address_of(path);
    if (!address) return Error{address.error()};
    if (const auto why = why_distrusted(path.substr(0, path.rfind('/') + 1))) return Error{*why};
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return Error{std::string("cannot create a socket: ") + std::strerror(errno)};
    // A service that hangs must not hang others.
    const timeval patience{5, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value()), sizeof(sockaddr_un)) != 0) {
        const bool absent = errno == ENOENT || errno == ECONNREFUSED;
        if (is_absent) *is_absent = absent;
        return Error{absent ? "no service runs at " + path : "cannot connect to " + path + ": " + std::strerror(errno)};
    }
    const auto peer = peer_of(socket.get());
    if (!peer) return Error{"cannot tell whose service runs at " + path + ": " + std::strerror(errno)};
    if (peer->uid == ::getuid() || peer->uid == 0) return socket;
    return Error{"the service at " + path + " belongs to " + describe_other_user(peer->uid)};
}

void receive_without_limit(int socket) {
    const timeval none{};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
}

void end_receiving(int socket) { ::shutdown(socket, SHUT_RD); }

SocketFile socket_file_at(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return {};
    return {status.st_dev, status.st_ino};
}

Result<Descriptor> listen_at(const std::string& path, unsigned mode, SocketKind kind) {
    const Result<sockaddr_un> address = address_of(path);
    if (!address) return Error{address.error()};
    struct stat there {};
    if (::lstat(path.c_str(), &there) == 0) {
        if (!S_ISSOCK(there.st_mode)) return Error{path + " exists and is not a socket"};
        ::unlink(path.c_str());
    }
    const auto failed = [&] { return Error{path + ": " + std::strerror(errno)}; };
    const int type = kind == SocketKind::kPackets ? SOCK_SEQPACKET : SOCK_STREAM;
    Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return failed();
    const mode_t before = ::umask(0777 & ~mode);  // a chmod afterwards would come too late for who connects at once
    const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.value()), sizeof(sockaddr_un));
    ::umask(before);
    if (bound != 0) return failed();
    if (::listen(socket.get(), 128) != 0) return failed();
    return socket;
}

Descriptor accept_from(int listener) {
    return Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

// ------------------------------------------------------------------------------------------------------------- streams

namespace {

struct InternetAddress {
    union {
        sockaddr any{};
        sockaddr_in v4;
        sockaddr_in6 v6;
    };
    socklen_t size = 0;
};

std::optional<InternetAddress> internet_address(const std::string& text, std::uint16_t port) {
    InternetAddress address;
    if (in_addr v4{}; ::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
        address.v4 = {};
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(port);
        address.v4.sin_addr = v4;
        address.size = sizeof address.v4;
        return address;
    }
    if (in6_addr v6{}; ::inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
        address.v6 = {};
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(port);
        address.v6.sin6_addr = v6;
        address.size = sizeof address.v6;
        return address;
    }
    return std::nullopt;
}

}  // namespace

bool is_served(const std::string& path) {
    const Result<sockaddr_un> address = address_of(path);
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!address || !socket) return false;
    const int connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value()), sizeof(sockaddr_un));
    return connected == 0 || errno == EAGAIN || errno == EPROTOTYPE;
}

bool is_loopback(const std::string& text) {
    const auto address = internet_address(text, 0);
    if (!address) return false;
    if (address->any.sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

Result<Descriptor> listen_on_loopback(const std::string& text, std::uint16_t port) {
    const auto address = internet_address(text, port);
    const auto failed = [&] { return Error{text + " port " + std::to_string(port) + ": " + std::strerror(errno)}; };
    SALUS_CHECK(address && is_loopback(text), "other machines must not reach it");
    Descriptor socket(::socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return failed();
    // Else the connections of an earlier listener would keep the port for a minute.
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(socket.get(), &address->any, address->size) != 0) return failed();
    if (::listen(socket.get(), 32) != 0) return failed();
    return socket;
}

std::optional<std::size_t> send_some(int socket, std::string_view bytes) {
    for (;;) {
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return std::nullopt;
    }
}

bool receive_some(int socket, std::string& to, std::size_t at_most) {
    const std::size_t before = to.size();
    to.resize(before + at_most);
    ssize_t got = 0;
    do got = ::recv(socket, to.data() + before, at_most, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    const bool nothing_now = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    to.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0 || nothing_now;
}

void end_sending(int socket) { ::shutdown(socket, SHUT_WR); }

}  // namespace salus::os
