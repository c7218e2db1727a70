#include "base/python_command.h"

#include <gtest/gtest.h>

namespace salus {
namespace {

using Words = std::vector<std::string>;

TEST(PythonCommand, IsToldByItsName) {
    for (const char* name : {"python", "python3", "python3.11", "/opt/venv/bin/python"}) {
        EXPECT_TRUE(parse_python({name, "train.py"})) << name;
    }
    for (const char* name : {"pythonista", "python-config", "bash", "ipython"}) EXPECT_FALSE(parse_python({name})) << name;
    EXPECT_FALSE(parse_python({}));
}

TEST(PythonCommand, SaysWhichOptionShutsTheAdaptorOut) {
    struct Case {
        Words command;
        char shuts_out;
    };
    const std::vector<Case> cases = {
        {{"python", "train.py"}, 0},
        {{"python", "-I", "train.py"}, 'I'},
        {{"python", "-uE", "train.py"}, 'E'},
        {{"python", "-S", "-m", "train"}, 'S'},
        {{"python", "train.py", "-I"}, 0},     // the script's
        {{"python", "-m", "train", "-E"}, 0},  // the module's
        {{"python", "-mtrain", "-E"}, 0},
        {{"python", "-c", "print(1)", "-S"}, 0},  // the code's
        {{"python", "-W", "-I", "train.py"}, 0},  // an argument of -W
        {{"python", "-Xdev", "-I", "train.py"}, 'I'},
        {{"python", "-XI", "train.py"}, 0},
        {{"python", "--check-hash-based-pycs", "never", "-E", "train.py"}, 'E'},
        {{"python", "-s", "-P", "-B", "train.py"}, 0},
    };
    for (const Case& c : cases) {
        const auto python = parse_python(c.command);
        ASSERT_TRUE(python);
        EXPECT_EQ(python->shuts_out, c.shuts_out) << ::testing::PrintToString(c.command);
    }
}

TEST(PythonCommand, GivesAJobItsName) {
    EXPECT_EQ(name_of_command({"python", "-u", "src/train.py", "--lr", "1"}), "train.py");
    EXPECT_EQ(name_of_command({"python3", "-m", "package.train"}), "package.train");
    EXPECT_EQ(name_of_command({"python3", "-c", "print(1)"}), "python3");
    EXPECT_EQ(name_of_command({"python3"}), "python3");
    EXPECT_EQ(name_of_command({"python3", "-"}), "python3");
    EXPECT_EQ(name_of_command({"/usr/bin/sleep", "1"}), "sleep");
}

}  // namespace
}  // namespace salus
