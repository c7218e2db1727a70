#include "interpose/slots.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "salus/salus.h"

namespace salus::interpose {
namespace {

using Allocate = int (*)(void**, std::size_t, std::size_t);
Allocate allocate_before = nullptr;
std::size_t asked = 0;

int counting_allocate(void** block, std::size_t alignment, std::size_t size) {
    asked += size;
    return allocate_before(block, alignment, size);
}

TEST(Slots, SayWhatIsMissing) {
    void* before = nullptr;
    const std::vector<Redirection> one = {{"no_such_function_anywhere", before, &before}};
    EXPECT_EQ(redirect("libnowhere.so", one).error(), "no library libnowhere.so is loaded");
    EXPECT_EQ(redirect("libsalus.so", one).error(), "libsalus.so does not call no_such_function_anywhere");
    EXPECT_EQ(before, nullptr);
}

// libsalus.so serves as the library: without a service, it allocates with posix_memalign.
TEST(Slots, ThatLibrarysCallsGoElsewhereAndNobodyElses) {
    ::setenv("SALUS_DISABLE", "1", 1);
    salus_client* client = nullptr;
    ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK);
    ::unsetenv("SALUS_DISABLE");
    const auto done = redirect("libsalus.so", {{"posix_memalign", reinterpret_cast<void*>(&counting_allocate),
                                                reinterpret_cast<void**>(&allocate_before)}});
    ASSERT_TRUE(done) << done.error();
    void* theirs = salus_alloc(client, 12'345, SALUS_PERSISTENT);
    EXPECT_NE(theirs, nullptr);
    EXPECT_EQ(asked, 12'345u);
    void* ours = nullptr;
    EXPECT_EQ(::posix_memalign(&ours, 64, 1000), 0);
    EXPECT_EQ(asked, 12'345u);
    std::free(ours);
    salus_free(client, theirs);
    salus_detach(client);
    void* ignored = nullptr;
    EXPECT_TRUE(redirect("libsalus.so", {{"posix_memalign", reinterpret_cast<void*>(allocate_before), &ignored}}));
}

}  // namespace
}  // namespace salus::interpose
