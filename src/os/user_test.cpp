#include "os/user.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(User, HasANameOrANumber) {
    EXPECT_EQ(name_of_user(0), "root");
    EXPECT_EQ(name_of_user(3'999'999'999), "3999999999");
}

TEST(User, IsLookedUpHereAloneIfNobodyMayWait) {
    EXPECT_EQ(local_name_of_user(0), "root");
    EXPECT_EQ(local_name_of_user(3'999'999'999), "3999999999");
}

TEST(User, IsFoundByNameOrNumber) {
    EXPECT_EQ(user_called("root"), 0u);
    EXPECT_EQ(user_called("3999999999"), 3'999'999'999u);
    for (const char* nobody : {"", "-1", "12x", "nobody-of-that-name", "99999999999"})
        EXPECT_EQ(user_called(nobody), std::nullopt) << nobody;
}

TEST(User, IsInGroups) {
    EXPECT_EQ(group_called("root"), 0u);
    EXPECT_EQ(group_called("3999999999"), 3'999'999'999u);
    for (const char* nobody : {"", "-1", "12x", "no-group-of-that-name"}) EXPECT_EQ(group_called(nobody), std::nullopt);
    const auto groups = groups_of_user(0);
    ASSERT_TRUE(groups.has_value());
    EXPECT_NE(std::ranges::find(*groups, 0u), groups->end());
    EXPECT_EQ(groups_of_user(3'999'999'999), std::nullopt) << "it is in no database";
}

}  // namespace
}  // namespace salus::os
