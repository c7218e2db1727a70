#include "cli/configuration.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/commands.h"

namespace salus::cli {
namespace {

class ConfigurationFile : public ::testing::Test {
protected:
    ConfigurationFile() {
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-configuration-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        ::chmod(directory_.c_str(), 0755);  // where others cannot go, they cannot write
    }
    ~ConfigurationFile() override { std::filesystem::remove_all(directory_); }

    std::string file(const std::string& name, const std::string& text) const {
        const std::string path = directory_ + "/" + name;
        std::ofstream(path) << text;
        return path;
    }
    static std::string refusal_of(const std::string& path) {
        try {
            read_configuration({path});
        } catch (const UsageError& error) {
            return error.message;
        }
        return "";
    }

    std::string directory_;
};

TEST_F(ConfigurationFile, TheFirstThatSaysSoDecides) {
    const std::string yes = file("yes", "# all jobs share\nrequire = true\n");
    const std::string no = file("no", "require = false\n");
    const std::string empty = file("empty", "# require = true\n");
    const std::string missing = directory_ + "/missing";
    EXPECT_TRUE(read_configuration({yes, no}).require);
    EXPECT_FALSE(read_configuration({no, yes}).require);
    EXPECT_TRUE(read_configuration({empty, yes}).require);
    EXPECT_TRUE(read_configuration({missing, yes}).require);
    EXPECT_FALSE(read_configuration({missing, empty}).require);
}

TEST_F(ConfigurationFile, WhatMakesNoSenseIsRefusedInOneLine) {
    const std::string value = file("value", "require = \"sometimes\"\n");
    EXPECT_EQ(refusal_of(value), value + ": require must be true or false; got 'sometimes'");
    const std::string option = file("option", "requires = true\n");
    EXPECT_EQ(refusal_of(option), option + ": there is no option 'requires'");
}

// Another user must not decide whether this one's jobs run.
TEST_F(ConfigurationFile, WhatOthersCouldHaveWrittenIsNotRead) {
    const std::string open = file("open", "nonsense\n");
    ::chmod(open.c_str(), 0666);
    const Configuration read = read_configuration({open, file("yes", "require = true\n")});
    EXPECT_EQ(read.not_trusted, open + " can be written by other users; chmod go-w helps; " + open + " is not read");
    EXPECT_TRUE(read.require);
    EXPECT_EQ(read_configuration({file("no", "require = false\n")}).not_trusted, "");
}

}  // namespace
}  // namespace salus::cli
