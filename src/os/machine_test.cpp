#include "os/machine.h"

#include <gtest/gtest.h>

namespace salus::os {
namespace {

TEST(Machine, IsReadAsItWasWritten) {
    for (const Machine& machine : {this_machine(), Machine{"node7", "", "b"}, Machine{}}) {
        const Machine read = machine_in(text_of(machine));
        EXPECT_EQ(read.host, machine.host);
        EXPECT_EQ(read.id, machine.id);
        EXPECT_EQ(read.boot, machine.boot);
    }
    EXPECT_TRUE(is_same(this_machine(), this_machine()));
}

TEST(Machine, IsKnownByWhatLasts) {
    const Machine node{"node1", "id1", "boot1"};
    const struct {
        const char* why;
        Machine other;
        bool same;
    } rows[] = {
        {"itself", node, true},
        {"started again", {"node1", "id1", "boot2"}, true},
        {"renamed", {"node2", "id1", "boot2"}, true},
        {"a container of it", {"4fa3c1", "", "boot1"}, true},
        {"a container with another id", {"4fa3c1", "id9", "boot1"}, true},
        {"another machine", {"node2", "id2", "boot2"}, false},
        {"another machine of that name", {"node1", "id2", "boot2"}, false},
        {"without an id, started again", {"node1", "", "boot2"}, true},
        {"another machine without an id", {"node2", "", "boot2"}, false},
    };
    for (const auto& row : rows) {
        EXPECT_EQ(is_same(node, row.other), row.same) << row.why;
        EXPECT_EQ(is_same(row.other, node), row.same) << row.why;
    }
    EXPECT_FALSE(is_same({"a", "", ""}, {"b", "", ""}));
}

}  // namespace
}  // namespace salus::os
