#include "device/host/write_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace salus::device {
namespace {

constexpr std::uint64_t kSize = 1 << 20;

class WriteGuardTest : public ::testing::TestWithParam<bool> {
protected:
    /// Anonymous memory, or a memfd's, as lanes are.
    std::byte* make() {
        void* at = nullptr;
        if (!GetParam()) {
            at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        } else {
            const os::Descriptor file(::memfd_create("test", MFD_CLOEXEC));
            EXPECT_EQ(::ftruncate(file.get(), kSize), 0);
            at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        }
        EXPECT_NE(at, MAP_FAILED);
        return static_cast<std::byte*>(at);
    }
};
INSTANTIATE_TEST_SUITE_P(Memory, WriteGuardTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "OfAFile" : "Anonymous"; });

TEST_P(WriteGuardTest, HoldsUpAWriterAndLetsItGoOnWhatIsThereAfterwards) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the kernel settles this race, and the sanitizer does not know";
#endif
    std::byte* memory = make();  // never touched: pages that are not there are guarded as well
    std::atomic<bool> through{false};
    std::thread writer;
    {
        const WriteGuard guard({{memory, kSize}});
        if (!guard.holds()) GTEST_SKIP() << "userfaultfd is not for this user here";
        writer = std::thread([&] {
            memory[5000] = std::byte{7};
            through = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_FALSE(through);
        EXPECT_EQ(memory[5000], std::byte{0});  // reading is no writing
        ASSERT_NE(::mmap(memory, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
        memory[5001] = std::byte{8};
    }
    writer.join();
    EXPECT_EQ(memory[5000], std::byte{7});
    EXPECT_EQ(memory[5001], std::byte{8});
    ::munmap(memory, kSize);
}

TEST_P(WriteGuardTest, LeavesTheMemoryWritable) {
    std::byte* memory = make();
    { const WriteGuard guard({{memory, kSize}}); }
    memory[0] = std::byte{1};
    EXPECT_EQ(memory[0], std::byte{1});
    ::munmap(memory, kSize);
}

}  // namespace
}  // namespace salus::device
