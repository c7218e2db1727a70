#include "service/roster.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "os/process.h"
#include "service/log.h"
#include "service/ports.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

class RosterTest : public ::testing::Test {
protected:
    RosterTest() {
        char name[] = "/tmp/salus-roster-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        path_ = directory_ + "/roster";
        set_log_level(LogLevel::kError);
    }
    ~RosterTest() override {
        set_log_level(LogLevel::kInfo);
        fs::remove_all(directory_);
    }

    void write(const std::string& text) const { std::ofstream(path_) << text; }
    std::string text() const {
        std::ostringstream all;
        all << std::ifstream(path_).rdbuf();
        return all.str();
    }

    std::string directory_;
    std::string path_;
};

const std::string kDevice = "GPU-5a1d";

RosterEntry myself() { return {::getpid(), os::start_time_of(::getpid()).value_or(0), 0, mebibytes(2), mebibytes(3)}; }

TEST_F(RosterTest, IsReadAsItWasWritten) {
    const std::vector<RosterEntry> entries = {
        {1, 2, 3, mebibytes(4), mebibytes(5)},
        {4711, ~std::uint64_t{0}, 0xffffffffu, {}, {}},  // without a lane
        {std::numeric_limits<int>::max(), 0, 0, gibibytes(1 << 18), gibibytes(1 << 18)},
    };
    write_roster(path_, kDevice, entries);
    EXPECT_EQ(read_roster(path_, kDevice), entries);
    write_roster(path_, kDevice, {});
    EXPECT_TRUE(read_roster(path_, kDevice).empty());
    EXPECT_TRUE(read_roster(directory_ + "/none", kDevice).empty());
    EXPECT_TRUE(read_roster(directory_, kDevice).empty());
}

TEST_F(RosterTest, ThatOfAnotherDeviceIsNotRead) {
    write_roster(path_, "GPU-1111", {myself()});
    EXPECT_TRUE(read_roster(path_, kDevice).empty()) << "a device has the number that another one had";
    EXPECT_EQ(read_roster(path_, "GPU-1111").size(), 1u);
    write_roster(path_, "", {myself()});
    EXPECT_EQ(read_roster(path_, "").size(), 1u);
}

TEST_F(RosterTest, LinesThatMakeNoSenseAreSkipped) {
    write(
        "# pid start-time lane lane-bytes persistent-bytes\n"
        "\n"
        "10 20 0 100 200\n"
        "nonsense\n"
        "11 20 0 100\n"
        "0 20 0 100 200\n"
        "-5 20 0 100 200\n"
        "12 20 0 -100 200\n"
        "13 20 0 100 -200\n"
        "99999999999 20 0 100 200\n"
        "14 20 0 100 99999999999999999999\n"
        "15 20 x 100 200\n"
        "16 20 1 300 400\n"
        "17 2");  // cut off
    const std::vector<RosterEntry> expected = {{10, 20, 0, {100}, {200}}, {16, 20, 1, {300}, {400}}};
    EXPECT_EQ(read_roster(path_, kDevice), expected);
}

// Sums of the figures read must not wrap around: that would make the service less careful.
TEST_F(RosterTest, FiguresThatCannotBeAreSkipped) {
    write(
        "10 20 0 9223372036854775807 9223372036854775807\n"
        "11 20 1 9223372036854775807 9223372036854775807\n"
        "12 20 2 100 200\n");
    const std::vector<RosterEntry> expected = {{12, 20, 2, {100}, {200}}};
    EXPECT_EQ(read_roster(path_, kDevice), expected);
}

TEST_F(RosterTest, AnyBytesAreRead) {
    std::string bytes;
    for (int i = 0; i < 10'000; ++i) bytes += static_cast<char>(i * 31 % 256);
    write(bytes + "\n10 20 0 100 200\n");
    EXPECT_EQ(read_roster(path_, kDevice).size(), 1u);
}

// ------------------------------------------------------------------------------------------------------ the old one stays

TEST_F(RosterTest, WithoutAPlaceForTheNewOneTheOldOneStays) {
    write_roster(path_, kDevice, {myself()});
    fs::create_directory(path_ + ".new");
    write_roster(path_, kDevice, {});
    EXPECT_EQ(read_roster(path_, kDevice), std::vector<RosterEntry>{myself()});
    write_roster(directory_ + "/none/roster", kDevice, {myself()});
    EXPECT_FALSE(fs::exists(directory_ + "/none"));
}

TEST_F(RosterTest, OnAFullDiskTheOldOneStays) {
    write_roster(path_, kDevice, {myself()});
    const std::string before = text();
    const std::vector<RosterEntry> many(1000, myself());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);  // then a write beyond the limit is an error
        const rlimit limit{100, 100};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        write_roster(path_, kDevice, many);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(text(), before);
    write_roster(path_, kDevice, many);  // later there is room again
    EXPECT_EQ(read_roster(path_, kDevice).size(), many.size());
}

// ----------------------------------------------------------------------------------------------------------- processes

TEST_F(RosterTest, AliveIsThatVeryProcess) {
    const KernelProcesses processes;
    shell::ProcessId me = myself().process;
    ASSERT_NE(me.start_time, 0u);
    EXPECT_TRUE(processes.is_alive(me));
    ++me.start_time;  // an earlier process with the same pid
    EXPECT_FALSE(processes.is_alive(me));

    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const shell::ProcessId of_child{child, os::start_time_of(child).value_or(0)};
    EXPECT_TRUE(processes.is_alive(of_child));
    ::kill(child, SIGKILL);
    siginfo_t end{};
    ::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT);
    EXPECT_FALSE(processes.is_alive(of_child)) << "nobody has read its status yet";
    ::waitpid(child, nullptr, 0);
    EXPECT_FALSE(processes.is_alive(of_child));
    EXPECT_FALSE(processes.is_alive({std::numeric_limits<int>::max(), 0}));
}

TEST_F(RosterTest, EachLaneIsHeldOnceAndEachPForItself) {
    EXPECT_EQ(shell::held_by({}), Bytes{});
    const std::vector<RosterEntry> entries = {
        {1, 1, /*lane=*/0, mebibytes(10), mebibytes(1)},
        {2, 1, /*lane=*/0, mebibytes(12), mebibytes(2)},  // the lane was growing
        {3, 1, /*lane=*/0, mebibytes(10), mebibytes(3)},
        {4, 1, /*lane=*/1, mebibytes(20), mebibytes(4)},
        {5, 1, 0xffffffffu, {}, mebibytes(5)},
    };
    EXPECT_EQ(shell::held_by(entries), mebibytes(1 + 2 + 3 + 4 + 5 + 12 + 20));
}

}  // namespace
}  // namespace salus::service
