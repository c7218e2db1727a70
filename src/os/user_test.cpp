#include "os/user.h"

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(User, HasANameOrANumber) {
    EXPECT_EQ(name_of_user(0), "root");
    EXPECT_EQ(name_of_user(3'999'999'999), "3999999999");
}

TEST(User, IsFoundByNameOrNumber) {
    EXPECT_EQ(user_called("root"), 0u);
    EXPECT_EQ(user_called("3999999999"), 3'999'999'999u);
    for (const char* nobody : {"", "-1", "12x", "nobody-of-that-name", "99999999999"})
        EXPECT_EQ(user_called(nobody), std::nullopt) << nobody;
}

}  // namespace
}  // namespace salus::os
