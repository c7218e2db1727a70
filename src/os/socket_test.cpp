#include "os/socket.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "os/poll.h"

namespace salus::os {
namespace {

TEST(Socket, ThePeerIsWhoTheKernelSays) {
    const auto pair = make_socket_pair();
    ASSERT_TRUE(pair.has_value());
    const auto peer = peer_of(pair->first.get());
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

TEST(Socket, WhoListensReplacesASocketThatWasLeftAndNothingElse) {
    char directory[] = "/tmp/salus-socket-test-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    const std::string path = std::string(directory) + "/socket";
    for (const unsigned mode : {0600u, 0666u}) {
        const Result<Descriptor> listener = listen_at(path, mode);
        ASSERT_TRUE(listener.ok()) << listener.error();
        struct stat status {};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777u, mode);
        EXPECT_FALSE(accept_from(listener.value().get()));
        EXPECT_EQ(errno, EAGAIN);
        const auto client = connect_to(path);
        ASSERT_TRUE(client.ok()) << client.error();
        EXPECT_TRUE(accept_from(listener.value().get()));
    }
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_EQ(listen_at(path, 0600).error(), path + " exists and is not a socket");
    std::filesystem::remove_all(directory);
    const std::string long_path(kSocketPathMax + 1, 'x');
    EXPECT_EQ(listen_at(long_path, 0600).error(), "the path of the socket is too long: " + long_path);
}

TEST(Socket, WhoEndsReceivingStillSends) {
    const auto pair = make_socket_pair();
    ASSERT_TRUE(pair.has_value());
    std::array<std::byte, 8> buffer{};
    EXPECT_EQ(receive_packet(pair->first.get(), buffer, {}).kind, Arrival::Kind::kNothingNow);
    end_receiving(pair->first.get());
    EXPECT_EQ(receive_packet(pair->first.get(), buffer, {}).kind, Arrival::Kind::kClosed);
    EXPECT_TRUE(send_packet(pair->first.get(), std::span(buffer).first(1)));
    EXPECT_EQ(receive_packet(pair->second.get(), buffer, {}).kind, Arrival::Kind::kPacket);
}

TEST(Signal, ThatFindsItsEndFullOrClosedIsNoError) {
    auto pair = make_signal_pair();
    ASSERT_TRUE(pair.has_value());
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(signal_through(pair->first.get()));
    pair->second.reset();
    EXPECT_TRUE(signal_through(pair->first.get()));
    EXPECT_FALSE(signal_through(-1));
}

TEST(Signal, IsThereUntilItIsDiscarded) {
    const auto pair = make_signal_pair();
    ASSERT_TRUE(pair.has_value());
    EXPECT_FALSE(readable_within(pair->second.get(), Duration{}));
    ASSERT_TRUE(signal_through(pair->first.get()));
    EXPECT_TRUE(readable_within(pair->second.get(), Duration{}));
    discard_signals(pair->second.get());
    EXPECT_FALSE(readable_within(pair->second.get(), Duration{}));
    discard_signals(-1);
}

TEST(Stream, OnlyThisMachineReachesALoopbackAddress) {
    for (const char* address : {"127.0.0.1", "127.255.0.3", "::1"}) EXPECT_TRUE(is_loopback(address)) << address;
    for (const char* address :
         {"", "0.0.0.0", "128.0.0.1", "10.0.0.1", "::", "::2", "::ffff:127.0.0.1", "localhost", "127.1"})
        EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(Stream, CarriesBytesUntilItsEnd) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor ours(ends[0]);
    Descriptor theirs(ends[1]);
    std::string got;
    EXPECT_TRUE(receive_some(theirs.get(), got, 100)) << "nothing has come yet";
    EXPECT_EQ(got, "");
    EXPECT_EQ(send_some(ours.get(), "twelve bytes"), 12u);
    EXPECT_TRUE(receive_some(theirs.get(), got, 6));
    EXPECT_TRUE(receive_some(theirs.get(), got, 100));
    EXPECT_EQ(got, "twelve bytes");
    const std::string much(1 << 24, 'x');
    const auto sent = send_some(ours.get(), much);
    ASSERT_TRUE(sent.has_value());
    EXPECT_LT(*sent, much.size());
    EXPECT_EQ(send_some(ours.get(), much), 0u) << "it is full";
    got.clear();
    while (got.size() < *sent) ASSERT_TRUE(receive_some(theirs.get(), got, 1 << 20));
    end_sending(ours.get());
    EXPECT_FALSE(receive_some(theirs.get(), got, 100));
    theirs.reset();
    EXPECT_EQ(send_some(ours.get(), much), std::nullopt) << "and no signal comes";
}

}  // namespace
}  // namespace salus::os
