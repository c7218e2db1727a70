#include "os/poll.h"

#include <sys/eventfd.h>

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

}  // namespace
}  // namespace salus::os
