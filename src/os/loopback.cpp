#include "os/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace salus::os {

Result<Loopback> listen_on_loopback(int port) {
    const auto failed = [&] {
        const std::string named = "port " + std::to_string(port);
        return Error{errno == EADDRINUSE ? named + " is in use by another program" : named + ": " + std::strerror(errno)};
    };
    Loopback made{Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), 0};
    if (!made.listener) return failed();
    // Connections of a server that has just ended do not keep the next one from the port.
    const int yes = 1;
    ::setsockopt(made.listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    if (::bind(made.listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return failed();
    if (::listen(made.listener.get(), 128) != 0) return failed();
    if (::getsockname(made.listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return failed();
    made.port = ntohs(address.sin_port);
    return made;
}

std::string random_digits(std::size_t bytes) {
    std::vector<unsigned char> random(bytes);
    const ssize_t got = ::getrandom(random.data(), random.size(), 0);
    SALUS_CHECK(got == static_cast<ssize_t>(bytes), "the kernel has random numbers");
    std::string digits;
    for (const unsigned char byte : random) {
        digits += "0123456789abcdef"[byte >> 4];
        digits += "0123456789abcdef"[byte & 15];
    }
    return digits;
}

}  // namespace salus::os
