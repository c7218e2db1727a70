#include "wire/assignments.h"

#include <gtest/gtest.h>

namespace salus::wire {
namespace {

TEST(Assignments, AllThreeCanBeSetAtOnce) {
    const Result<Assignments> made = parse_assignments({"priority=-5", "weight=0.5", "iterations=100"});
    ASSERT_TRUE(made) << made.error();
    EXPECT_EQ(made.value().priority, -5);
    EXPECT_EQ(made.value().weight, 0.5);
    EXPECT_EQ(made.value().iterations, 100u);
    EXPECT_FALSE(parse_assignments({"weight=2"}).value().priority);
}

TEST(Assignments, WhatMakesNoSenseIsRefusedWithTheRange) {
    const struct {
        std::vector<std::string_view> words;
        std::string_view says;
    } rows[] = {
        {{}, "set what? priority=N, weight=X or iterations=N"},
        {{"colour=red"}, "cannot set 'colour': there are priority, weight and iterations"},
        {{"colour"}, "cannot set 'colour': there are priority, weight and iterations"},
        {{"weight"}, "'weight' is not NAME=NUMBER"},
        {{"weight=red"}, "'weight=red' is not NAME=NUMBER"},
        {{"weight=0"}, "weight: is from 0.000001 to 1000000"},
        {{"weight=1e-300"}, "weight: is from 0.000001 to 1000000"},
        {{"priority=1", "priority=0.5"}, "priority: is a whole number from -1000000 to 1000000"},
        {{"priority=1000001"}, "priority: is a whole number from -1000000 to 1000000"},
        {{"iterations=-5"}, "iterations: is a whole number from 0 (not known) to 1000000000000000"},
    };
    for (const auto& row : rows) {
        const Result<Assignments> made = parse_assignments(row.words);
        ASSERT_FALSE(made) << row.says;
        EXPECT_EQ(made.error(), row.says);
    }
}

}  // namespace
}  // namespace salus::wire
