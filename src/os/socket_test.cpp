#include "os/socket.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Socket, ThePeerIsWhoTheKernelSays) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor here(ends[0]);
    const Descriptor there(ends[1]);
    const auto peer = peer_of(here.get());
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->pid, ::getpid());
    EXPECT_EQ(peer->uid, ::getuid());
    EXPECT_FALSE(peer_of(-1).has_value());
    const Descriptor no_socket(::eventfd(0, EFD_CLOEXEC));
    EXPECT_FALSE(peer_of(no_socket.get()).has_value());
}

TEST(Socket, ConnectsToWhoListensAndSaysWhoDoesNot) {
    char directory[] = "/tmp/salus-socket-test-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    const std::string path = std::string(directory) + "/socket";
    const auto nobody = connect_to(path);
    ASSERT_FALSE(nobody.ok());
    EXPECT_EQ(nobody.error(), "no service runs at " + path);

    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_FALSE(connect_to(path).ok());  // nobody listens yet
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    auto socket = connect_to(path);
    ASSERT_TRUE(socket.ok()) << socket.error();
    EXPECT_NE(::fcntl(socket.value().get(), F_GETFD) & FD_CLOEXEC, 0);
    Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
    const std::array sent = {std::byte{4}, std::byte{2}};
    ASSERT_TRUE(send_packet(socket.value().get(), sent));
    std::array<std::byte, 8> buffer{};
    const Arrival arrival = receive_packet(accepted.get(), buffer, {});
    EXPECT_EQ(arrival.kind, Arrival::Kind::kPacket);
    EXPECT_EQ(arrival.size, sent.size());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), buffer.begin()));
    std::filesystem::remove_all(directory);

    const std::string long_path(500, 'x');
    EXPECT_EQ(connect_to(long_path).error(), "the path of the socket is too long: " + long_path);
}

}  // namespace
}  // namespace salus::os
