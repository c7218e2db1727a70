#include "os/guarded_descriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/socket.h"

namespace salus::os {
namespace {

Descriptor memory_file() { return Descriptor(::memfd_create("test", MFD_CLOEXEC)); }

TEST(GuardedDescriptor, LiesWhereLoopsOverTheLowNumbersDoNotReach) {
    const GuardedDescriptor guarded(memory_file());
    EXPECT_GE(guarded.get(), 256);
    EXPECT_TRUE(::fcntl(guarded.get(), F_GETFD) & FD_CLOEXEC);
    EXPECT_FALSE(guarded.lost());
}

TEST(GuardedDescriptor, OneThatWasClosedIsLost) {
    GuardedDescriptor guarded(memory_file());
    ::close(guarded.get());
    EXPECT_EQ(guarded.get(), -1);
    EXPECT_TRUE(guarded.lost());
    EXPECT_TRUE(guarded);
}

TEST(GuardedDescriptor, AnothersFileUnderTheSameNumberIsNeitherUsedNorClosed) {
    const Descriptor others = memory_file();
    int number = -1;
    {
        GuardedDescriptor guarded(memory_file());
        number = guarded.get();
        ASSERT_EQ(::dup2(others.get(), number), number);
        EXPECT_EQ(guarded.get(), -1);
        EXPECT_TRUE(guarded.lost());
    }
    EXPECT_NE(::fcntl(number, F_GETFD), -1);
    ::close(number);
}

TEST(GuardedDescriptor, SocketsAreToldApart) {
    auto pair = make_signal_pair();
    ASSERT_TRUE(pair.has_value());
    const GuardedDescriptor one(std::move(pair->first));
    const int number = one.get();
    ASSERT_EQ(::dup2(pair->second.get(), number), number);
    EXPECT_TRUE(one.lost());
    ::close(number);
}

TEST(GuardedDescriptor, WithoutOneNothingIsLost) {
    const GuardedDescriptor none;
    EXPECT_FALSE(none);
    EXPECT_FALSE(none.lost());
    EXPECT_EQ(none.get(), -1);
}

}  // namespace
}  // namespace salus::os
