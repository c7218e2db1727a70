#include "history/profiles.h"

#include <gtest/gtest.h>

namespace salus::history {
namespace {

Record record_of(const std::string& command, std::int64_t p_mib, std::int64_t t_mib, double ended_at_s = 1000) {
    Record record;
    record.runs = 1;
    record.last.uid = 7;
    record.last.keys = {42, 43};
    record.last.command = command;
    record.last.figures = {100, milliseconds(20), mebibytes(p_mib), mebibytes(t_mib), false};
    record.last.took = seconds(2);
    record.last.ended_at_s = ended_at_s;
    return record;
}

Profiles node(const std::vector<Record>& records, std::int64_t capacity_gib = 16) {
    return {Profiles::Shares{gibibytes(capacity_gib), gibibytes(4)}, profiles_of(records)};
}

std::string merged(const std::vector<Profiles>& nodes) {
    Profiles all;
    for (const Profiles& one : nodes) merge(all, one);
    return text_of(all);
}

TEST(Profiles, AreCalledLikeTheirScriptAndLeaveOutWhatNobodyHasSeen) {
    const std::vector<Profile> profiles =
        profiles_of({record_of("/usr/bin/python3 /home/a/train.py --lr 1", 100, 200), record_of("sleep 1", 0, 0)});
    ASSERT_EQ(profiles.size(), 1u);
    EXPECT_EQ(profiles[0].name, "train.py");
}

TEST(Profiles, ComeBackAsTheyWere) {
    const std::string text =
        text_of(node({record_of("python train.py \"a\\b\"", 100, 200), record_of("ray Trainer", 5, 6)}));
    const Result<Profiles> read = read_profiles(text);
    ASSERT_TRUE(read.ok()) << read.error();
    const Result<Profiles> again = read_profiles(text_of(read.value()));
    EXPECT_EQ(text_of(again.value()), text_of(read.value()));
    ASSERT_EQ(read.value().all.size(), 2u);
    const Record& record = read.value().all[1].record;
    EXPECT_EQ(record.last.command, "python train.py \"a\\b\"");
    EXPECT_EQ(record.last.keys.command, 42u);
    EXPECT_EQ(record.last.uid, 7u);
    EXPECT_EQ(record.last.figures, record_of("", 100, 200).last.figures);
    EXPECT_EQ(record.last.took, seconds(2));
    EXPECT_EQ(read.value().shares->capacity, gibibytes(16));
}

TEST(Profiles, OfTheSameCommandAreTheMostItNeededAndTheLatestTimes) {
    Record late = record_of("python train.py", 90, 300, 2000);
    late.last.figures.iteration_time = milliseconds(30);
    const std::vector<Profiles> nodes = {node({record_of("python train.py", 100, 200)}, 24), node({late}, 16)};
    const Result<Profiles> read = read_profiles(merged(nodes));
    ASSERT_TRUE(read.ok()) << read.error();
    ASSERT_EQ(read.value().all.size(), 1u);
    const Figures& figures = read.value().all[0].record.last.figures;
    EXPECT_EQ(figures.persistent, mebibytes(100));
    EXPECT_EQ(figures.ephemeral, mebibytes(300));
    EXPECT_EQ(figures.iteration_time, milliseconds(30));
    EXPECT_EQ(read.value().shares->capacity, gibibytes(16)) << "a share must fit on each GPU";
}

TEST(Profiles, AreKeptApartByUserDirectoryAndCommand) {
    Record others = record_of("python train.py", 1, 1), elsewhere = others;
    others.last.uid = 8;
    elsewhere.last.keys.command = 44;
    Profiles all;
    merge(all, node({record_of("python train.py", 1, 1), record_of("python train.py 2", 1, 1), others, elsewhere}));
    EXPECT_EQ(all.all.size(), 4u);
}

TEST(Profiles, MergeInAnyOrderAndAnyNumberOfTimes) {
    const Profiles a = node({record_of("a", 1, 2, 1000), record_of("b", 3, 4, 3000)}, 16);
    const Profiles b = node({record_of("b", 5, 1, 2000), record_of("c", 7, 8)}, 8);
    EXPECT_EQ(merged({a, b}), merged({b, a}));
    EXPECT_EQ(merged({a, b}), merged({a, b, a, b}));
    const std::string joined = text_of(b) + "\n" + text_of(a);  // by cat
    const Result<Profiles> read = read_profiles(joined);
    ASSERT_TRUE(read.ok()) << read.error();
    EXPECT_EQ(text_of(read.value()), merged({a, b}));
}

TEST(Profiles, SayWhichLineIsNotOne) {
    for (const std::string bad :
         {"7", "{}", "[]", "{\"name\":\"a\"}", "{\"salus_profiles\":2,\"capacity\":9,\"lane\":1}",
          "{\"salus_profiles\":1,\"capacity\":1,\"lane\":9}", "{\"name\":\"a\",\"persistent\":-5}", "\xff"}) {
        const Result<Profiles> read = read_profiles(text_of(node({record_of("a", 1, 2)})) + bad + "\n");
        ASSERT_FALSE(read.ok()) << bad;
        EXPECT_EQ(read.error(), "line 3 is not one that `salus profiles export` prints") << bad;
    }
    EXPECT_TRUE(read_profiles("").value().all.empty());
}

}  // namespace
}  // namespace salus::history
