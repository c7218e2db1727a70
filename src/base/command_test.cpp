#include "base/command.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace salus {
namespace {

std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    for (const std::string_view word : split(line, ' ')) words.emplace_back(word);
    return words;
}

CommandKeys keys(const std::string& line, const std::string& directory = "/work") {
    return keys_of(words_of(line), directory);
}

TEST(CommandKeys, AreTheSameForEver) {
    EXPECT_EQ(keys("python train.py --lr 0.1").command, 0x1a4e1f9d'9a622955u);
    EXPECT_EQ(keys("python train.py --lr 0.1").program, 0x789b699b'6819427au);
}

TEST(CommandKeys, OfTheCommandDifferInAnyWordAndDirectory) {
    const std::uint64_t key = keys("python train.py --lr 0.1").command;
    EXPECT_EQ(keys("python train.py --lr 0.1").command, key);
    EXPECT_NE(keys("python train.py --lr 0.2").command, key);
    EXPECT_NE(keys("python train.py --lr0.1").command, key);
    EXPECT_NE(keys("python3 train.py --lr 0.1").command, key);
    EXPECT_NE(keys("python train.py --lr 0.1", "/home").command, key);
    EXPECT_NE(keys_of({"a", "b"}, "/").command, keys_of({"a b"}, "/").command);
}

TEST(CommandKeys, OfTheProgramAreThoseOfTheScript) {
    struct Case {
        const char* a;
        const char* b;
        bool same;
    };
    const std::vector<Case> cases = {
        {"python train.py --lr 0.1", "python train.py", true},
        {"/usr/bin/python3.11 train.py", "/opt/python3.11 train.py --lr 1", true},
        {"python -u -W ignore -X dev train.py 1", "python train.py 2", true},
        {"python -Wignore -OO --check-hash-based-pycs never train.py", "python train.py", true},
        {"python -m pkg.train 1", "python -um pkg.train 2", true},
        {"python -mpkg.train", "python -m pkg.train", true},
        {"python -m pkg.train", "python -m pkg.test", false},
        {"python -m train", "python train", false},
        {"python train.py", "python test.py", false},
        {"python train.py", "pythonic train.py", false},
        {"python - a", "python - b", true},
        {"python -c 1 x", "python -c 2 x", false},
        {"python", "python -m", false},
        {"./train --epochs 1", "./train --epochs 2", true},
        {"./train", "./test", false},
    };
    for (const Case& c : cases) EXPECT_EQ(keys(c.a).program == keys(c.b).program, c.same) << c.a << " | " << c.b;
    EXPECT_NE(keys("python train.py").program, keys("python train.py", "/home").program);
}

TEST(CommandText, IsOneLine) {
    EXPECT_EQ(text_of_command({"python", "-c", "a\nb\tc\x7f"}), "python -c a b c ");
    EXPECT_EQ(text_of_command({"söze"}), "söze");
}

}  // namespace
}  // namespace salus
