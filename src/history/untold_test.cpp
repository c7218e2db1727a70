#include "history/untold.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace salus::history {
namespace {

namespace fs = std::filesystem;

class UntoldTest : public ::testing::Test {
protected:
    UntoldTest() {
        char name[] = "/tmp/salus-untold-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        state_ = name;
    }
    ~UntoldTest() override { fs::remove_all(state_); }

    static UntoldRun run_of(const std::string& service, std::uint64_t key, double ended_at_s) {
        UntoldRun untold{service, {}};
        untold.run.keys = {key, ~std::uint64_t{0}};
        untold.run.command = "python train.py --lr 1";
        untold.run.took = seconds(90);
        untold.run.ended_at_s = ended_at_s;
        untold.run.status = 130;
        return untold;
    }
    std::vector<std::uint64_t> take(const std::string& service) const {
        std::vector<std::uint64_t> keys;
        for (const UntoldRun& untold : take_untold(state_, [&](const std::string& of) { return of == service; }))
            keys.push_back(untold.run.keys.command);
        return keys;
    }
    using Keys = std::vector<std::uint64_t>;

    std::string state_;
};

TEST_F(UntoldTest, IsReadAsItWasWritten) {
    const Result<UntoldRun> read = untold_in(text_of(run_of("/run/salus/socket", 7, 1'700'000'000.5)));
    ASSERT_TRUE(read.ok()) << read.error();
    EXPECT_EQ(read.value().service, "/run/salus/socket");
    EXPECT_EQ(read.value().run.keys, (CommandKeys{7, ~std::uint64_t{0}}));
    EXPECT_EQ(read.value().run.command, "python train.py --lr 1");
    EXPECT_EQ(read.value().run.took, seconds(90));
    EXPECT_EQ(read.value().run.ended_at_s, 1'700'000'000.5);
    EXPECT_EQ(read.value().run.status, 130);
    for (const char* nonsense : {"", "service", "service own\nstatus 0\n", "status x\nservice own\ncommand_key 4\n"})
        EXPECT_FALSE(untold_in(nonsense).ok()) << nonsense;
}

TEST_F(UntoldTest, EachIsTakenOnceAndByItsServiceOnly) {
    EXPECT_EQ(take("own"), Keys{});
    ASSERT_TRUE(keep_untold(state_, "2", run_of("own", 2, 20)).ok());
    ASSERT_TRUE(keep_untold(state_, "1", run_of("own", 1, 30)).ok());
    ASSERT_TRUE(keep_untold(state_, "3", run_of("/run/salus/socket", 3, 10)).ok());
    EXPECT_EQ(take("own"), (Keys{2, 1})) << "in order of their ends";
    EXPECT_EQ(take("own"), Keys{});
    EXPECT_EQ(take("/run/salus/socket"), Keys{3});
}

TEST_F(UntoldTest, WhatIsBrokenOrAnothersIsLeftAlone) {
    ASSERT_TRUE(keep_untold(state_, "good", run_of("own", 1, 1)).ok());
    ASSERT_TRUE(keep_untold(state_, "open", run_of("own", 2, 2)).ok());
    for (const char* open : {"", "/ended"}) ::chmod((state_ + open).c_str(), 0755);
    ::chmod((state_ + "/ended/open").c_str(), 0666);
    std::ofstream(state_ + "/ended/broken") << "service own\n";
    std::ofstream(state_ + "/ended/draft.new") << text_of(run_of("own", 3, 3));
    EXPECT_EQ(take("own"), Keys{1});
    for (const char* left : {"open", "broken", "draft.new"}) EXPECT_TRUE(fs::exists(state_ + "/ended/" + left)) << left;
}

TEST_F(UntoldTest, ThereIsAnEndToThem) {
    for (std::size_t i = 0; i < kUntoldMax; ++i)
        ASSERT_TRUE(keep_untold(state_, std::to_string(i), run_of("own", i + 1, 1)).ok());
    const Result<bool> more = keep_untold(state_, "more", run_of("own", 1, 1));
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error(), state_ + "/ended is full");
}

}  // namespace
}  // namespace salus::history
