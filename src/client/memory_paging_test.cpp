// Paging, fork, and freed memory.
#include "client/memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/memory_fixture.h"

namespace salus::client::test {
namespace {

/// Anonymous memory that is resident for these blocks, each of which lies in its own mapping.
std::uint64_t resident(const std::vector<const void*>& blocks) {
    std::ifstream maps("/proc/self/smaps");
    std::uint64_t total = 0;
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin = 0, end = 0, kib = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
            inside = std::any_of(blocks.begin(), blocks.end(), [&](const void* block) {
                const auto at = reinterpret_cast<std::uint64_t>(block);
                return at >= begin && at < end;
            });
        } else if (inside && std::sscanf(line.c_str(), "Anonymous: %lu kB", &kib) == 1) {
            total += kib << 10;
        }
    }
    return total;
}

TEST_F(MemoryTest, PagedMemoryComesBackAtItsAddressWithItsContent) {
    map_lane(4 * kMiB);
    begin_turn(0, 4 * kMiB);
    std::byte* kept = evacuated(3 * kMiB, 1);
    void* a = persistent(2 * kMiB);
    void* b = persistent(5 * kMiB);
    fill(a, 2 * kMiB, 2);
    fill(b, 5 * kMiB, 3);
    void* small = persistent(1000);
    std::memset(small, 0x77, 1000);

    EXPECT_FALSE(memory_->paged());
    EXPECT_TRUE(memory_->page_out());
    EXPECT_TRUE(memory_->paged());
    EXPECT_TRUE(memory_->page_out());  // it is out already
    EXPECT_EQ(page_.page_outs, 1u);
    EXPECT_LT(resident({kept, a, b}), 1 * kMiB);
    EXPECT_EQ(static_cast<unsigned char*>(small)[999], 0x77);

    EXPECT_TRUE(memory_->page_in());
    EXPECT_FALSE(memory_->paged());
    EXPECT_TRUE(memory_->page_in());  // it is in already
    EXPECT_TRUE(holds(kept, 3 * kMiB, 1));
    EXPECT_TRUE(holds(a, 2 * kMiB, 2));
    EXPECT_TRUE(holds(b, 5 * kMiB, 3));

    fill(a, 2 * kMiB, 4);  // and again, with other content
    EXPECT_TRUE(memory_->page_out());
    EXPECT_TRUE(memory_->page_in());
    EXPECT_EQ(page_.page_outs, 2u);
    EXPECT_TRUE(holds(a, 2 * kMiB, 4));
    EXPECT_TRUE(holds(b, 5 * kMiB, 3));
    for (void* block : {static_cast<void*>(kept), a, b, small}) memory_->free(block);
    EXPECT_EQ(memory_->private_bytes(), 0u);
}

TEST_F(MemoryTest, WhatIsFreedWhilePagedDoesNotComeBack) {
    map_lane(4 * kMiB);
    begin_turn(0, 4 * kMiB);
    std::byte* kept = evacuated(4 * kMiB, 1);
    void* a = persistent(2 * kMiB);
    void* b = persistent(3 * kMiB);
    fill(a, 2 * kMiB, 2);
    fill(b, 3 * kMiB, 3);
    ASSERT_TRUE(memory_->page_out());
    memory_->free(a);
    memory_->free(kept);
    EXPECT_EQ(memory_->private_bytes(), 3 * kMiB);

    // New blocks, and another client's data in the lane, take the freed places before the page-in.
    void* c = persistent(2 * kMiB);
    EXPECT_EQ(c, a);
    fill(c, 2 * kMiB, 4);
    std::byte* other = elsewhere();
    fill(other, 4 * kMiB, 5);
    ASSERT_TRUE(memory_->page_in());
    EXPECT_TRUE(holds(b, 3 * kMiB, 3));
    EXPECT_TRUE(holds(c, 2 * kMiB, 4));
    EXPECT_TRUE(holds(kept, 4 * kMiB, 5));  // shows the lane
    EXPECT_TRUE(holds(other, 4 * kMiB, 5));
    memory_->free(b);
    memory_->free(c);
}

TEST_F(MemoryTest, WithoutAPlaceToPutItNothingIsPagedOut) {
    const char* before = std::getenv("SALUS_PAGE_DIR");
    const std::optional<std::string> saved = before ? std::optional<std::string>(before) : std::nullopt;
    ::setenv("SALUS_PAGE_DIR", "/nowhere/at/all", 1);
    void* block = persistent(2 * kMiB);
    fill(block, 2 * kMiB, 1);
    EXPECT_FALSE(memory_->page_out());
    EXPECT_FALSE(memory_->paged());
    EXPECT_EQ(page_.page_outs, 0u);
    EXPECT_TRUE(holds(block, 2 * kMiB, 1));
    if (saved) ::setenv("SALUS_PAGE_DIR", saved->c_str(), 1);
    else ::unsetenv("SALUS_PAGE_DIR");
}

// Another thread of the job, or the kernel on its behalf, may touch paged-out memory.
TEST_F(MemoryTest, WhatIsPagedOutCanBeReadAndWritten) {
    void* a = persistent(4 * kMiB);
    fill(a, 4 * kMiB, 1);
    ASSERT_TRUE(memory_->page_out());
    EXPECT_TRUE(readable(a));
    EXPECT_TRUE(holds(a, 4 * kMiB, 1));
    auto* bytes = static_cast<std::byte*>(a);
    fill(bytes + 2 * kMiB, 2 * kMiB, 2);
    ASSERT_TRUE(memory_->page_in());
    EXPECT_TRUE(holds(bytes, 2 * kMiB, 1));
    EXPECT_TRUE(holds(bytes + 2 * kMiB, 2 * kMiB, 2));
    // The next page-out reuses the file from which the memory was read before.
    void* b = persistent(4 * kMiB);
    fill(b, 4 * kMiB, 3);
    fill(a, 4 * kMiB, 4);
    ASSERT_TRUE(memory_->page_out());
    ASSERT_TRUE(memory_->page_in());
    EXPECT_TRUE(holds(a, 4 * kMiB, 4));
    EXPECT_TRUE(holds(b, 4 * kMiB, 3));
    EXPECT_GE(resident({a, b}), 8 * kMiB);
    memory_->free(a);
    memory_->free(b);
}

// ------------------------------------------------------------------------------------------------------------------ fork

TEST_F(MemoryTest, AChildHasACopyOfWhatIsInTheLane) {
    map_lane(8 * kMiB);
    begin_turn(kPlenty, 8 * kMiB);
    void* a = ephemeral(3 * kMiB);
    ASSERT_TRUE(memory_->in_lane(a));
    fill(a, 3 * kMiB, 1);
    std::byte* beyond = device_->lane_window() + 6 * kMiB;
    EXPECT_TRUE(readable(beyond));
    EXPECT_TRUE(in_a_child(
        *memory_, [&] { return holds(a, 3 * kMiB, 1) && !readable(beyond) && memory_->owns(a) && memory_->owns(beyond); }));
    EXPECT_TRUE(holds(a, 3 * kMiB, 1));
    EXPECT_TRUE(memory_->in_lane(a));  // a thread of the parent may be using it
    memory_->free(a);
    EXPECT_TRUE(memory_->boundary());
    turn_begins();
    a = ephemeral(3 * kMiB);
    EXPECT_TRUE(memory_->in_lane(a));
    memory_->free(a);
}

TEST_F(MemoryTest, AChildBornWhilePagedKeepsWhatItInherited) {
    void* a = persistent(4 * kMiB);
    fill(a, 4 * kMiB, 1);
    ASSERT_TRUE(memory_->page_out());
    EXPECT_TRUE(in_a_child(*memory_, [&] { return holds(a, 4 * kMiB, 1); }));
    int go[2];
    ASSERT_EQ(::pipe(go), 0);
    memory_->before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
        memory_->after_fork_in_child();
        char byte = 0;
        const bool told = ::read(go[0], &byte, 1) == 1;  // the parent has paged in, changed all, and paged out again
        ::_exit(told && holds(a, 4 * kMiB, 1) ? 0 : 1);
    }
    memory_->after_fork_in_parent();
    ASSERT_TRUE(memory_->page_in());
    fill(a, 4 * kMiB, 2);
    ASSERT_TRUE(memory_->page_out());
    ASSERT_EQ(::write(go[1], "g", 1), 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(memory_->page_in());
    EXPECT_TRUE(holds(a, 4 * kMiB, 2));
    ::close(go[0]);
    ::close(go[1]);
}

// ------------------------------------------------------------------------------------------------------------- leftovers

TEST_F(MemoryTest, WhatTheNextIterationWantsAgainIsKeptAWhile) {
    map_lane(kMiB);
    begin_turn(kPlenty, kMiB);
    void* gradients = persistent(8 * kMiB, /*inside=*/true);
    fill(gradients, 8 * kMiB, 1);
    memory_->free(gradients);
    EXPECT_TRUE(memory_->boundary());
    const void* same = gradients;
    EXPECT_GE(resident({same}), 8 * kMiB);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(memory_->boundary());
    EXPECT_LT(resident({same}), kMiB);
}

TEST_F(MemoryTest, WhatAProfilingTurnLeavesIsGivenBackAtOnce) {
    turn_begins();
    void* block = automatic(8 * kMiB);
    fill(block, 8 * kMiB, 1);
    memory_->free(block);
    EXPECT_TRUE(memory_->boundary());
    EXPECT_LT(resident({block}), kMiB);
}

}  // namespace
}  // namespace salus::client::test
