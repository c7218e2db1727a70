#include "wire/framing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "os/descriptor_fixture.h"
#include "os/socket.h"

namespace salus::wire {
namespace {

using os::count_open_descriptors;
using os::Descriptor;

/// Both ends of a connection; neither blocks.
struct Pair {
    Pair() {
        auto ends = os::make_socket_pair();
        EXPECT_TRUE(ends.has_value());
        here = std::move(ends->first);
        there = std::move(ends->second);
    }
    Descriptor here;
    Descriptor there;
};

/// Sends any bytes and any number of descriptors, which our own peers never would.
bool send_raw(int socket, const void* bytes, std::size_t size, const std::vector<int>& descriptors = {}) {
    iovec part{const_cast<void*>(bytes), size};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    if (!descriptors.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = control.size();
        cmsghdr* rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
        std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
    }
    return ::sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

using Kind = Received::Kind;

bool is_same_file(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

// ------------------------------------------------------------------------------------------------------ send and receive

TEST(Framing, CarriesMessagesInOrder) {
    Pair pair;
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kNothingNow);
    ASSERT_TRUE(send(pair.here.get(), Need{1, 2, 3}));
    ASSERT_TRUE(send(pair.here.get(), Leave{}));
    const Received first = receive(pair.there.get());
    ASSERT_EQ(first.kind, Kind::kMessage);
    EXPECT_EQ(std::get<Need>(first.message).ephemeral, 3u);
    EXPECT_FALSE(first.descriptors[0]);
    const Received second = receive(pair.there.get());
    ASSERT_EQ(second.kind, Kind::kMessage);
    EXPECT_TRUE(std::holds_alternative<Leave>(second.message));
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kNothingNow);
}

TEST(Framing, CarriesDescriptors) {
    Pair pair;
    Descriptor a(::eventfd(0, EFD_CLOEXEC));
    Descriptor b(::memfd_create("b", MFD_CLOEXEC));
    const std::size_t before = count_open_descriptors();
    const int both[] = {a.get(), b.get()};
    ASSERT_TRUE(send(pair.here.get(), Attach{}, both));
    ASSERT_TRUE(send(pair.here.get(), MapLane{}, std::span(both).last(1)));
    {
        const Received two = receive(pair.there.get());
        ASSERT_EQ(two.kind, Kind::kMessage);
        ASSERT_TRUE(two.descriptors[0] && two.descriptors[1]);
        EXPECT_NE(two.descriptors[0].get(), a.get());
        EXPECT_TRUE(is_same_file(two.descriptors[1].get(), b.get()));
        EXPECT_NE(::fcntl(two.descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
        // Both descriptors are the same file: what we write to one, we read from the other.
        const std::uint64_t told = 42;
        std::uint64_t heard = 0;
        ASSERT_EQ(::write(two.descriptors[0].get(), &told, sizeof told), ssize_t{8});
        ASSERT_EQ(::read(a.get(), &heard, sizeof heard), ssize_t{8});
        EXPECT_EQ(heard, told);
        const Received one = receive(pair.there.get());
        ASSERT_EQ(one.kind, Kind::kMessage);
        EXPECT_TRUE(is_same_file(one.descriptors[0].get(), b.get()));
        EXPECT_FALSE(one.descriptors[1]);
        EXPECT_EQ(count_open_descriptors(), before + 3);
    }
    EXPECT_EQ(count_open_descriptors(), before);
}

TEST(Framing, PacketsThatAreNoMessagesAreGarbage) {
    Pair pair;
    std::array<std::byte, 4096> bytes{};
    for (const std::size_t size : {std::size_t{1}, kMessageSize - 1, kMessageSize, kMessageSize + 1, bytes.size()}) {
        ASSERT_TRUE(send_raw(pair.here.get(), bytes.data(), size));
        const Received received = receive(pair.there.get());
        EXPECT_EQ(received.kind, Kind::kGarbage) << size;
        EXPECT_FALSE(received.why.empty());
        EXPECT_FALSE(received.other_version);
    }
    // A message with extra bytes is not a message.
    const Packet packet = encode(Leave{});
    std::vector<std::byte> longer(packet.begin(), packet.end());
    longer.resize(kMessageSize + 1);
    ASSERT_TRUE(send_raw(pair.here.get(), longer.data(), longer.size()));
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kGarbage);
    ASSERT_TRUE(send(pair.here.get(), Leave{}));  // each packet is judged by itself
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kMessage);
}

TEST(Framing, APeerOfAnotherVersionIsRecognised) {
    Pair pair;
    Packet packet = encode(Leave{});
    packet[4] = std::byte{kVersion + 1};
    ASSERT_TRUE(send_raw(pair.here.get(), packet.data(), packet.size()));
    const Received received = receive(pair.there.get());
    EXPECT_EQ(received.kind, Kind::kGarbage);
    EXPECT_TRUE(received.other_version);
    EXPECT_EQ(received.why, "speaks protocol version " + std::to_string(kVersion + 1) + ", not " + std::to_string(kVersion));
}

// ----------------------------------------------------------------------------------------------------------- descriptors

TEST(Framing, DescriptorsThatNobodyWantsAreClosed) {
    Pair pair;
    Descriptor file(::eventfd(0, EFD_CLOEXEC));
    const Packet message = encode(Leave{});
    const std::array<std::byte, 2 * kMessageSize> garbage{};
    const std::size_t before = count_open_descriptors();
    for (const std::size_t count : {1u, 2u, 3u, 4u, 16u, 253u}) {
        const std::vector<int> many(count, file.get());
        ASSERT_TRUE(send_raw(pair.here.get(), message.data(), message.size(), many));
        EXPECT_EQ(receive(pair.there.get()).kind, Kind::kMessage);
        EXPECT_EQ(count_open_descriptors(), before) << count << " with a message";
        ASSERT_TRUE(send_raw(pair.here.get(), garbage.data(), garbage.size(), many));
        EXPECT_EQ(receive(pair.there.get()).kind, Kind::kGarbage);
        EXPECT_EQ(count_open_descriptors(), before) << count << " with a packet that is too long";
        ASSERT_TRUE(send_raw(pair.here.get(), garbage.data(), 1, many));
        EXPECT_EQ(receive(pair.there.get()).kind, Kind::kGarbage);
        EXPECT_EQ(count_open_descriptors(), before) << count << " with a packet that is too short";
    }
}

// An empty packet may carry descriptors. Its arrival looks like the end of the connection.
TEST(Framing, DescriptorsOfAnEmptyPacketAreClosed) {
    Pair pair;
    Descriptor file(::eventfd(0, EFD_CLOEXEC));
    const std::size_t before = count_open_descriptors();
    ASSERT_TRUE(send_raw(pair.here.get(), nullptr, 0, {file.get(), file.get()}));
    const Kind kind = receive(pair.there.get()).kind;
    EXPECT_TRUE(kind == Kind::kClosed || kind == Kind::kGarbage);
    EXPECT_EQ(count_open_descriptors(), before);
}

// ------------------------------------------------------------------------------------------------- closed and full sockets

TEST(Framing, OfAClosedPeerTheLastWordsAreReadAndNoSignalComes) {
    ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
    Pair pair;
    ASSERT_TRUE(send(pair.here.get(), Leave{}));
    pair.here.reset();
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kMessage);
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kClosed);
    EXPECT_EQ(receive(pair.there.get()).kind, Kind::kClosed);
    EXPECT_FALSE(send(pair.there.get(), Leave{}));
    EXPECT_FALSE(send(-1, Leave{}));
    EXPECT_EQ(receive(-1).kind, Kind::kClosed);
}

// A peer that does not read must not make the sender wait, blocking socket or not.
TEST(Framing, AFullBufferIsToldAtOnce) {
    for (const bool blocking : {true, false}) {
        Pair pair;
        if (blocking) {
            ASSERT_EQ(::fcntl(pair.here.get(), F_SETFL, 0), 0);
        }
        std::size_t sent = 0;
        while (sent < 100'000 && send(pair.here.get(), Observe{sent})) ++sent;
        EXPECT_GT(sent, 4u);
        ASSERT_LT(sent, 100'000u);
        for (std::size_t i = 0; i < sent; ++i) {
            const Received received = receive(pair.there.get());
            ASSERT_EQ(received.kind, Kind::kMessage);
            EXPECT_EQ(std::get<Observe>(received.message).persistent, i);
        }
        EXPECT_TRUE(send(pair.here.get(), Leave{}));
    }
}

}  // namespace
}  // namespace salus::wire
