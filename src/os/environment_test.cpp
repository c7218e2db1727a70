#include "os/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Environment, ReadersSeeTheOldOneOrTheNewOne) {
    ::setenv("SALUS_TEST_STAYS", "as it is", 1);
    ::setenv("SALUS_TEST_CHANGES", "before", 1);
    char** const before = environ;
    const std::vector<char*> entries_before = [&] {
        std::vector<char*> all;
        for (char** entry = before; *entry; ++entry) all.push_back(*entry);
        return all;
    }();
    const char* const stays = std::getenv("SALUS_TEST_STAYS");
    const char* const changes = std::getenv("SALUS_TEST_CHANGES");
    set_variables({{"SALUS_TEST_CHANGES", "after"}, {"SALUS_TEST_NEW", "a=b"}});
    EXPECT_STREQ(std::getenv("SALUS_TEST_CHANGES"), "after");
    EXPECT_STREQ(std::getenv("SALUS_TEST_NEW"), "a=b");
    EXPECT_EQ(std::getenv("SALUS_TEST_STAYS"), stays);
    EXPECT_NE(environ, before);
    EXPECT_STREQ(changes, "before") << "a thread may still read it";
    for (std::size_t i = 0; i < entries_before.size(); ++i) EXPECT_EQ(before[i], entries_before[i]) << i;

    ::setenv("SALUS_TEST_NEW", "by the program", 1);
    EXPECT_STREQ(std::getenv("SALUS_TEST_NEW"), "by the program");
    for (const char* name : {"SALUS_TEST_STAYS", "SALUS_TEST_CHANGES", "SALUS_TEST_NEW"}) ::unsetenv(name);
    EXPECT_EQ(std::getenv("SALUS_TEST_CHANGES"), nullptr);
}

}  // namespace
}  // namespace salus::os
