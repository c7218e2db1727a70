#include "history/store.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

namespace salus::history {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPatience = seconds(10);
constexpr unsigned kMe = 1000;
constexpr Figures kFigures{500, milliseconds(32), mebibytes(400), gibibytes(5)};

Run run_of(std::uint64_t command, std::uint64_t program, double ended_at_s, Figures figures = kFigures, int status = 0) {
    return {kMe, {command, program}, "python train.py " + std::to_string(command), figures, seconds(20), ended_at_s, status};
}

CommandPair pair_of(CommandKeys first, CommandKeys second, double rate, double at_s) {
    const auto text = [](CommandKeys keys) { return "python train.py " + std::to_string(keys.command); };
    return {kMe, first, second, text(first), text(second), rate, 0.01, at_s};
}

class StoreTest : public ::testing::Test {
protected:
    StoreTest() {
        char name[] = "/tmp/salus-store-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        path_ = directory_ + "/" + kFileName;
    }
    ~StoreTest() override { fs::remove_all(directory_); }

    std::unique_ptr<Store> open(std::uint64_t commands_max = kCommandsMax) {
        Store::Opened opened = Store::open_or_replace(path_, kPatience, commands_max);
        EXPECT_EQ(opened.remark, "");
        return std::move(opened.store);
    }
    static void record(Store& store, const history::Run& run) {
        const Result<bool> done = store.record(run);
        ASSERT_TRUE(done.ok()) << done.error();
    }
    static Figures found(Store& store, CommandKeys keys, unsigned uid = kMe) {
        const Result<Figures> figures = store.find(uid, keys);
        EXPECT_TRUE(figures.ok()) << figures.error();
        return figures ? figures.value() : Figures{};
    }
    static std::vector<Record> listed(Store& store, std::optional<unsigned> uid = kMe) {
        Result<std::vector<Record>> records = store.list(uid);
        EXPECT_TRUE(records.ok()) << records.error();
        return records ? std::move(records).value() : std::vector<Record>{};
    }
    static std::vector<Usage> used(Store& store, std::optional<unsigned> uid = kMe, double since_s = 0) {
        Result<std::vector<Usage>> usage = store.usage(uid, since_s);
        EXPECT_TRUE(usage.ok()) << usage.error();
        return usage ? std::move(usage).value() : std::vector<Usage>{};
    }
    /// Behind the store's back.
    void execute(const std::string& sql) const {
        sqlite3* database = nullptr;
        ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
        sqlite3_close(database);
    }
    void write_file(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }

    std::string directory_;
    std::string path_;
};

TEST_F(StoreTest, WhatWasRecordedIsThereWhenItIsOpenedAgain) {
    record(*open(), run_of(1, 7, 100.5));
    const auto store = open();
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
    const std::vector<Record> records = listed(*store);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].runs, 1u);
    EXPECT_EQ(records[0].last.uid, kMe);
    EXPECT_EQ(records[0].last.keys, (CommandKeys{1, 7}));
    EXPECT_EQ(records[0].last.command, "python train.py 1");
    EXPECT_EQ(records[0].last.figures, kFigures);
    EXPECT_EQ(records[0].last.took, seconds(20));
    EXPECT_EQ(records[0].last.ended_at_s, 100.5);
    EXPECT_EQ(records[0].last.status, 0);
}

TEST_F(StoreTest, NobodyElseReadsTheFile) {
    record(*open(), run_of(1, 7, 100));
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(StoreTest, KeysOfAllBitsComeBack) {
    const auto store = open();
    const CommandKeys keys{~std::uint64_t{0}, std::uint64_t{1} << 63};
    record(*store, run_of(keys.command, keys.program, 1));
    EXPECT_EQ(found(*store, keys), kFigures);
    EXPECT_EQ(listed(*store)[0].last.keys, keys);
}

TEST_F(StoreTest, ARunReplacesTheOneBefore) {
    const auto store = open();
    record(*store, run_of(1, 7, 100));
    const Figures longer{900, milliseconds(40), mebibytes(1), mebibytes(2)};
    record(*store, run_of(1, 7, 200, longer));
    EXPECT_EQ(found(*store, {1, 7}), longer);
    ASSERT_EQ(listed(*store).size(), 1u);
    EXPECT_EQ(listed(*store)[0].runs, 2u);
    EXPECT_EQ(listed(*store)[0].last.ended_at_s, 200);
}

TEST_F(StoreTest, AFailedRunIsCountedAndChangesNoLength) {
    const auto store = open();
    const Figures cut_short{3, milliseconds(400), mebibytes(1), mebibytes(1)};
    record(*store, run_of(1, 7, 100, cut_short, 1));
    EXPECT_EQ(found(*store, {1, 7}), Figures{}) << "how long it would have been is not known";
    EXPECT_EQ(listed(*store)[0].last.figures.iterations, 0u);
    EXPECT_EQ(listed(*store)[0].last.figures.persistent, mebibytes(1)) << "but this much is";
    record(*store, run_of(1, 7, 200));
    record(*store, run_of(1, 7, 300, cut_short, 137));
    record(*store, run_of(1, 7, 400, {}, 0));  // it ended well, but had nothing to do
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
    const Record known = listed(*store)[0];
    EXPECT_EQ(known.runs, 4u);
    EXPECT_EQ(known.last.figures, kFigures);
    EXPECT_EQ(known.last.ended_at_s, 400);
    record(*store, run_of(1, 7, 500, cut_short, 137));
    EXPECT_EQ(listed(*store)[0].last.status, 137);
}

TEST_F(StoreTest, OtherArgumentsTellOfMemoryAndNotOfLength) {
    const auto store = open();
    const Figures later{900, milliseconds(40), mebibytes(1), mebibytes(2)};
    record(*store, run_of(1, 7, 100));
    record(*store, run_of(2, 7, 200, later));
    record(*store, run_of(3, 7, 300, {10, milliseconds(1), {}, {}}, 1));
    record(*store, run_of(4, 8, 400, {20, milliseconds(1), {}, {}}));
    EXPECT_EQ(found(*store, {1, 7}), kFigures) << "the command itself, though another ran later";
    const Figures memory{0, {}, later.persistent, later.ephemeral};
    EXPECT_EQ(found(*store, {99, 7}), memory);
    EXPECT_EQ(found(*store, {3, 7}), memory) << "its only run failed";
    EXPECT_EQ(found(*store, {99, 99}), Figures{});
}

TEST_F(StoreTest, HowLongAServerWasUsedIsNoLength) {
    const auto store = open();
    Figures server = kFigures;
    server.interactive = true;
    record(*store, run_of(1, 7, 100, server));
    EXPECT_EQ(listed(*store)[0].last.figures, server) << "the record says it all the same";
    server.iterations = 0;
    server.iteration_time = {};
    EXPECT_EQ(found(*store, {1, 7}), server);
}

TEST_F(StoreTest, UsersDoNotSeeEachOthers) {
    const auto store = open();
    record(*store, run_of(1, 7, 100));
    history::Run other = run_of(1, 7, 200, {1, milliseconds(1), {}, {}});
    other.uid = kMe + 1;
    record(*store, other);
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
    EXPECT_EQ(found(*store, {1, 7}, kMe + 2), Figures{});
    EXPECT_EQ(listed(*store).size(), 1u);
    EXPECT_EQ(listed(*store, std::nullopt).size(), 2u);
    EXPECT_EQ(store->clear(kMe + 1, "").value(), 1u);
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
}

TEST_F(StoreTest, KeepsTheLatestCommandsOfEachUser) {
    const auto store = open(/*commands_max=*/3);
    history::Run other = run_of(50, 7, 1);
    other.uid = kMe + 1;
    record(*store, other);
    for (std::uint64_t i = 1; i <= 5; ++i) record(*store, run_of(i, i, static_cast<double>(10 * i)));
    record(*store, run_of(3, 3, 60));  // the oldest that is left runs again
    record(*store, run_of(6, 6, 70));
    std::vector<std::uint64_t> left;
    for (const Record& known : listed(*store)) left.push_back(known.last.keys.command);
    EXPECT_EQ(left, (std::vector<std::uint64_t>{6, 3, 5}));
    EXPECT_EQ(listed(*store, kMe + 1).size(), 1u);
}

TEST_F(StoreTest, ClearsByAPartOfTheCommand) {
    const auto store = open();
    for (const std::uint64_t i : {1u, 10u, 2u}) record(*store, run_of(i, 7, 1));
    EXPECT_EQ(store->clear(kMe, "%").value(), 0u) << "no pattern";
    EXPECT_EQ(store->clear(kMe, ".py 1").value(), 2u);
    EXPECT_EQ(listed(*store).size(), 1u);
    EXPECT_EQ(store->clear(std::nullopt, "").value(), 1u);
    EXPECT_TRUE(listed(*store).empty());
}

TEST_F(StoreTest, FiguresThatCannotBeAreNotKnown) {
    const auto store = open();
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    record(*store, run_of(1, 7, std::numeric_limits<double>::infinity(), {~std::uint64_t{0}, {most}, {most}, {-1}}));
    EXPECT_EQ(listed(*store)[0].last.figures, Figures{});
    EXPECT_EQ(listed(*store)[0].last.ended_at_s, 0);
    record(*store, run_of(2, 7, 1));
    execute("UPDATE commands SET iteration_ns = -5, persistent = 'x', ephemeral = 1e300, runs = -1");
    EXPECT_EQ(found(*store, {2, 7}), (Figures{500, {}, {}, {}}));
}

// ------------------------------------------------------------------------------------------------------------- trouble

TEST_F(StoreTest, AFileThatIsNoneIsSetAside) {
    for (const std::string& content : {std::string("not a database, whatever it may be called"), std::string(5000, '\0')}) {
        write_file(content);
        Store::Opened opened = Store::open_or_replace(path_, kPatience);
        ASSERT_TRUE(opened.store);
        EXPECT_NE(opened.remark.find(path_ + ".broken"), std::string::npos) << opened.remark;
        EXPECT_EQ(opened.remark.find('\n'), std::string::npos);
        EXPECT_EQ(fs::file_size(path_ + ".broken"), content.size());
        record(*opened.store, run_of(1, 7, 1));
        EXPECT_EQ(found(*opened.store, {1, 7}), kFigures);
    }
}

TEST_F(StoreTest, ADamagedFileIsSetAside) {
    {
        const auto store = open();
        for (std::uint64_t i = 1; i <= 300; ++i) record(*store, run_of(i, 7, 1));
    }
    {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        for (std::streamoff at = 4096; at + 600 < static_cast<std::streamoff>(fs::file_size(path_)); at += 4096) {
            file.seekp(at);
            file << std::string(600, '\xee');
        }
    }
    const Result<std::unique_ptr<Store>> as_it_is = Store::open(path_, kPatience);
    ASSERT_FALSE(as_it_is.ok());
    EXPECT_NE(as_it_is.error().find("damaged"), std::string::npos) << as_it_is.error();
    Store::Opened opened = Store::open_or_replace(path_, kPatience);
    ASSERT_TRUE(opened.store);
    EXPECT_NE(opened.remark, "");
    EXPECT_TRUE(listed(*opened.store).empty());
    EXPECT_TRUE(fs::exists(path_ + ".broken"));
}

TEST_F(StoreTest, TablesOfOthersAreSetAside) {
    execute("CREATE TABLE commands (words TEXT); INSERT INTO commands VALUES ('x')");
    Store::Opened opened = Store::open_or_replace(path_, kPatience);
    ASSERT_TRUE(opened.store);
    EXPECT_NE(opened.remark, "");
    record(*opened.store, run_of(1, 7, 1));
}

TEST_F(StoreTest, AFileOfVersion1GetsTheClass) {
    record(*open(), run_of(1, 7, 1));
    execute("ALTER TABLE commands DROP COLUMN interactive; PRAGMA user_version = 1");
    const std::unique_ptr<Store> store = open();
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
    Figures server = kFigures;
    server.interactive = true;
    record(*store, run_of(1, 7, 2, server));
    EXPECT_EQ(listed(*store)[0].last.figures, server);
}

TEST_F(StoreTest, AFileOfVersion2GetsTheRuns) {
    record(*open(), run_of(1, 7, 1));
    execute("DROP TABLE runs; PRAGMA user_version = 2");
    const std::unique_ptr<Store> store = open();
    EXPECT_EQ(found(*store, {1, 7}), kFigures) << "what it knew stays";
    EXPECT_TRUE(used(*store).empty());
    record(*store, run_of(1, 7, 2));
    EXPECT_EQ(used(*store).size(), 1u);
}

TEST_F(StoreTest, AFileOfVersion3GetsThePairs) {
    record(*open(), run_of(1, 7, 1));
    execute("DROP TABLE pairs; PRAGMA user_version = 3");
    const auto store = open();
    EXPECT_EQ(found(*store, {1, 7}), kFigures);
    ASSERT_TRUE(store->record(pair_of({1, 7}, {2, 8}, 1.5, 10)).ok());
    EXPECT_EQ(store->pairs(kMe).value().size(), 1u);
}

TEST_F(StoreTest, APairIsFoundFromBothSidesAndByItsPrograms) {
    const auto store = open();
    ASSERT_TRUE(store->record(pair_of({2, 8}, {1, 7}, 1.5, 10)).ok());
    ASSERT_TRUE(store->record(pair_of({3, 8}, {1, 7}, 0.9, 20)).ok());
    ASSERT_TRUE(store->record(pair_of({1, 7}, {2, 8}, 1.6, 30)).ok()) << "the same two again";
    const auto of_one = store->pairs_with(kMe, {1, 7}).value();
    ASSERT_EQ(of_one.size(), 2u);
    EXPECT_EQ(of_one[0].second, (CommandKeys{2, 8})) << "the latest first";
    EXPECT_EQ(of_one[0].rate, 1.6);
    EXPECT_EQ(of_one[1].first, (CommandKeys{1, 7}));
    const auto of_other_arguments = store->pairs_with(kMe, {9, 8}).value();
    ASSERT_EQ(of_other_arguments.size(), 2u);
    for (const CommandPair& pair : of_other_arguments) EXPECT_EQ(pair.second, (CommandKeys{1, 7}));
    const auto exact = store->pairs_with(kMe, {3, 8}).value();
    EXPECT_EQ(exact.at(0).rate, 0.9) << "what is known of the very command comes first";
    EXPECT_TRUE(store->pairs_with(kMe + 1, {1, 7}).value().empty());
}

TEST_F(StoreTest, MpsHelpsIfPairsWereFasterWithIt) {
    const auto store = open();
    EXPECT_FALSE(store->mps_helps(kMe).value()) << "nothing is known";
    CommandPair pair = pair_of({1, 7}, {2, 8}, 1.3, 10);
    ASSERT_TRUE(store->record(pair).ok());
    EXPECT_FALSE(store->mps_helps(kMe).value()) << "it was measured without";
    pair.mps = true;
    ASSERT_TRUE(store->record(pair).ok());
    EXPECT_FALSE(store->mps_helps(kMe).value()) << "it is no faster than without";
    pair.rate = 1.5;
    ASSERT_TRUE(store->record(pair).ok());
    EXPECT_TRUE(store->mps_helps(kMe).value());
    EXPECT_FALSE(store->mps_helps(kMe + 1).value());
    EXPECT_EQ(store->pairs(kMe).value().size(), 2u) << "with and without it are two measurements";
}

TEST_F(StoreTest, PairsAreForgottenWithTheirCommandsAndInTime) {
    const auto store = open(/*commands_max=*/2);
    for (std::uint64_t other = 2; other <= 4; ++other) {
        ASSERT_TRUE(store->record(pair_of({1, 7}, {other, 8}, 1.5, static_cast<double>(other))).ok());
    }
    EXPECT_EQ(store->pairs(kMe).value().size(), 2u);
    EXPECT_EQ(store->pairs(kMe).value()[0].second, (CommandKeys{4, 8}));
    ASSERT_TRUE(store->clear(kMe, "train.py 4").ok());
    EXPECT_EQ(store->pairs(kMe).value().size(), 1u);
    execute("UPDATE pairs SET rate = 'x', error = 1e999");
    EXPECT_EQ(store->pairs({}).value()[0].rate, 0) << "impossible figures";
}

TEST_F(StoreTest, UsageIsSummedByUserAndCommandSinceATime) {
    const std::unique_ptr<Store> store = open();
    const auto ran = [&](unsigned uid, std::uint64_t command, double ended_at_s, RunUse use, int status = 0) {
        history::Run run = run_of(command, 7, ended_at_s, kFigures, status);
        run.uid = uid;
        run.use = use;
        record(*store, run);
    };
    ran(kMe, 1, 100, {10, 1});
    ran(kMe, 1, 200, {20, 2}, 1);
    ran(kMe, 2, 300, {90, 4});
    ran(7, 1, 300, {5, 8});
    const std::vector<Usage> all = used(*store, std::nullopt);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].uid, 7u);
    EXPECT_EQ(all[1].command, "python train.py 2") << "most device time first";
    EXPECT_EQ(all[2].jobs, 2u);
    EXPECT_EQ(all[2].iterations, 2 * kFigures.iterations) << "a failed run has used the device, too";
    EXPECT_DOUBLE_EQ(all[2].use.device_s, 30);
    EXPECT_DOUBLE_EQ(all[2].use.memory_time_gib_s, 3);
    EXPECT_DOUBLE_EQ(all[2].took.seconds(), 40);
    ASSERT_EQ(used(*store, kMe, 150).size(), 2u);
    EXPECT_EQ(used(*store, kMe, 150)[1].jobs, 1u);
    EXPECT_EQ(used(*store, kMe, 301).size(), 0u);
    EXPECT_TRUE(store->clear(kMe, "train.py 1").ok());
    EXPECT_EQ(used(*store).size(), 1u) << "what is forgotten is forgotten here, too";
}

TEST_F(StoreTest, UsageOfImpossibleRunsDoesNotOverflow) {
    const std::unique_ptr<Store> store = open();
    for (int i = 0; i < 2; ++i) {
        history::Run run = run_of(1, 7, 1);
        run.use = {std::numeric_limits<double>::infinity(), -1};
        run.took = Duration{std::numeric_limits<std::int64_t>::max()};
        record(*store, run);
    }
    execute("UPDATE runs SET device_s = 1e308, took_s = 1e308, iterations = 9223372036854775807");
    const std::vector<Usage> all = used(*store);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_GE(all[0].took.ns, 0);
    EXPECT_EQ(all[0].use.memory_time_gib_s, 0);
}

TEST_F(StoreTest, KeepsTheLatestRunsOfEachUser) {
    const auto store = std::move(Store::open_or_replace(path_, kPatience, kCommandsMax, /*runs_max=*/3).store);
    for (std::uint64_t i = 1; i <= 5; ++i) record(*store, run_of(i, 7, static_cast<double>(i)));
    const std::vector<Usage> all = used(*store);
    ASSERT_EQ(all.size(), 3u);
    for (const Usage& kept : all) EXPECT_NE(kept.command, "python train.py 1");
}

TEST_F(StoreTest, SeveralMayBringAFileUpToDateAtOnce) {
    for (int round = 0; round < 20; ++round) {
        fs::remove_all(path_);
        for (const char* suffix : {"-wal", "-shm"}) fs::remove(path_ + suffix);
        record(*open(), run_of(1, 7, 1));
        execute("ALTER TABLE commands DROP COLUMN interactive; PRAGMA user_version = 1");
        std::vector<std::thread> openers;
        for (int i = 0; i < 4; ++i) {
            openers.emplace_back([this] {
                const Store::Opened opened = Store::open_or_replace(path_, seconds(20));
                EXPECT_TRUE(opened.store) << opened.remark;
                EXPECT_EQ(opened.remark, "");
            });
        }
        for (std::thread& opener : openers) opener.join();
        EXPECT_EQ(found(*open(), {1, 7}), kFigures);
        EXPECT_FALSE(fs::exists(path_ + ".broken"));
    }
}

TEST_F(StoreTest, TheClassIsKnownEvenIfEveryRunWasInterrupted) {
    const std::unique_ptr<Store> store = open();
    Figures server = kFigures;
    server.interactive = true;
    record(*store, run_of(1, 7, 1, server, 130));
    EXPECT_TRUE(found(*store, {1, 7}).interactive);
    EXPECT_EQ(found(*store, {1, 7}).iterations, 0u) << "its length is not";
}

TEST_F(StoreTest, ANewerFileIsLeftAlone) {
    record(*open(), run_of(1, 7, 1));
    execute("PRAGMA user_version = 5");
    const Store::Opened opened = Store::open_or_replace(path_, kPatience);
    EXPECT_FALSE(opened.store);
    EXPECT_NE(opened.remark.find("newer"), std::string::npos) << opened.remark;
    EXPECT_FALSE(Store::open(path_, kPatience).ok());
    EXPECT_FALSE(fs::exists(path_ + ".broken"));
    execute("PRAGMA user_version = 4");
    EXPECT_EQ(found(*open(), {1, 7}), kFigures);
}

TEST_F(StoreTest, WhereNothingCanBeWrittenThereIsNone) {
    const Store::Opened opened = Store::open_or_replace(directory_ + "/nowhere/" + kFileName, kPatience);
    EXPECT_FALSE(opened.store);
    EXPECT_NE(opened.remark, "");
    EXPECT_FALSE(Store::open(path_, kPatience).ok()) << "there is none";
    EXPECT_FALSE(fs::exists(path_));
}

TEST_F(StoreTest, AWriteDoesNotWaitLongForOthers) {
    open();
    const auto store = std::move(Store::open_or_replace(path_, milliseconds(20)).store);
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    const Result<bool> refused = store->record(run_of(1, 7, 1));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().find("locked"), std::string::npos) << refused.error();
    EXPECT_EQ(found(*store, {1, 7}), Figures{}) << "reading goes on";
    sqlite3_close(other);
    record(*store, run_of(1, 7, 1));
}

TEST_F(StoreTest, SurvivesItsWriterBeingKilled) {
    std::uint64_t last_runs = 0;
    for (int round = 0; round < 5; ++round) {
        int written[2];
        ASSERT_EQ(::pipe(written), 0);
        const pid_t writer = ::fork();
        ASSERT_GE(writer, 0);
        if (writer == 0) {
            Store::Opened opened = Store::open_or_replace(path_, kPatience);
            for (std::uint64_t i = 0; opened.store; ++i) {
                // Each write is a small and a large change, of which there must be both or none.
                history::Run run = run_of(1 + i % 50, 7, static_cast<double>(i));
                run.command += std::string(i % 50 * 100, 'x');
                if (!opened.store->record(run)) ::_exit(1);
                const char one = 1;
                if (::write(written[1], &one, 1) != 1) ::_exit(1);
            }
            ::_exit(1);
        }
        ::close(written[1]);
        char one = 0;
        for (int i = 0; i < 60 + 17 * round; ++i) ASSERT_EQ(::read(written[0], &one, 1), 1) << "the writer gave up";
        ::kill(writer, SIGKILL);
        ::waitpid(writer, nullptr, 0);
        std::uint64_t confirmed = static_cast<std::uint64_t>(60 + 17 * round);
        while (::read(written[0], &one, 1) == 1) ++confirmed;
        ::close(written[0]);

        const auto store = open();  // without a remark: nothing is broken
        ASSERT_TRUE(store);
        std::uint64_t runs = 0;
        for (const Record& known : listed(*store)) {
            runs += known.runs;
            EXPECT_EQ(known.last.figures, kFigures);
        }
        EXPECT_GE(runs, last_runs + confirmed) << "what was written is there";
        EXPECT_LE(runs, last_runs + confirmed + 1);
        last_runs = runs;
    }
}

}  // namespace
}  // namespace salus::history
