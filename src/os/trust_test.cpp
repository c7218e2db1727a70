#include "os/trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 54321;

class TrustTest : public ::testing::Test {
protected:
    TrustTest() {
        char name[] = "/tmp/salus-trust-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        ::chmod(name, 0755);  // others get in: so it is the modes below that matter
        before_ = ::umask(0);
    }
    ~TrustTest() override {
        ::umask(before_);
        fs::remove_all(directory_);
    }

    std::string path(const std::string& name) const { return directory_ + "/" + name; }
    std::string make_directory(const std::string& name, mode_t mode) {
        EXPECT_EQ(::mkdir(path(name).c_str(), mode), 0) << name;
        ::chmod(path(name).c_str(), mode);
        return path(name);
    }
    std::string make_file(const std::string& name, mode_t mode = 0644) {
        std::ofstream(path(name)) << "policy = \"rr\"\n";
        ::chmod(path(name).c_str(), mode);
        return path(name);
    }

    std::string directory_;

private:
    mode_t before_ = 0;
};

TEST_F(TrustTest, WhatOthersCanWriteOrReplaceIsNotBelieved) {
    EXPECT_EQ(why_distrusted(make_file("mine")), std::nullopt);
    EXPECT_EQ(why_distrusted(path("none")), std::nullopt) << "what is not there nobody has written";
    EXPECT_EQ(why_distrusted(path("none/at/all")), std::nullopt);
    const std::string open_file = make_file("open", 0666);
    EXPECT_EQ(why_distrusted(open_file), open_file + " can be written by other users; chmod go-w helps");
    const std::string open = make_directory("everybodys", 0777);
    EXPECT_EQ(why_distrusted(open), open + " can be written by other users; chmod go-w helps");
    EXPECT_EQ(why_distrusted(make_file("everybodys/mine")), open + " can be written by other users; chmod go-w helps");
    make_directory("everybodys/below", 0700);
    EXPECT_NE(why_distrusted(make_file("everybodys/below/mine")), std::nullopt) << "the folder can be replaced";
    EXPECT_NE(why_distrusted(path("everybodys/none")), std::nullopt) << "another could be faster";
}

TEST_F(TrustTest, InAStickyDirectoryEntriesBelongToTheirOwners) {
    make_directory("sticky", 01777);
    EXPECT_NE(why_distrusted(path("sticky")), std::nullopt) << "others put files there";
    make_directory("sticky/mine", 0755);
    EXPECT_EQ(why_distrusted(make_file("sticky/mine/file")), std::nullopt);
    EXPECT_NE(why_distrusted(make_file("sticky/mine/open", 0666)), std::nullopt);
}

TEST_F(TrustTest, WhereOthersCannotEnterModesDoNotMatter) {
    make_directory("closed", 0700);
    make_directory("closed/open", 0777);
    EXPECT_EQ(why_distrusted(make_file("closed/open/file", 0666)), std::nullopt);
    make_file("open", 0666);
    EXPECT_NE(why_distrusted(path("closed/../open")), std::nullopt) << "this one is outside";
}

TEST_F(TrustTest, LinksAreFollowed) {
    const std::string open = make_file("open", 0666);
    const std::string mine = make_file("mine");
    fs::create_symlink(mine, path("to-mine"));
    fs::create_symlink("open", path("to-open"));
    fs::create_symlink("to-open", path("to-link"));
    fs::create_symlink("loop", path("loop"));
    fs::create_directory_symlink(directory_, path("here"));
    EXPECT_EQ(why_distrusted(path("to-mine")), std::nullopt);
    EXPECT_EQ(why_distrusted(path("here/here/to-mine")), std::nullopt);
    EXPECT_EQ(why_distrusted(path("to-link")), open + " can be written by other users; chmod go-w helps");
    EXPECT_EQ(why_distrusted(path("here/to-open")), open + " can be written by other users; chmod go-w helps");
    EXPECT_EQ(why_distrusted(path("loop")), path("loop") + " is a link that leads nowhere");
    EXPECT_EQ(why_distrusted("/dev/null"), std::nullopt) << "a device";
}

TEST_F(TrustTest, AnotherUsersIsNotBelieved) {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, to make files of another user";
    const auto give_away = [](const std::string& what) { EXPECT_EQ(::lchown(what.c_str(), kOther, kOther), 0); };
    give_away(make_file("theirs"));
    EXPECT_EQ(why_distrusted(path("theirs")), path("theirs") + " belongs to another user");
    fs::create_symlink(make_file("mine"), path("their-link"));
    give_away(path("their-link"));
    EXPECT_EQ(why_distrusted(path("their-link")), path("their-link") + " belongs to another user");
    make_directory("folder", 0755);
    make_file("folder/mine");
    give_away(path("folder"));
    EXPECT_EQ(why_distrusted(path("folder/mine")), path("folder") + " belongs to another user");
    EXPECT_EQ(make_private_directory(path("folder/new")).error(), path("folder") + " belongs to another user");
    make_directory("closed", 0700);
    give_away(make_file("closed/theirs"));
    EXPECT_NE(why_distrusted(path("closed/theirs")), std::nullopt) << "its owner may have it open";
}

TEST_F(TrustTest, DirectoriesAreMadeClosedWhateverTheUmask) {
    const Result<bool> made = make_private_directory(path("a/b/c/"));
    ASSERT_TRUE(made.ok()) << made.error();
    EXPECT_TRUE(made.value());
    struct stat status {};
    ASSERT_EQ(::stat(path("a/b/c").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0755u);
    const Result<bool> again = make_private_directory(path("a/b/c"));
    ASSERT_TRUE(again.ok()) << again.error();
    EXPECT_FALSE(again.value());
    make_directory("open", 0777);
    EXPECT_FALSE(make_private_directory(path("open")).ok());
    EXPECT_FALSE(make_private_directory(path("open/below")).ok());
    EXPECT_FALSE(fs::exists(path("open/below")));
    make_file("file");
    EXPECT_EQ(make_private_directory(path("file")).error(), path("file") + " is not a directory");
    EXPECT_EQ(make_private_directory(path("file/below")).error(), path("file/below") + ": Not a directory");
}

TEST_F(TrustTest, APathIsRelativeToTheWorkingDirectoryOfNow) {
    const fs::path before = fs::current_path();
    fs::current_path(directory_);
    EXPECT_EQ(absolute_path("a/b"), path("a/b"));
    EXPECT_EQ(absolute_path("/a/b"), "/a/b");
    make_file("open", 0666);
    EXPECT_NE(why_distrusted("open"), std::nullopt);
    EXPECT_NE(why_distrusted("./open"), std::nullopt);
    fs::current_path(before);
}

}  // namespace
}  // namespace salus::os
