#include "job/options.h"

#include <vector>

#include <gtest/gtest.h>

#include "job/report.h"

namespace salus::job {
namespace {

Result<Options> read(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "salus-job");
    return read_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(JobOptions, SizesMayBeZero) {
    for (const char* zero : {"0", "0MiB", "0 GiB"}) {
        const Result<Options> options = read({"--persistent", zero, "--ephemeral", zero});
        ASSERT_TRUE(options) << zero;
        EXPECT_EQ(options.value().persistent, Bytes{});
        EXPECT_EQ(options.value().ephemeral, Bytes{});
    }
    EXPECT_FALSE(read({"--persistent", "0.5"}));
    EXPECT_FALSE(read({"--block", "0"}));
}

TEST(JobOptions, GrowthHoldsFromItsIterationOn) {
    const Options o =
        read({"--persistent", "8MiB", "--ephemeral", "8MiB", "--grow-at", "3", "--grow-ephemeral", "9MiB"}).value();
    EXPECT_EQ(o.ephemeral_in(2), mebibytes(8));
    EXPECT_EQ(o.ephemeral_in(3), mebibytes(9));
    EXPECT_EQ(o.persistent_in(3), mebibytes(8));
}

TEST(JobOptions, MeasuringLeavesOutWhatIsNotWork) {
    const Options o =
        read({"--kind", "inference", "--rate", "3", "--startup-ms", "9", "--crash-at", "1", "--measure", "5"}).value();
    EXPECT_EQ(o.mode, Mode::kMeasure);
    EXPECT_EQ(o.iterations, 7u);
    EXPECT_TRUE(o.alone);
    EXPECT_FALSE(o.inference());
    EXPECT_EQ(o.startup, Duration{});
    EXPECT_FALSE(o.crash_at);
}

TEST(JobOptions, ComplaintsAreOneLineThatNamesTheOption) {
    const std::vector<std::vector<const char*>> kCases = {
        {"--iterations", "0"},    {"--iterations", "-3"},
        {"--work", "many"},       {"--threads", "0"},
        {"--think-ms", "nan"},    {"--touch", "some"},
        {"--kind", "inference"},  {"--rate", "5"},
        {"--grow-at", "5"},       {"--grow-persistent", "1GiB"},
        {"--crash", "during"},    {"--hang", "idle"},
        {"--occupancy", "1.5"},   {"--report", "/no/where"},
        {"--name", "two\nlines"}, {"--survive", "x"},
        {"--weight", "0"},        {"--measure", "0"},
        {"--nonsense"},           {"--persistent"},
    };
    for (const auto& arguments : kCases) {
        const Result<Options> options = read(arguments);
        ASSERT_FALSE(options) << arguments[0];
        EXPECT_NE(options.error().find(arguments[0]), std::string::npos) << options.error();
        EXPECT_EQ(options.error().find('\n'), std::string::npos) << options.error();
    }
}

TEST(JobOptions, ComplaintsAreInOurOwnWords) {
    EXPECT_EQ(read({"--iteratoins", "5"}).error(), "no option '--iteratoins'; did you mean '--iterations'?");
    EXPECT_EQ(read({"extra"}).error(), "'extra' is one argument too many; salus-job --help explains it");
    EXPECT_EQ(read({"--persistent"}).error(), "--persistent needs a value");
}

TEST(JobReport, Percentiles) {
    EXPECT_EQ(percentile({}, 50), 0);
    EXPECT_EQ(percentile({3}, 99), 3);
    EXPECT_EQ(percentile({3, 1, 2}, 50), 2);
    EXPECT_EQ(percentile({4, 3, 1, 2}, 50), 2);
    std::vector<double> hundred;
    for (int i = 1; i <= 100; ++i) hundred.push_back(i);
    EXPECT_EQ(percentile(hundred, 99), 99);
    EXPECT_EQ(percentile(hundred, 100), 100);
}

}  // namespace
}  // namespace salus::job
