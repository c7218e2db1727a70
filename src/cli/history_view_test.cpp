#include "cli/history_view.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::cli {
namespace {

history::Record resnet_record() {
    history::Record record;
    record.runs = 3;
    record.last = {1000, {1, 2}, "python train.py", {500, microseconds(32400), mebibytes(400), gibibytes(5)}, seconds(19),
                   900,  0};
    return record;
}

history::Record failed() {
    history::Record record;
    record.runs = 1;
    record.last = {1000, {3, 4}, "python -c 'a\nb' " + std::string(80, 'x') + " --lr 0.1", {}, milliseconds(200), 100, 137};
    return record;
}

TEST(FormatHistory, AlignsItsColumns) {
    EXPECT_EQ(format_history({resnet_record(), failed()}, 1000),
              "COMMAND                                                      RUNS  ITERATIONS  ITERATION        P        T  "
              "CLASS    TOOK  ENDED\n"
              "python train.py                                                 3         500    32.4 ms  400 MiB  5.0 GiB  "
              "batch  19.0 s  1m 40s ago\n"
              "python -c 'a?b' xxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxx --lr 0.1     1           -          -        -        -  "
              "batch   0.2 s  15m 00s ago, status 137\n");
    EXPECT_EQ(format_history({}, 1000), "no history\n");
    EXPECT_NE(format_history({resnet_record()}, 0).find("0.0 s ago"), std::string::npos) << "the clock was set back";
}

TEST(FormatHistory, ShowsOnceWhichCommandsRanAtOnce) {
    history::Record resnet = resnet_record(), other = failed();
    resnet.beside = {{other.last.command, 1.9, true}, {resnet.last.command, 0.9}};
    other.beside = {{resnet.last.command, 1.9, true}};
    const std::string text = format_history({resnet, other}, 1000);
    EXPECT_EQ(
        text.substr(text.find("\n\n") + 2),
        "RAN AT ONCE      WITH                                                         TIMES AS FAST AS IN TURNS  MPS\n"
        "python train.py  python -c 'a?b' xxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxx --lr 0.1                       1.90  yes\n"
        "python train.py  python train.py                                                                   0.90  no\n");
}

TEST(FormatHistory, LongIterationsAreInSeconds) {
    history::Record record = resnet_record();
    record.last.figures.iteration_time = seconds(200);
    EXPECT_NE(format_history({record}, 1000).find(" 3m 20s "), std::string::npos);
}

TEST(HistoryJson, HasTheKeysThatScriptsRelyOn) {
    history::Record cut = failed();
    cut.last.command = "python \xc3";
    const auto rows = nlohmann::json::parse(history_json({resnet_record(), cut}));
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["command"], "python train.py");
    EXPECT_EQ(rows[0]["user"], 1000);
    EXPECT_EQ(rows[0]["runs"], 3);
    EXPECT_EQ(rows[0]["iterations"], 500);
    EXPECT_DOUBLE_EQ(rows[0]["iteration_s"], 0.0324);
    EXPECT_EQ(rows[0]["persistent"], 400 << 20);
    EXPECT_EQ(rows[0]["ephemeral"], std::int64_t{5} << 30);
    EXPECT_EQ(rows[0]["took_s"], 19.0);
    EXPECT_EQ(rows[0]["ended_at_s"], 900.0);
    EXPECT_EQ(rows[1]["status"], 137);
    EXPECT_EQ(history_json({}), "[]\n");
}

}  // namespace
}  // namespace salus::cli
