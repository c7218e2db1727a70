#include "os/lock.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "os/clock.h"

namespace salus::os {
namespace {

class LockTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/salus-lock-test-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    Descriptor open() const { return std::move(open_lock(directory_ + "/lock")).value(); }
    std::string directory_;
};

TEST_F(LockTest, HasOneHolder) {
    Descriptor first = open();
    const Descriptor second = open();
    EXPECT_TRUE(take_lock(first.get(), {}));
    EXPECT_FALSE(take_lock(second.get(), {}));
    first.reset();
    EXPECT_TRUE(take_lock(second.get(), {}));
}

TEST_F(LockTest, IsWaitedForUnlessItsHolderIsAlive) {
    Descriptor first = open();
    const Descriptor second = open();
    ASSERT_TRUE(take_lock(first.get(), {}));
    EXPECT_FALSE(take_lock(second.get(), seconds(60), [] { return true; }));
    std::thread holder([&] {
        sleep_for(milliseconds(20));
        first.reset();
    });
    EXPECT_TRUE(take_lock(second.get(), seconds(60)));
    holder.join();
}

TEST_F(LockTest, AFileThatCannotBeMadeIsNamed) {
    const std::string path = directory_ + "/nowhere/lock";
    EXPECT_EQ(open_lock(path).error(), path + ": No such file or directory");
}

}  // namespace
}  // namespace salus::os
