#include "wire/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "wire/trust.h"

namespace salus::wire {

void Descriptor::reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

bool send(int socket, const Message& message, std::span<const int> descriptors) {
    SALUS_CHECK(descriptors.size() <= kDescriptorsMax, "no message takes more descriptors");
    Packet packet = encode(message);
    iovec part{packet.data(), packet.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
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

Received receive(int socket) {
    // One byte more than a message, so that a longer one shows.
    std::array<std::byte, kMessageSize + 1> buffer;
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got = 0;
    int resets = 0;  // a peer that closes without having read all still may have said why: that comes after the error
    do got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));

    Received received;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return received;
    received.kind = Received::Kind::kClosed;
    if (got < 0) return received;
    std::size_t count = 0;
    for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights; rights = CMSG_NXTHDR(&header, rights)) {
        if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= rights->cmsg_len; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof fd);
            Descriptor owned(fd);
            if (count < kDescriptorsMax) received.descriptors[count++] = std::move(owned);
        }
    }
    if (got == 0) return received;  // an empty packet reads the same; descriptors may have come with it
    const std::span<const std::byte> packet(buffer.data(), static_cast<std::size_t>(got));
    Result<Message> message = decode(packet);
    if (message) {
        received.kind = Received::Kind::kMessage;
        received.message = std::move(message).value();
    } else {
        received.kind = Received::Kind::kGarbage;
        received.why = message.error();
        const std::uint16_t version = version_of(packet);
        received.other_version = version != 0 && version != kVersion;
    }
    return received;
}

std::optional<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || credentials.pid <= 0) return std::nullopt;
    return Peer{credentials.pid, credentials.uid};
}

Result<Descriptor> connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return Error{"the path of the socket is too long: " + path};
    std::memcpy(address.sun_path, path.data(), path.size());
    if (const auto why = why_distrusted(path.substr(0, path.rfind('/') + 1))) return Error{*why};
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return Error{std::string("no socket: ") + std::strerror(errno)};
    // A service that hangs must not hang others.
    const timeval patience{5, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const bool absent = errno == ENOENT || errno == ECONNREFUSED;
        return Error{absent ? "no service runs at " + path : "cannot connect to " + path + ": " + std::strerror(errno)};
    }
    const auto peer = peer_of(socket.get());
    if (!peer || (peer->uid != ::getuid() && peer->uid != 0)) return Error{"the service at " + path + " is another user's"};
    return socket;
}

namespace {

/// Nothing if it is not set, or is set to nothing.
std::optional<std::string> variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

/// One that names a directory for all programs: a relative one is invalid, as the XDG specification has it.
std::optional<std::string> directory_in(const char* name) {
    const auto value = variable(name);
    return value && value->starts_with('/') ? value : std::nullopt;
}

}  // namespace

std::string user_socket() {
    const auto runtime = directory_in("XDG_RUNTIME_DIR");
    return runtime ? *runtime + "/salus/socket" : directory_without_home() + "/socket";
}

std::string default_socket() {
    if (const auto named = variable("SALUS_SOCKET")) return absolute_path(*named);
    struct stat status {};
    const std::string own = user_socket();
    if (::stat(own.c_str(), &status) != 0 && ::stat(kSystemSocket, &status) == 0) return kSystemSocket;
    return own;
}

std::string user_directory(const char* name, const char* below_home) {
    if (const auto named = directory_in(name)) return *named + "/salus";
    if (const auto home = directory_in("HOME")) return *home + below_home + "/salus";
    return directory_without_home();
}

std::string default_state_directory() {
    const auto named = variable("SALUS_STATE");
    return named ? absolute_path(*named) : user_directory("XDG_STATE_HOME", "/.local/state");
}

}  // namespace salus::wire
