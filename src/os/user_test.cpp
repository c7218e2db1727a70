#include "os/user.h"

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(User, HasANameOrANumber) {
    EXPECT_EQ(name_of_user(0), "root");
    EXPECT_EQ(name_of_user(3'999'999'999), "3999999999");
}

}  // namespace
}  // namespace salus::os
