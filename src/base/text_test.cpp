#include "base/text.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>

namespace salus {
namespace {

TEST(Text, ParseNumber) {
    const struct {
        std::string_view text;
        std::optional<double> number;
    } kCases[] = {
        {"0", 0.0},
        {"1.5", 1.5},
        {"-2", -2.0},
        {" 3\t", 3.0},
        {"1e3", 1000.0},
        {".5", 0.5},
        {"5.", 5.0},
        {"1E-3", 0.001},
        {"", std::nullopt},
        {"  ", std::nullopt},
        {"1x", std::nullopt},
        {"x", std::nullopt},
        {"1 2", std::nullopt},
        {"1,5", std::nullopt},
        {"1e", std::nullopt},
        {"0x10", std::nullopt},
        {"nan", std::nullopt},
        {"inf", std::nullopt},
        {"-Infinity", std::nullopt},
        {"1e999", std::nullopt},
    };
    for (const auto& [text, number] : kCases) EXPECT_EQ(parse_number(text), number) << '"' << text << '"';
}

TEST(Text, ParseInteger) {
    const struct {
        std::string_view text;
        std::optional<std::int64_t> number;
    } kCases[] = {
        {"0", 0},
        {" -7 ", -7},
        {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
        {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
        {"9223372036854775808", std::nullopt},
        {"", std::nullopt},
        {"1.0", std::nullopt},
        {"1e3", std::nullopt},
        {"12a", std::nullopt},
    };
    for (const auto& [text, number] : kCases) EXPECT_EQ(parse_integer(text), number) << '"' << text << '"';
}

TEST(Text, ParseBytes) {
    const struct {
        std::string_view text;
        std::optional<std::int64_t> count;
    } kCases[] = {
        {"1", 1},
        {"2e9", 2'000'000'000},
        {"7b", 7},
        {"3k", 3 << 10},
        {"3KiB", 3 << 10},
        {"3kB", 3000},
        {" 512 MiB ", 512 << 20},
        {"512m", 512 << 20},
        {"5MB", 5'000'000},
        {"1.5G", 3ll << 29},
        {"16GiB", 16ll << 30},
        {"16gb", 16'000'000'000},
        {"2T", 2ll << 40},
        {"2TiB", 2ll << 40},
        {"1048576TiB", 1ll << 60},
        {"1048577TiB", std::nullopt},  // past 2^60 sums could overflow
        {"0", std::nullopt},
        {"-1GiB", std::nullopt},
        {"0.4", std::nullopt},
        {"", std::nullopt},
        {"GiB", std::nullopt},
        {"16 GiBs", std::nullopt},
        {"1 6GiB", std::nullopt},
        {"nan", std::nullopt},
        {"infGiB", std::nullopt},
        {"1e999", std::nullopt},
    };
    for (const auto& [text, count] : kCases) {
        const std::optional<Bytes> bytes = parse_bytes(text);
        EXPECT_EQ(bytes ? std::optional(bytes->count) : std::nullopt, count) << '"' << text << '"';
    }
}

TEST(Text, FormatBytes) {
    const struct {
        Bytes bytes;
        std::string_view text;
    } kCases[] = {
        {Bytes{}, "0.0 MiB"},        {Bytes{1 << 19}, "0.5 MiB"},    {mebibytes(99), "99.0 MiB"},
        {mebibytes(100), "100 MiB"}, {mebibytes(512), "512 MiB"},    {mebibytes(1023), "1023 MiB"},
        {gibibytes(1), "1.0 GiB"},   {mebibytes(16282), "15.9 GiB"}, {gibibytes(2048), "2048.0 GiB"},
    };
    for (const auto& [bytes, text] : kCases) EXPECT_EQ(format_bytes(bytes), text);
}

TEST(Text, FormatBytesIsReadBack) {
    for (const Bytes bytes : {mebibytes(1), mebibytes(512), gibibytes(1), gibibytes(80)}) {
        EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
    }
}

TEST(Text, NearestName) {
    constexpr auto kKnown = std::to_array<std::string_view>({"fifo", "fair", "las", "srtf", "priority", "ephemeral_mib"});
    const struct {
        std::string_view typed;
        std::optional<std::string_view> nearest;
    } kCases[] = {
        {"fifo", "fifo"},
        {"fiffo", "fifo"},
        {"FAIR", "fair"},
        {"srft", "srtf"},
        {"fir", "fair"},  // one away; fifo is two
        {"prioritty", "priority"},
        {"prio", std::nullopt},
        {"ephemera_mb", "ephemeral_mib"},
        {"ephemeral", std::nullopt},  // four away: a third of what was typed is three
        {"gandiva", std::nullopt},
    };
    for (const auto& [typed, nearest] : kCases) EXPECT_EQ(nearest_name(typed, kKnown), nearest) << typed;
    EXPECT_EQ(nearest_name("fifo", {}), std::nullopt);
    EXPECT_EQ(did_you_mean("srft", kKnown), "; did you mean 'srtf'?");
    EXPECT_EQ(did_you_mean("gandiva", kKnown), "");
    // Of two equally near the first in the table.
    EXPECT_EQ(nearest_name("ax", std::to_array<std::string_view>({"ab", "ac"})), "ab");
}

TEST(Text, Split) {
    using Parts = std::vector<std::string_view>;
    EXPECT_EQ(split("a,b,c", ','), (Parts{"a", "b", "c"}));
    EXPECT_EQ(split("a", ','), (Parts{"a"}));
    EXPECT_EQ(split("", ','), (Parts{""}));
    EXPECT_EQ(split(",a,,", ','), (Parts{"", "a", "", ""}));
    EXPECT_EQ(split("a, b", ','), (Parts{"a", " b"}));
}

TEST(Text, LastLine) {
    const auto last_line = [](const char* text) {
        std::istringstream stream(text);
        return last_line_of(stream);
    };
    EXPECT_EQ(last_line("a\nb c\n\n"), "b c");
    EXPECT_EQ(last_line("a\nb"), "b");
    EXPECT_EQ(last_line("\n"), "");
    EXPECT_EQ(last_line(""), "");
}

TEST(Text, Trim) {
    EXPECT_EQ(trim(" a b\t"), "a b");
    EXPECT_EQ(trim("\r\na\r\n"), "a");
    EXPECT_EQ(trim("a"), "a");
    EXPECT_EQ(trim(" \t\r\n"), "");
    EXPECT_EQ(trim(""), "");
}

}  // namespace
}  // namespace salus
