#include "cli/runnable.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace salus::cli {
namespace {

namespace fs = std::filesystem;

/// In a working directory of its own, with `python` and nothing else in PATH.
class Runnable : public ::testing::Test {
protected:
    Runnable() : before_(fs::current_path()), path_(std::getenv("PATH")) {
        const std::string directory = ::testing::TempDir() + "salus-runnable-" + std::to_string(::getpid());
        fs::create_directories(directory + "/bin");
        fs::current_path(directory);
        make("bin/python", 0755);
        ::setenv("PATH", (directory + "/bin").c_str(), 1);
    }
    ~Runnable() override {
        ::setenv("PATH", path_.c_str(), 1);
        const fs::path directory = fs::current_path();
        fs::current_path(before_);
        fs::remove_all(directory);
    }
    static void make(const std::string& name, unsigned mode) {
        std::ofstream(name) << "#!/bin/sh\n";
        fs::permissions(name, static_cast<fs::perms>(mode));
    }
    static std::string why(const std::string& program) {
        const auto failure = why_not_runnable(program);
        return failure ? failure->message + " " + std::to_string(failure->status) : "";
    }

    fs::path before_;
    std::string path_;
};

TEST_F(Runnable, WhatCanBeExecutedIsSo) {
    make("script", 0755);
    for (const char* program : {"python", "bin/python", "./script"}) EXPECT_EQ(why(program), "");
    ::setenv("PATH", "", 1);
    EXPECT_EQ(why("script"), "") << "an empty entry is the working directory";
}

TEST_F(Runnable, WhatCannotIsExplained) {
    make("script", 0755);
    make("train.py", 0644);
    make("data", 0644);
    fs::create_directory("folder");
    EXPECT_EQ(why("nope"), "no command 'nope' in PATH 127");
    EXPECT_EQ(why(""), "no command '' in PATH 127");
    EXPECT_EQ(why("./nope"), "no file './nope' 127");
    EXPECT_EQ(why("script"), "no command 'script' in PATH; did you mean './script'? 127");
    EXPECT_EQ(why("train.py"), "train.py is not executable; did you mean 'python train.py'? 126");
    EXPECT_EQ(why("./train.py"), "./train.py is not executable; did you mean 'python ./train.py'? 126");
    EXPECT_EQ(why("./data"), "./data is not executable; chmod +x ./data makes it so 126");
    EXPECT_EQ(why("./folder"), "./folder is a directory 126");
    fs::remove("bin/python");
    EXPECT_EQ(why("train.py"), "train.py is not executable; did you mean 'python3 train.py'? 126");
}

}  // namespace
}  // namespace salus::cli
