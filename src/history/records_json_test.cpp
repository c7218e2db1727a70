#include "history/records_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::history {
namespace {

TEST(RecordsJson, ComeBackAsTheyWere) {
    Record record;
    record.runs = 3;
    record.last = {1001,
                   {0xf000000000000001, 0},
                   "python train.py",
                   {500, milliseconds(20), mebibytes(100), mebibytes(200), true},
                   seconds(9),
                   1.7e9,
                   143};
    const nlohmann::json written = records_json({record, {}});
    const std::vector<Record> read = records_from(written);
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(records_json(read), written);
    EXPECT_EQ(read[0].last.figures.iteration_time, milliseconds(20));
    EXPECT_TRUE(read[0].last.figures.interactive);
    EXPECT_EQ(read[0].last.status, 143);
    EXPECT_EQ(read[0].last.keys.command, 0xf000000000000001);
}

TEST(RecordsJson, WhatJobsHaveUsedComesBack) {
    const std::vector<Usage> usage = {{1001, "python train.py", 3, 500, {2.5, 0.75}, seconds(9)}, {}};
    const nlohmann::json written = usage_json(usage);
    const std::vector<Usage> read = usage_from(written);
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(usage_json(read), written);
    EXPECT_EQ(read[0].command, "python train.py");
    EXPECT_EQ(read[0].use.device_s, 2.5);
    EXPECT_EQ(read[0].took, seconds(9));
    EXPECT_TRUE(usage_from(nlohmann::json::object()).empty());
}

TEST(RecordsJson, WhatMakesNoSenseKeepsItsDefault) {
    EXPECT_TRUE(records_from(nlohmann::json::object()).empty());
    const auto odd = nlohmann::json::parse(R"([7, {"command": 5, "key": "0g", "runs": "x", "took_s": 1e300, "class": 1}])");
    const std::vector<Record> read = records_from(odd);
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(records_json(read), records_json({Record{}}));
}

}  // namespace
}  // namespace salus::history
