#include "os/program.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "os/clock.h"
#include "os/file.h"

namespace salus::os {
namespace {

class ProgramTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/salus-program-test-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        directory_ = pattern;
        launch_.environment = environment_with({});
        output_ = open_file(directory_ + "/output", Open::kReplace);
        launch_.output = output_.get();
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    /// What the shell prints, or "?" if it does not end well.
    std::string says(const std::string& script) {
        launch_.command = {"sh", "-c", script};
        const Result<int> child = spawn(launch_);
        const auto end = child ? wait_for_end(child.value()) : std::nullopt;
        if (!end || end->pid != child.value() || !end->well()) return "?";
        return read_file(directory_ + "/output").value();
    }

    std::string directory_;
    Descriptor output_;
    Launch launch_;
};

TEST_F(ProgramTest, HasTheOutputAndInputItIsGiven) {
    ASSERT_TRUE(write_file(directory_ + "/input", "in\n"));
    const Descriptor input = open_file(directory_ + "/input", Open::kRead);
    launch_.input = input.get();
    EXPECT_EQ(says("cat; echo out; echo err >&2"), "in\nout\nerr\n");
}

TEST_F(ProgramTest, LeadsAGroupOrASession) {
    const std::string is_leader = "read -r pid name state parent group session rest < /proc/self/stat; ";
    EXPECT_EQ(says(is_leader + "[ $group = $pid ] && [ $session != $pid ] && echo group"), "group\n");
    launch_.leads = Launch::Leads::kSession;
    EXPECT_EQ(says(is_leader + "[ $session = $pid ] && echo session"), "group\nsession\n");
}

TEST_F(ProgramTest, ThatIsFreshHasNothingOfOurs) {
    const Descriptor ours(::dup(STDIN_FILENO));  // without close-on-exec
    const std::string script = "ls /proc/$$/fd | grep -qx " + std::to_string(ours.get()) + " && echo inherited || echo gone";
    EXPECT_EQ(says(script), "inherited\n");
    launch_.fresh = true;
    EXPECT_EQ(says(script), "inherited\ngone\n");

    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);
    launch_.command = {"sh", "-c", "kill -TERM $$; sleep 60"};
    const Result<int> child = spawn(launch_);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ASSERT_TRUE(child);
    const auto end = wait_for_end(child.value());
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->by_signal);
    EXPECT_EQ(end->number, SIGTERM);
}

TEST_F(ProgramTest, ThatCannotBeExecutedIsAnError) {
    launch_.command = {directory_ + "/nothing"};
    EXPECT_EQ(spawn(launch_).error(), "cannot execute " + directory_ + "/nothing: No such file or directory");
}

TEST_F(ProgramTest, IsLookedAtBeforeItIsReaped) {
    launch_.command = {"sh", "-c", "exit 7"};
    const int child = spawn(launch_).value();
    std::optional<Exit> end;
    for (int i = 0; i < 6000 && !end; ++i, sleep_for(milliseconds(10))) end = look_for_end(child);
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->by_signal);
    EXPECT_EQ(end->number, 7);
    EXPECT_FALSE(end->well());
    ASSERT_TRUE(reap(child));
    EXPECT_FALSE(reap(child));
    EXPECT_FALSE(look_for_end(child));
    EXPECT_FALSE(wait_for_end(child));
}

TEST_F(ProgramTest, ThatRunsHasNotEnded) {
    launch_.command = {"sleep", "60"};
    const int child = spawn(launch_).value();
    EXPECT_FALSE(reap(child));
    EXPECT_FALSE(look_for_end(child));
    ::kill(child, SIGKILL);
    const auto end = wait_for_end(child);
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->by_signal);
    EXPECT_EQ(end->number, SIGKILL);
}

TEST(Environment, IsOursWithSettingsAndWithoutSomeNames) {
    ::setenv("SALUS_OS_TEST_A", "1", 1);
    ::setenv("SALUS_OS_TEST_AB", "2", 1);
    const auto count = [](const std::vector<std::string>& all, const std::string& entry) {
        return std::count(all.begin(), all.end(), entry);
    };
    const auto replaced = environment_with({"SALUS_OS_TEST_A=3"});
    EXPECT_EQ(replaced[0], "SALUS_OS_TEST_A=3");
    EXPECT_EQ(count(replaced, "SALUS_OS_TEST_A=1"), 0);
    EXPECT_EQ(count(replaced, "SALUS_OS_TEST_AB=2"), 1);
    const auto without = environment_with({"SALUS_OS_TEST_A=3"}, "SALUS_OS_TEST_");
    EXPECT_EQ(count(without, "SALUS_OS_TEST_A=3"), 1);
    EXPECT_EQ(count(without, "SALUS_OS_TEST_AB=2"), 0);
    EXPECT_EQ(without.size() + 1, replaced.size());
    ::unsetenv("SALUS_OS_TEST_A");
    ::unsetenv("SALUS_OS_TEST_AB");
}

TEST(FindProgram, LooksInThePathAndThenElsewhere) {
    EXPECT_TRUE(find_program("sh").ends_with("/sh"));
    EXPECT_EQ(find_program("no-such-program-of-salus"), "");
    EXPECT_EQ(find_program("exe", {"relative", "/proc/self"}), "/proc/self/exe");
}

}  // namespace
}  // namespace salus::os
