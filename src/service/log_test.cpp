#include "service/log.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "os/file.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

/// In a process of its own, because what was logged before counts.
class LogTest : public ::testing::Test {
protected:
    LogTest() {
        char name[] = "/tmp/salus-log-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
    }
    ~LogTest() override { fs::remove_all(directory_); }

    template <typename Body>
    void in_a_process(const Body& body) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const os::Descriptor file = os::open_file(path(), os::Open::kAppend);
            os::put_at(file.get(), STDERR_FILENO);
            os::put_at(file.get(), STDOUT_FILENO);
            body();
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status));
    }
    std::string path() const { return directory_ + "/salusd.log"; }
    static std::string contents(const std::string& path) {
        std::ostringstream all;
        all << std::ifstream(path).rdbuf();
        return all.str();
    }

    std::string directory_;
};

TEST_F(LogTest, AFloodIsCountedAndHidesNoWarning) {
    in_a_process([] {
        set_log_level(LogLevel::kInfo);
        for (int i = 0; i < 5000; ++i) log(LogLevel::kInfo, "flood {}", i);
        log(LogLevel::kWarning, "heard all the same");
        tell_held_back();
        tell_held_back();
    });
    const std::string text = contents(path());
    const std::size_t written = count(text, "flood ");
    EXPECT_GE(written, 100u);
    EXPECT_LE(written, 1000u);
    EXPECT_EQ(count(text, "heard all the same"), 1u);
    const std::string told = std::to_string(5000 - written) + " more lines of severity info were suppressed\n";
    EXPECT_EQ(count(text, told), 1u) << text.substr(text.size() - 300);
}

TEST_F(LogTest, DebugLinesAreAllWritten) {
    in_a_process([] {
        set_log_level(LogLevel::kDebug);
        for (int i = 0; i < 3000; ++i) log(LogLevel::kDebug, "detail {}", i);
    });
    EXPECT_EQ(count(contents(path()), "detail "), 3000u);
}

TEST_F(LogTest, ItsFileIsBounded) {
    constexpr Bytes kMost{20'000};
    in_a_process([&] {
        set_log_level(LogLevel::kDebug);
        bound_log(path(), kMost);
        for (int i = 0; i < 3000; ++i) log(LogLevel::kDebug, "detail {}", i);
    });
    const std::string older = contents(path() + ".1");
    const std::string both = older + contents(path());
    EXPECT_LE(both.size(), 2 * static_cast<std::size_t>(kMost.count) + 200);
    EXPECT_GE(older.size(), static_cast<std::size_t>(kMost.count));
    EXPECT_TRUE(both.ends_with("detail 2999\n"));
    EXPECT_EQ(count(both, "\n"), count(both, "detail ")) << "no line is torn";
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 2);
}

TEST_F(LogTest, AnotherFileIsNotRotated) {
    in_a_process([&] {
        set_log_level(LogLevel::kDebug);
        bound_log(directory_ + "/other.log", Bytes{100});
        for (int i = 0; i < 100; ++i) log(LogLevel::kDebug, "detail {}", i);
    });
    EXPECT_EQ(count(contents(path()), "detail "), 100u);
}

}  // namespace
}  // namespace salus::service
