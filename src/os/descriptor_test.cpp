#include "os/descriptor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/descriptor_fixture.h"

namespace salus::os {
namespace {

TEST(Descriptor, ClosesItselfOnce) {
    const std::size_t before = count_open_descriptors();
    {
        Descriptor a(::eventfd(0, EFD_CLOEXEC));
        EXPECT_TRUE(a);
        EXPECT_EQ(count_open_descriptors(), before + 1);
        const int fd = a.get();
        Descriptor b(std::move(a));
        EXPECT_EQ(b.get(), fd);
        Descriptor c(::eventfd(0, EFD_CLOEXEC));
        c = std::move(b);  // what it had is closed
        EXPECT_EQ(count_open_descriptors(), before + 1);
        EXPECT_EQ(c.get(), fd);
        Descriptor& itself = c;
        c = std::move(itself);
        EXPECT_EQ(c.get(), fd);
        c.reset();
        EXPECT_FALSE(c);
        EXPECT_EQ(c.get(), -1);
        EXPECT_EQ(count_open_descriptors(), before);
        Descriptor d(::eventfd(0, EFD_CLOEXEC));
        const int ours = d.release();
        EXPECT_FALSE(d);
        EXPECT_EQ(count_open_descriptors(), before + 1);
        ::close(ours);
    }
    EXPECT_EQ(count_open_descriptors(), before);
}

}  // namespace
}  // namespace salus::os
