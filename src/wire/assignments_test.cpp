#include "wire/assignments.h"

#include <cmath>
#include <limits>

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
        {{}, "nothing to set: give priority=N, weight=X, iterations=N or class=batch|interactive"},
        {{"colour=red"}, "cannot set 'colour'; only priority, weight, iterations and class can be set"},
        {{"colour"}, "cannot set 'colour'; only priority, weight, iterations and class can be set"},
        {{"weight"}, "'weight' is not NAME=NUMBER"},
        {{"weight=red"}, "'weight=red' is not NAME=NUMBER"},
        {{"weight=0"}, "weight must be from 0.000001 to 1000000"},
        {{"weight=1e-300"}, "weight must be from 0.000001 to 1000000"},
        {{"priority=0.5"}, "priority must be a whole number from -1000000 to 1000000"},
        {{"priority=1", "priority=2"}, "'priority' is set twice"},
        {{"class=eager"}, "class must be batch or interactive"},
        {{"class"}, "class must be batch or interactive"},
        {{"priority=1000001"}, "priority must be a whole number from -1000000 to 1000000"},
        {{"iterations=-5"}, "iterations must be a whole number from 0 (unknown) to 1000000000000000"},
    };
    for (const auto& row : rows) {
        const Result<Assignments> made = parse_assignments(row.words);
        ASSERT_FALSE(made) << row.says;
        EXPECT_EQ(made.error(), row.says);
    }
}

TEST(Assignments, TravelInAMessage) {
    for (const std::vector<std::string_view>& words :
         {std::vector<std::string_view>{"priority=-5", "weight=0.5", "iterations=100"},
          {"weight=2"},
          {"iterations=0"},
          {"class=interactive"}}) {
        const Assignments wanted = parse_assignments(words).value();
        const Result<Assignments> arrived = assignments_in(set_job({3, {}}, wanted));
        ASSERT_TRUE(arrived) << arrived.error();
        EXPECT_EQ(arrived.value().priority, wanted.priority);
        EXPECT_EQ(arrived.value().weight, wanted.weight);
        EXPECT_EQ(arrived.value().iterations, wanted.iterations);
    }
}

TEST(Assignments, AMessageIsNotBelieved) {
    const auto refusal = [](SetJob message) {
        const Result<Assignments> wanted = assignments_in(message);
        return wanted ? "" : wanted.error();
    };
    SetJob message;
    EXPECT_EQ(refusal(message), "nothing to set: give priority=N, weight=X, iterations=N or class=batch|interactive");
    message.fields = SetJob::kPriority | SetJob::kWeight | SetJob::kIterations;
    EXPECT_EQ(refusal(message), "");
    for (const std::int32_t priority : {kPriorityMax + 1, -kPriorityMax - 1, std::numeric_limits<std::int32_t>::min()}) {
        message.priority = priority;
        EXPECT_EQ(refusal(message), "priority must be a whole number from -1000000 to 1000000");
    }
    message.priority = 0;
    for (const double weight : {0.0, -1.0, 1e-300, 1e7, std::nan(""), std::numeric_limits<double>::infinity()}) {
        message.weight = weight;
        EXPECT_EQ(refusal(message), "weight must be from 0.000001 to 1000000");
    }
    message.weight = 1;
    message.iterations = kIterationsMax + 1;
    EXPECT_EQ(refusal(message), "iterations must be a whole number from 0 (unknown) to 1000000000000000");
    message.fields = SetJob::kPriority;
    EXPECT_EQ(refusal(message), "") << "what is not to be set may be anything";
}

}  // namespace
}  // namespace salus::wire
