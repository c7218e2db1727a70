#include "service/kept.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace salus::service {
namespace {

Kept example() {
    Kept kept;
    kept.given = {{"capacity", "1GiB"}, {"config", "/home/me/my file.toml"}, {"mps", ""}};
    kept.policy = "srtf";
    kept.instead_of = "fair";
    KeptJob job;
    job.job = 3;
    job.uid = 1000;
    job.processes = {{4711, 889911}, {4712, 889912}};
    job.said = {.paused = true, .suspended = true, .priority = -5, .weight = 0.25, .iterations = 100, .interactive = true};
    job.gone = {500, milliseconds(3), mebibytes(40), gibibytes(5), true};
    kept.jobs.push_back(job);
    job = {.job = 4, .uid = 0, .processes = {{1, 2}}, .said = {}, .gone = {}};
    job.said.interactive = false;
    kept.jobs.push_back(job);
    return kept;
}

TEST(KeptText, IsReadAsItWasWritten) {
    EXPECT_EQ(kept_in(text_of(example())), example());
    EXPECT_EQ(kept_in(text_of(Kept{})), Kept{});
    EXPECT_EQ(kept_in(""), Kept{});
}

TEST(KeptText, IsForPeopleToo) {
    const std::string text = text_of(example());
    EXPECT_NE(text.find("\ngiven capacity 1GiB\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\npolicy srtf instead of fair\n"), std::string::npos) << text;
    EXPECT_NE(
        text.find(
            "\njob 3 uid=1000 processes=4711/889911,4712/889912 paused suspended priority=-5 weight=0.25 iterations=100 "
            "class=interactive gone="),
        std::string::npos)
        << text;
}

TEST(KeptText, WhatMakesNoSenseIsSkipped) {
    for (const char* line :
         {"job", "job x uid=1 processes=1/2", "job 0 uid=1 processes=1/2", "job 1 processes=1/2", "job 1 uid=1",
          "job 1 uid=1 processes=", "job 1 uid=1 processes=1", "job 1 uid=1 processes=-1/2", "job 1 uid=1 processes=1/2,",
          "job 1 uid=1 processes=1/2 weight=0", "job 1 uid=1 processes=1/2 colour=red", "given", "given x", "policy srtf",
          "nonsense", "\x01\x02"}) {
        EXPECT_EQ(kept_in(std::string("given lanes 2\n") + line + "\n").jobs.size(), 0u) << line;
        EXPECT_EQ(kept_in(std::string("given lanes 2\n") + line + "\n").given, (GivenOptions{{"lanes", "2"}})) << line;
        EXPECT_EQ(kept_in(std::string(line) + "\n").policy, "") << line;
    }
    EXPECT_EQ(kept_in("job 1 uid=1 processes=1/2 paused gone=1/2/x/4/5\n").jobs.at(0).gone, RunFigures{});
    Kept two_lines;
    two_lines.given = {{"config", "/a\npolicy las instead of fair"}};
    EXPECT_EQ(kept_in(text_of(two_lines)), Kept{}) << "a value with an end of line is left out";
}

TEST(KeptText, AFileThatOthersMayWriteIsNotRead) {
    char name[] = "/tmp/salus-kept-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    EXPECT_EQ(read_kept(name), Kept{});
    std::ofstream(kept_path(name)) << text_of(example());
    ::chmod(kept_path(name).c_str(), 0600);
    EXPECT_EQ(read_kept(name), example());
    ::chmod(kept_path(name).c_str(), 0666);
    ::chmod(name, 0777);
    EXPECT_EQ(read_kept(name), Kept{});
    std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace salus::service
