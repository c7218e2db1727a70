#include "base/characters.h"

#include <gtest/gtest.h>

namespace salus {
namespace {

TEST(Characters, PrintableLeavesTextAndReplacesWhatActs) {
    const struct {
        std::string_view text;
        std::string shown;
    } rows[] = {
        {"", ""},
        {"resnet50", "resnet50"},
        {"söze 訓練 🙂", "söze 訓練 🙂"},
        {"a\x1b[2Jb\nc\x7f", "a?[2Jb?c?"},
        {"\xc2\x9b"
         "2J",
         "?2J"},  // CSI in one character
        {"x\xe2\x80\xae"
         "gnp",
         "x?gnp"},                                    // right to left from here on
        {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "???"},  // marks of direction
        {"\xe2\x81\xa6"
         "a\xe2\x81\xa9\xe2\x81\xaa",
         "?a??"},                                // isolates, and what they were before
        {"\xe2\x80\xa8\xe2\x80\xa9", "??"},      // other ends of a line
        {"\xf3\xa0\x81\x81", "?"},               // a tag
        {"\xff\xc0\x80\xed\xa0\x80", "??????"},  // no UTF-8, overlong, a surrogate
        {"caf\xc3", "caf?"},                     // cut within a character
    };
    for (const auto& row : rows) EXPECT_EQ(printable(row.text), row.shown) << row.text;
    EXPECT_EQ(printable("a\nb", '_'), "a_b");
}

}  // namespace
}  // namespace salus
