#include "service/user_limits.h"

#include <vector>

#include <gtest/gtest.h>

namespace salus::service {
namespace {

constexpr unsigned kAda = 1000, kBea = 1001, kStudents = 100, kStaff = 200, kGuests = 300;

ConfiguredLimits configured() {
    ConfiguredLimits limits;
    limits.others = {.jobs = 4, .memory = gibibytes(8), .weight = 1, .priority = 0};
    limits.groups[kStudents] = {.jobs = 2, .memory = gibibytes(4)};
    limits.groups[kStaff] = {.jobs = 20, .weight = 8, .priority = 5};
    limits.groups[kGuests] = {.jobs = 0, .memory = Bytes{}};
    limits.users[kAda] = {.jobs = 7, .priority = -1};
    return limits;
}

struct LimitRow {
    const char* why;
    unsigned uid;
    std::vector<unsigned> groups;
    UserLimits expected;
};

TEST(UserLimits, OfAUserComeFromTheUsersTableThenTheGroupsThenTheOptions) {
    const LimitRow rows[] = {
        {"nobody says otherwise", kBea, {}, {4, gibibytes(8), 1, 0}},
        {"a group without a table", kBea, {999}, {4, gibibytes(8), 1, 0}},
        {"a group may have less than the others", kBea, {kStudents}, {2, gibibytes(4), 1, 0}},
        {"the most generous group", kBea, {kStudents, kStaff}, {20, gibibytes(4), 8, 5}},
        {"in any order", kBea, {kStaff, kStudents}, {20, gibibytes(4), 8, 5}},
        {"no limit is the most generous", kBea, {kGuests, kStaff, kStudents}, {0, Bytes{}, 8, 5}},
        {"the user's own table comes first", kAda, {kStaff}, {7, gibibytes(8), 8, -1}},
        {"root has none", 0, {kStudents}, {}},
    };
    for (const LimitRow& row : rows) EXPECT_EQ(configured().of(row.uid, row.groups), row.expected) << row.why;
}

}  // namespace
}  // namespace salus::service
