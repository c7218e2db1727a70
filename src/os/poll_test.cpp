#include "os/poll.h"

#include <sys/eventfd.h>

#include <array>

#include <gtest/gtest.h>

#include "os/clock.h"
#include "os/descriptor.h"

namespace salus::os {
namespace {

TEST(Poll, TellsWhichCanBeRead) {
    const Descriptor silent(::eventfd(0, EFD_CLOEXEC));
    const Descriptor told(::eventfd(1, EFD_CLOEXEC));
    const int all[] = {silent.get(), -1, told.get()};
    EXPECT_EQ(readable_of(all, kForEver), 4u);
    EXPECT_EQ(readable_of(std::span(all).first(2), Duration{}), 0u);
    EXPECT_TRUE(readable_within(told.get(), kForEver));
    const Instant before = now();
    EXPECT_FALSE(readable_within(silent.get(), milliseconds(5)));
    EXPECT_GE(now() - before, milliseconds(5));
}

TEST(Poll, WaitsForEventsAsLongAsItIsTold) {
    const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    const Descriptor watched(::eventfd(0, EFD_CLOEXEC));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = 7}};
    ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, watched.get(), &event), 0);
    std::array<epoll_event, 4> events{};
    const Instant before = now();
    EXPECT_EQ(events_within(epoll.get(), events, microseconds(1500)), 0u);
    EXPECT_GE(now() - before, microseconds(1500));
    ASSERT_EQ(::eventfd_write(watched.get(), 1), 0);
    EXPECT_EQ(events_within(epoll.get(), events, kForEver), 1u);
    EXPECT_EQ(events[0].data.u64, 7u);
}

}  // namespace
}  // namespace salus::os
