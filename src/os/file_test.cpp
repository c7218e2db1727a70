#include "os/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

class FileTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/salus-file-test-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        directory_ = pattern;
        path_ = directory_ + "/file";
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    std::string content() const { return read_file(path_).value(); }

    std::string directory_;
    std::string path_;
};

TEST_F(FileTest, IsReadAsItWasWritten) {
    const std::string text = std::string(200'000, 'x') + '\0' + "end";
    ASSERT_TRUE(write_file(path_, text));
    EXPECT_EQ(content(), text);
    ASSERT_TRUE(write_file(path_, ""));
    EXPECT_EQ(content(), "");
}

TEST_F(FileTest, AnErrorNamesTheFile) {
    EXPECT_EQ(read_file(path_).error(), "cannot open '" + path_ + "': No such file or directory");
    EXPECT_EQ(read_file(directory_).error(), "cannot read '" + directory_ + "': Is a directory");
    EXPECT_EQ(write_file(directory_, "").error(), "cannot write '" + directory_ + "': Is a directory");
}

TEST_F(FileTest, IsOpenedAsAsked) {
    EXPECT_FALSE(open_file(path_, Open::kRead));
    const Descriptor made = open_file(path_, Open::kNew);
    ASSERT_TRUE(made);
    EXPECT_NE(::fcntl(made.get(), F_GETFD) & FD_CLOEXEC, 0);
    struct stat status {};
    ASSERT_EQ(::fstat(made.get(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    EXPECT_FALSE(open_file(path_, Open::kNew));
    EXPECT_EQ(errno, EEXIST);
    ASSERT_TRUE(write_all(made.get(), "one"));
    ASSERT_TRUE(write_all(open_file(path_, Open::kAppend).get(), "two"));
    EXPECT_EQ(content(), "onetwo");
    ASSERT_TRUE(write_all(open_file(path_, Open::kReadWrite).get(), "ONE"));
    EXPECT_EQ(content(), "ONEtwo");
    ASSERT_TRUE(write_all(open_file(path_, Open::kReplace).get(), "three"));
    EXPECT_EQ(content(), "three");
}

TEST_F(FileTest, ADirectoryIsOpenedButNoLinkToOne) {
    EXPECT_TRUE(open_file(directory_, Open::kDirectory));
    std::filesystem::create_symlink(directory_, path_);
    EXPECT_FALSE(open_file(path_, Open::kDirectory));
}

TEST_F(FileTest, IsPutAtANumberForTheNextProgram) {
    const Descriptor file = open_file(path_, Open::kNew);
    const Descriptor other(::dup(file.get()));
    put_at(file.get(), other.get());
    EXPECT_EQ(::fcntl(other.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
    put_at(file.get(), file.get());
    EXPECT_EQ(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Pipe, CarriesBytesFromTheSecondEndToTheFirst) {
    const auto pipe = make_pipe();
    ASSERT_TRUE(pipe);
    ASSERT_TRUE(write_all(pipe->second.get(), "x"));
    char byte = 0;
    EXPECT_EQ(::read(pipe->first.get(), &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
}

TEST_F(FileTest, BytesAreWrittenWhereTheyBelong) {
    ASSERT_TRUE(write_file(path_, "0123456789"));
    const std::array bytes = {std::byte{'a'}, std::byte{'b'}};
    const Descriptor file = open_file(path_, Open::kReadWrite);
    ASSERT_TRUE(write_all_at(file.get(), bytes, 3));
    EXPECT_EQ(content(), "012ab56789");
    EXPECT_FALSE(write_all_at(-1, bytes, 0));
    EXPECT_FALSE(write_all(-1, "x"));
}

class Replaced : public FileTest, public testing::WithParamInterface<bool> {
protected:
    Result<Written> replace(std::string_view content) {
        return GetParam() ? replace_file_at_once(path_, content) : replace_file(path_, content);
    }
};

INSTANTIATE_TEST_SUITE_P(Files, Replaced, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "AtOnce" : "Lastingly"; });

TEST_P(Replaced, AsAWholeOrNotAtAll) {
    ASSERT_TRUE(replace("old"));
    ASSERT_TRUE(replace("new"));
    EXPECT_EQ(content(), "new");
    EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
    // In a process of its own, since a limit cannot be taken back.
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4, 4};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
        ::_exit(replace("too long") ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(content(), "new");
}

TEST(MemoryFile, KeepsTheSizeItWasSealedWith) {
    const Descriptor file = make_memory_file("test");
    ASSERT_TRUE(file);
    ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
    EXPECT_FALSE(has_lasting_size(file.get(), 4096));
    ASSERT_TRUE(seal_size(file.get()));
    EXPECT_TRUE(has_lasting_size(file.get(), 4096));
    EXPECT_FALSE(has_lasting_size(file.get(), 8192));
    EXPECT_FALSE(has_lasting_size(-1, 4096));
    EXPECT_NE(::ftruncate(file.get(), 8192), 0);
}

TEST(MemoryFile, ThatMustNotShrinkMayGrow) {
    const Descriptor file = make_memory_file("test");
    ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
    ASSERT_TRUE(seal_against_shrinking(file.get()));
    EXPECT_EQ(::ftruncate(file.get(), 8192), 0);
    EXPECT_NE(::ftruncate(file.get(), 4096), 0);
    EXPECT_FALSE(seal_size(file.get()));
}

}  // namespace
}  // namespace salus::os
