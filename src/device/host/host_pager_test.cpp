#include "device/host/host_pager.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include <gtest/gtest.h>

namespace salus::device {
namespace {

constexpr std::uint64_t kPart = 1 << 20;

class HostPagerTest : public ::testing::Test {
protected:
    /// Filled with `value`.
    static Part make(int value) {
        void* at = ::mmap(nullptr, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(at, MAP_FAILED);
        std::memset(at, value, kPart);
        return {static_cast<std::byte*>(at), kPart};
    }
    static bool is_filled(const Part& part, int value) {
        for (std::uint64_t at = 0; at < part.size; ++at) {
            if (part.at[at] != static_cast<std::byte>(value)) return false;
        }
        return true;
    }

    std::unique_ptr<Pager> pager_ = make_host_pager();
};

TEST_F(HostPagerTest, WhatIsOutIsTheSameWhenItIsInAgain) {
    const Part a = make(1), b = make(2);
    ASSERT_TRUE(pager_->page_out({a, b}));
    std::memset(a.at, 3, kPart);
    ASSERT_TRUE(pager_->page_in());
    EXPECT_TRUE(is_filled(a, 3));
    EXPECT_TRUE(is_filled(b, 2));
}

// Where the kernel has no more mappings, or no more address space for the process.
TEST_F(HostPagerTest, WhatCannotBeMappedStaysIn) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer itself needs address space at any time";
#endif
    const Part a = make(1), b = make(2);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
    const rlimit none{1 << 20, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
    const bool out = pager_->page_out({a, b});
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_FALSE(out);
    EXPECT_TRUE(is_filled(a, 1));
    EXPECT_TRUE(is_filled(b, 2));
    std::memset(a.at, 3, kPart);
    ASSERT_TRUE(pager_->page_out({a, b}));
    ASSERT_TRUE(pager_->page_in());
    EXPECT_TRUE(is_filled(a, 3));
    EXPECT_TRUE(is_filled(b, 2));
}

TEST_F(HostPagerTest, WhatHadGoneBeforeOneThatCannotComesBack) {
    const Part a = make(1), b = make(2);
    const Part amid{b.at + 100, kPart - 4096};  // no mapping can start there
    EXPECT_FALSE(pager_->page_out({a, amid}));
    EXPECT_TRUE(is_filled(a, 1));
    EXPECT_TRUE(is_filled(b, 2));
    // The file is used anew: what came back does not depend on it.
    const Part c = make(4);
    ASSERT_TRUE(pager_->page_out({c}));
    EXPECT_TRUE(is_filled(a, 1));
    ASSERT_TRUE(pager_->page_in());
    EXPECT_TRUE(is_filled(c, 4));
}

}  // namespace
}  // namespace salus::device
