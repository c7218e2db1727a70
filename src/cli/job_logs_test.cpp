#include "cli/job_logs.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace salus::cli {
namespace {

namespace fs = std::filesystem;

class JobLogs : public ::testing::Test {
protected:
    JobLogs() {
        char name[] = "/tmp/salus-logs-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
    }
    ~JobLogs() override { fs::remove_all(directory_); }

    /// The file's name; it was last written so many seconds ago.
    std::string make(std::uint32_t job, const std::string& name, int ago_s = 0) {
        const Result<NewLog> log = make_log(directory_, job, name);
        if (!log) return log.error();
        fs::last_write_time(log.value().path, fs::file_time_type::clock::now() - std::chrono::seconds(ago_s));
        return fs::path(log.value().path).filename().string();
    }
    std::string find(const std::string& which) {
        const Result<std::string> path = find_log(directory_, which);
        return path ? fs::path(path.value()).filename().string() : path.error();
    }

    std::string directory_;
};

TEST_F(JobLogs, WhatAnEarlierJobOfTheNumberAndNameWroteStays) {
    EXPECT_EQ(make(1, "train"), "1-train.log");
    std::ofstream(directory_ + "/1-train.log") << "of the night";
    EXPECT_EQ(make(1, "train"), "1-train.log.2");
    EXPECT_EQ(make(1, "train"), "1-train.log.3");
    EXPECT_EQ(fs::file_size(directory_ + "/1-train.log"), 12u);
}

TEST_F(JobLogs, TheLatestOfANumberOrNameIsFound) {
    make(1, "train", 300);
    make(1, "train", 200);
    make(2, "train", 100);
    make(2, "other", 50);
    EXPECT_EQ(find("1"), "1-train.log.2");
    EXPECT_EQ(find("train"), "2-train.log");
    EXPECT_EQ(find("2"), "2-other.log");
}

TEST_F(JobLogs, OnlyTheWholeNameCounts) {
    make(1, "my-train");
    make(11, "train.2");
    EXPECT_EQ(find("train"), "no log for job 'train'; did you mean 'train.2'?");
    EXPECT_EQ(find("my-train"), "1-my-train.log");
    EXPECT_EQ(find("train.2"), "11-train.2.log");
    EXPECT_EQ(find("1"), "1-my-train.log");
    EXPECT_EQ(find("2"), "no log for job '2'; only jobs started with --detach have one");
}

TEST_F(JobLogs, NamesThatLookLikeOursAreToldApart) {
    make(1, "a.log");
    make(1, "a.log", 10);
    make(2, "dir/name");
    EXPECT_EQ(find("a.log"), "1-a.log.log");
    EXPECT_EQ(find("a"), "no log for job 'a'; only jobs started with --detach have one");
    EXPECT_EQ(find("dir/name"), "2-dir_name.log");
}

TEST_F(JobLogs, TheLastLinesAreFound) {
    const auto last_lines = [&](const std::string& text, std::uint64_t lines) {
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
        std::fwrite(text.data(), 1, text.size(), file.get());
        skip_to_last_lines(file.get(), lines);
        std::string rest(text.size(), '\0');
        rest.resize(std::fread(rest.data(), 1, rest.size(), file.get()));
        return rest;
    };
    EXPECT_EQ(last_lines("1\n2\n3\n", 2), "2\n3\n");
    EXPECT_EQ(last_lines("1\n2\n3", 2), "2\n3") << "it has not ended yet";
    EXPECT_EQ(last_lines("1\n2\n3\n", 3), "1\n2\n3\n");
    EXPECT_EQ(last_lines("1\n2\n3\n", 9), "1\n2\n3\n");
    EXPECT_EQ(last_lines("1\n2\n3\n", 0), "");
    EXPECT_EQ(last_lines("\n\n", 1), "\n");
    EXPECT_EQ(last_lines("", 1), "");
    const std::string long_line(200'000, 'x');  // longer than what is read at once
    EXPECT_EQ(last_lines("1\n" + long_line + "\n", 1), long_line + "\n");
    EXPECT_EQ(last_lines(long_line + "\n1\n", 2), long_line + "\n1\n");
}

TEST_F(JobLogs, WhereNothingCanBeWrittenIsNamed) {
    const Result<NewLog> log = make_log("/proc/nowhere", 1, "train");
    ASSERT_FALSE(log);
    EXPECT_EQ(log.error(), "/proc/nowhere: No such file or directory");
}

}  // namespace
}  // namespace salus::cli
