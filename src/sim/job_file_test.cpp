#include "sim/job_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"

namespace salus::sim {
namespace {

const std::string kHeader = "name,arrival_s,iterations,iteration_ms,persistent_mib,ephemeral_mib";
const std::string kEveryHeader =
    kHeader +
    ",priority,weight,user,think_ms,startup_s,occupancy,interactive,random_think,requests_per_s,device_ms,host_ms,"
    "quantiles_ms,command";

std::string error_of(std::string_view text) {
    const auto result = parse_job_file(text, "jobs.csv");
    return result ? "no error" : result.error();
}

/// Every member that has a column.
auto columns(const SimulatedJob& j) {
    return std::tuple(j.name, j.arrival, j.iterations, j.iteration_time, j.persistent, j.ephemeral, j.priority, j.weight,
                      j.user, j.think, j.startup, j.occupancy, j.interactive, j.random_think, j.requests_per_s,
                      j.device_time, j.host_time, j.quantiles, j.command);
}

void expect_equal(std::span<const SimulatedJob> jobs, std::span<const SimulatedJob> expected) {
    ASSERT_EQ(jobs.size(), expected.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_TRUE(columns(jobs[i]) == columns(expected[i])) << "job " << i;
}

TEST(JobFile, ReadsEveryColumnInAnyOrder) {
    const auto jobs = parse_job_file(
        "quantiles_ms,host_ms,device_ms,requests_per_s,random_think,interactive,occupancy,startup_s,think_ms,user,weight,"
        "priority,"
        "ephemeral_mib,persistent_mib,iteration_ms,iterations,arrival_s,name\n"
        "4.5  5 13.25,2.5,1.75,20,1,1,0.25,1.5,20,1000,2.5,-3,6217.5,339,225.7,1000,12.000000001,resnet50\n"
        ",0,,0,0,0,1,0,0,4294967295,1,1000,0,0,0.000001,1e6,0,tiny\n",
        "jobs.csv");
    ASSERT_TRUE(jobs) << jobs.error();
    SimulatedJob resnet;
    resnet.name = "resnet50";
    resnet.arrival = nanoseconds(12'000'000'001);
    resnet.iterations = 1000;
    resnet.iteration_time = microseconds(225'700);
    resnet.persistent = mebibytes(339);
    resnet.ephemeral = Bytes{6217 * 1048576ll + 524288};
    resnet.priority = -3;
    resnet.weight = 2.5;
    resnet.user = UserId{1000};
    resnet.think = milliseconds(20);
    resnet.startup = milliseconds(1500);
    resnet.occupancy = 0.25;
    resnet.interactive = resnet.random_think = true;
    resnet.requests_per_s = 20;
    resnet.device_time = microseconds(1750);
    resnet.host_time = microseconds(2500);
    resnet.quantiles = {microseconds(4500), milliseconds(5), microseconds(13'250)};
    SimulatedJob tiny;
    tiny.name = "tiny";
    tiny.iterations = 1'000'000;
    tiny.iteration_time = nanoseconds(1);
    tiny.priority = 1000;
    tiny.user = UserId{0xffffffff};
    tiny.host_time = Duration{};
    expect_equal(jobs.value(), std::vector{resnet, tiny});
}

TEST(JobFile, OptionalColumnsAndEmptyFieldsKeepTheDefault) {
    for (const std::string& text : {kHeader + "\na,0,1,5,1,1\n", kEveryHeader + "\na,0,1,5,1,1,,,, ,\"\",,,,,,,,\n"}) {
        const auto jobs = parse_job_file(text, "jobs.csv");
        ASSERT_TRUE(jobs) << jobs.error();
        SimulatedJob expected;
        expected.name = "a";
        expected.iteration_time = milliseconds(5);
        expected.persistent = expected.ephemeral = mebibytes(1);
        expect_equal(jobs.value(), {&expected, 1});
    }
}

TEST(JobFile, NamesAreReadAsWritten) {
    const struct {
        std::string_view field, name;
    } kCases[] = {
        {"plain", "plain"},
        {"  trimmed\t", "trimmed"},
        {R"("a, b")", "a, b"},
        {R"("say ""hi""")", R"(say "hi")"},
        {R"(  " kept "  )", " kept "},
        {R"(5" disk)", R"(5" disk)"},
        {R"("#1")", "#1"},
        {"größe", "größe"},
    };
    for (const auto& [field, name] : kCases) {
        const auto jobs = parse_job_file(kHeader + "\n" + std::string(field) + ",0,1,5,1,1", "jobs.csv");
        ASSERT_TRUE(jobs) << field << ": " << jobs.error();
        EXPECT_EQ(jobs.value().at(0).name, name);
    }
}

TEST(JobFile, SkipsWhatIsNoRow) {
    const auto jobs = parse_job_file("\xef\xbb\xbf# jobs\r\n\r\n" + kHeader +
                                         "\r\n#a,b\r\n  \t\r\n"
                                         "\"a\",0,1,5,1,2\r\n\nb,1,1,5,1,3",
                                     "jobs.csv");
    ASSERT_TRUE(jobs) << jobs.error();
    ASSERT_EQ(jobs.value().size(), 2u);
    EXPECT_EQ(jobs.value()[0].ephemeral, mebibytes(2));
    EXPECT_EQ(jobs.value()[1].ephemeral, mebibytes(3));
    // Skipped lines count, so that the number is the one that an editor shows.
    EXPECT_EQ(error_of("# jobs\r\n\r\n" + kHeader + "\r\n\r\n# more\r\na,0,1,x,1,1\r\n"),
              "jobs.csv:6: column 4 (iteration_ms): 'x' is not a number");
}

TEST(JobFile, ErrorsOfTheHeader) {
    const struct {
        std::string text, error;
    } kCases[] = {
        {"", "1: there is no header: the file is empty"},
        {"\xef\xbb\xbf\n# nothing\n", "1: there is no header: the file is empty"},
        {kHeader, "1: no job follows the header"},
        {"# jobs\n" + kHeader + "\n\n# none\n", "2: no job follows the header"},
        {"name,arival_s\n", "1: column 2 (arival_s): no such column; did you mean arrival_s?"},
        {"Name\n", "1: column 1 (Name): no such column; did you mean name?"},
        {"name,colour\n",
         "1: column 2 (colour): no such column; there are name, arrival_s, iterations, iteration_ms, persistent_mib, "
         "ephemeral_mib, priority, weight, user, think_ms, startup_s, occupancy, interactive, random_think, "
         "requests_per_s, device_ms, host_ms, quantiles_ms, "
         "command"},
        {kHeader + ",\n", "1: column 7: it has no name"},
        {"name,user,\"name\"\n", "1: column 3 (name): it is column 1 already"},
        {"\nname,iterations,persistent_mib\n", "2: the header lacks arrival_s, iteration_ms, ephemeral_mib"},
        {"weight\n", "1: the header lacks name, arrival_s, iterations, iteration_ms, persistent_mib, ephemeral_mib"},
        {"name,\"user\n", "1: column 2: the quote is not closed on this line"},
    };
    for (const auto& [text, error] : kCases) EXPECT_EQ(error_of(text), "jobs.csv:" + error) << text;
}

TEST(JobFile, ErrorsOfARow) {
    const struct {
        std::string row, error;
    } kCases[] = {
        {"a,0,1", "4 (iteration_ms): 6 fields expected, 3 found"},
        {"a,0,1,5,1,1,7,8", "7: 6 fields expected, 8 found"},
        {"a,0,1,5,1,1,", "7: 6 fields expected, 7 found"},
        {"a;0;1;5;1;1", "2 (arrival_s): 6 fields expected, 1 found"},
        {",0,1,5,1,1", "1 (name): the field is empty"},
        {"\"  \",0,1,5,1,1", "1 (name): the field is empty"},
        {"a\tb\x1b[2J,0,1,5,1,1", "1 (name): 'a?b?[2J' has a control character"},
        {"\"a,0,1,5,1,1", "1 (name): the quote is not closed on this line"},
        {"a,0,\"1\"2,5,1,1", "3 (iterations): there is text after the closing quote"},
        {"a,,1,5,1,1", "2 (arrival_s): '' is not a number"},
        {"a,0,1,abc,1,1", "4 (iteration_ms): 'abc' is not a number"},
        {"a,0,1,5 ms,1,1", "4 (iteration_ms): '5 ms' is not a number"},
        {"a,nan,1,5,1,1", "2 (arrival_s): 'nan' is not a number"},
        {"a,0,1,5,inf,1", "5 (persistent_mib): 'inf' is not a number"},
        {"a,0,1,5,1,-Infinity", "6 (ephemeral_mib): '-Infinity' is not a number"},
        {"a,0,1,5,1,1e999", "6 (ephemeral_mib): '1e999' is not a number"},
        {"a,0,1,5,1," + std::string(39, 'x') + "ü" + std::string(99, 'y'),
         "6 (ephemeral_mib): '" + std::string(39, 'x') + "...' is not a number"},
        {"a,-1,1,5,1,1", "2 (arrival_s): '-1' is not between 0 and 1000000000"},
        {"a,1000000001,1,5,1,1", "2 (arrival_s): '1000000001' is not between 0 and 1000000000"},
        {"a,0,1.5,5,1,1", "3 (iterations): '1.5' is not a whole number"},
        {"a,0,0,5,1,1", "3 (iterations): '0' is not between 1 and 1000000000000"},
        {"a,0,-1,5,1,1", "3 (iterations): '-1' is not between 1 and 1000000000000"},
        {"a,0,1000000000001,0.001,1,1", "3 (iterations): '1000000000001' is not between 1 and 1000000000000"},
        {"a,0,1,0,1,1", "4 (iteration_ms): '0' is not between 1e-06 and 1000000000000"},
        {"a,0,1,-5,1,1", "4 (iteration_ms): '-5' is not between 1e-06 and 1000000000000"},
        {"a,0,1,1e-7,1,1", "4 (iteration_ms): '1e-7' is not between 1e-06 and 1000000000000"},
        {"a,0,1,2e12,1,1", "4 (iteration_ms): '2e12' is not between 1e-06 and 1000000000000"},
        {"a,0,1000001,1000000,1,1", "4 (iteration_ms): over 1000001 iterations this is more than 1000000000 s"},
        {"a,0,1000000000000,1.000001,1,1", "4 (iteration_ms): over 1000000000000 iterations this is more than 1000000000 s"},
        {"a,0,1,5,-0.1,1", "5 (persistent_mib): '-0.1' is not between 0 and 1000000000"},
        {"a,0,1,5,1e10,1", "5 (persistent_mib): '1e10' is not between 0 and 1000000000"},
        {"a,0,1,5,1,-1", "6 (ephemeral_mib): '-1' is not between 0 and 1000000000"},
        {"a,0,1,5,1,1e10", "6 (ephemeral_mib): '1e10' is not between 0 and 1000000000"},
    };
    for (const auto& [row, error] : kCases) {
        EXPECT_EQ(error_of(kHeader + "\ngood,0,1,5,1,1\n" + row + "\n"), "jobs.csv:3: column " + error) << row;
    }
}

TEST(JobFile, ErrorsOfOptionalColumns) {
    const struct {
        std::string fields, error;
    } kCases[] = {
        {"x,1,0,0,0,1", "7 (priority): 'x' is not a number"},
        {"0.5,1,0,0,0,1", "7 (priority): '0.5' is not a whole number"},
        {"1001,1,0,0,0,1", "7 (priority): '1001' is not between -1000 and 1000"},
        {"-1001,1,0,0,0,1", "7 (priority): '-1001' is not between -1000 and 1000"},
        {"0,0,0,0,0,1", "8 (weight): '0' is not between 1e-06 and 1000000"},
        {"0,-2,0,0,0,1", "8 (weight): '-2' is not between 1e-06 and 1000000"},
        {"0,1e7,0,0,0,1", "8 (weight): '1e7' is not between 1e-06 and 1000000"},
        {"0,1,-1,0,0,1", "9 (user): '-1' is not between 0 and 4294967295"},
        {"0,1,1.5,0,0,1", "9 (user): '1.5' is not a whole number"},
        {"0,1,4294967296,0,0,1", "9 (user): '4294967296' is not between 0 and 4294967295"},
        {"0,1,0,-1,0,1", "10 (think_ms): '-1' is not between 0 and 1000000000000"},
        {"0,1,0,2e12,0,1", "10 (think_ms): '2e12' is not between 0 and 1000000000000"},
        {"0,1,0,5e11,0,1", "10 (think_ms): over 3 iterations this is more than 1000000000 s"},
        {"0,1,0,0,-1,1", "11 (startup_s): '-1' is not between 0 and 1000000000"},
        {"0,1,0,0,2e9,1", "11 (startup_s): '2e9' is not between 0 and 1000000000"},
        {"0,1,0,0,0,0", "12 (occupancy): '0' is not above 0 and at most 1"},
        {"0,1,0,0,0,1.01", "12 (occupancy): '1.01' is not above 0 and at most 1"},
        {"0,1,0,0,0,-1", "12 (occupancy): '-1' is not above 0 and at most 1"},
        {"0,1,0,0,0,1,2,", "13 (interactive): '2' is not between 0 and 1"},
        {"0,1,0,0,0,1,1,yes", "14 (random_think): 'yes' is not a number"},
        {"0,1,0,0,0,1,1,1,-1", "15 (requests_per_s): '-1' is not between 0 and 1000000"},
        {"0,1,0,0,0,1,1,1,1,1,1,4 x", "18 (quantiles_ms): 'x' is not a number"},
        {"0,1,0,0,0,1,1,1,1,1,1,4 0", "18 (quantiles_ms): '0' is not between 1e-06 and 1000000000000"},
        {"0,1,0,0,0,1,1,1,1,1,1,5 4", "18 (quantiles_ms): '4' is less than the number before it"},
    };
    for (auto [fields, error] : kCases) {
        fields.append(static_cast<std::size_t>(12 - std::count(fields.begin(), fields.end(), ',')), ',');
        EXPECT_EQ(error_of(kEveryHeader + "\na,0,3,5,1,1," + fields), "jobs.csv:2: column " + error) << fields;
    }
}

TEST(JobFile, TakesTheLargestFigures) {
    const auto jobs =
        parse_job_file(kEveryHeader +
                           "\na,1e9,1e12,0.001,1e9,1e9,-1000,1e6,4294967295,0.001,1e9,1,1,1,1e6,1e12,1e12,1e12,\n"
                           "b,0,1,1e12,0,0,0,1e-6,0,1e12,0,1e-300,0,0,,,,,\n",
                       "jobs.csv");
    ASSERT_TRUE(jobs) << jobs.error();
    const SimulatedJob& a = jobs.value()[0];
    const SimulatedJob& b = jobs.value()[1];
    EXPECT_EQ(a.service(), seconds(1'000'000));
    EXPECT_EQ(b.service(), seconds(1'000'000'000));
    EXPECT_EQ(a.persistent, mebibytes(1'000'000'000));
    // The sum that a simulation forms for one job.
    EXPECT_LT(
        static_cast<double>(a.arrival.ns) + static_cast<double>(a.startup.ns) + 2 * static_cast<double>(b.service().ns),
        static_cast<double>(std::numeric_limits<std::int64_t>::max()));
}

TEST(JobFile, WritesACsvForPeople) {
    SimulatedJob job;
    job.name = "a, \"b\"";
    job.arrival = milliseconds(1500);
    job.iterations = 20;
    job.iteration_time = microseconds(225'700);
    job.persistent = mebibytes(339);
    job.ephemeral = Bytes{mebibytes(6217).count + 524288};
    job.startup = nanoseconds(10);
    job.occupancy = 0.1;
    job.interactive = true;
    job.command = "python a.py, b";
    EXPECT_EQ(
        format_job_file({&job, 1}),
        kEveryHeader + "\n\"a, \"\"b\"\"\",1.5,20,225.7,339,6217.5,0,1,0,0,0.00000001,0.1,1,0,0,,,,\"python a.py, b\"\n");
}

TEST(JobFile, RoundTrip) {
    Random random(7);
    // Figures of every magnitude, down to single nanoseconds and bytes.
    const auto upto = [&](std::int64_t high) { return random.integer(0, high >> random.below(60)); };
    std::vector<SimulatedJob> jobs;
    for (int i = 0; i < 2000; ++i) {
        constexpr std::int64_t kTimeMax = 1'000'000'000'000'000'000;
        SimulatedJob& job = jobs.emplace_back();
        for (std::uint64_t left = random.below(8); left > 0; --left) job.name += "ab,\"# ;"[random.below(7)];
        job.name.insert(random.below(job.name.size() + 1), 1, 'z');
        job.arrival = {upto(kTimeMax)};
        job.iterations = static_cast<std::uint64_t>(1 + upto(999'999'999'999));
        job.iteration_time = {1 + upto(kTimeMax / static_cast<std::int64_t>(job.iterations) - 1)};
        job.persistent = {upto(mebibytes(1'000'000'000).count)};
        job.ephemeral = {upto(mebibytes(1'000'000'000).count)};
        job.priority = static_cast<int>(random.integer(-1000, 1000));
        job.weight = random.chance(0.5) ? 1.0 : random.between(1e-6, 1e6);
        job.user = UserId{static_cast<std::uint32_t>(upto(0xffffffff))};
        job.think = {upto(kTimeMax / static_cast<std::int64_t>(job.iterations))};
        job.startup = {upto(kTimeMax)};
        job.occupancy = 1.0 - random.uniform();
        job.interactive = random.chance(0.5);
        job.random_think = random.chance(0.5);
        job.requests_per_s = random.between(0, 100);
        if (random.chance(0.5)) job.device_time = Duration{random.integer(0, 1'000'000'000)};
        if (random.chance(0.5)) job.host_time = Duration{random.integer(0, 1'000'000'000)};
        for (auto count = random.below(4); count > 0; --count) job.quantiles.push_back({random.integer(1, 1'000'000'000)});
        std::ranges::sort(job.quantiles);
        if (random.chance(0.5)) job.command = "run " + job.name;
    }
    const auto again = parse_job_file(format_job_file(jobs), "jobs.csv");
    ASSERT_TRUE(again) << again.error();
    expect_equal(again.value(), jobs);
}

TEST(JobFile, RefusesToWriteNamesThatWouldNotComeBack) {
    const CheckHandler old = set_check_handler(throw_check_failure);
    for (const char* name : {"", " ", "a\nb", "a\rb"}) {
        SimulatedJob job;
        job.name = name;
        EXPECT_THROW(format_job_file({&job, 1}), CheckFailure) << '"' << name << '"';
    }
    set_check_handler(old);
}

}  // namespace
}  // namespace salus::sim
