#include "os/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace salus::os {
namespace {

TEST(Loopback, ListensOnThisMachineAlone) {
    const Result<Loopback> made = listen_on_loopback(0);
    ASSERT_TRUE(made) << made.error();
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(made.value().listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
    EXPECT_EQ(ntohs(address.sin_port), made.value().port);
    EXPECT_GT(made.value().port, 0);
}

TEST(Loopback, SaysWhyAPortCannotBeHad) {
    const Result<Loopback> first = listen_on_loopback(0);
    ASSERT_TRUE(first);
    const Result<Loopback> second = listen_on_loopback(first.value().port);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error(), "port " + std::to_string(first.value().port) + " is in use by another program");
}

TEST(Loopback, RandomDigitsAreManyAndDiffer) {
    const std::string one = random_digits(16);
    EXPECT_EQ(one.size(), 32u);
    EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(one, random_digits(16));
}

}  // namespace
}  // namespace salus::os
