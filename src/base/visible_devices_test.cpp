#include "base/visible_devices.h"

#include <gtest/gtest.h>

namespace salus {
namespace {

using Positions = std::vector<std::size_t>;

const DeviceNames kMachine[] = {
    {0, "GPU-aaaa0000-1111"}, {1, "GPU-aaaa2222-3333"}, {2, "GPU-bbbb4444-5555"}, {3, "MIG-cccc6666-7777"}};

TEST(VisibleDevices, EverySpelling) {
    const struct {
        const char* list;
        Positions found;
    } cases[] = {
        {"0", {0}},
        {"2,0", {2, 0}},
        {" 1 , 2 ", {1, 2}},
        {"GPU-aaaa2222-3333", {1}},
        {"GPU-b", {2}},
        {"GPU-aaaa2", {1}},
        {"MIG-cccc6666-7777", {3}},
        {"GPU-b,0,MIG-c", {2, 0, 3}},
        // As CUDA: nothing behind an entry that names no device.
        {"1,7,0", {1}},
        {"-1", {}},
        {"0,-1,1", {0}},
        {"", {}},
        {"NoDevFiles", {}},
        {"void", {}},
        {"GPU-aaaa", {}},  // of two devices
        {"GPU-", {}},
        {"gpu-b", {}},
        {"1,1", {}},
        {"1,GPU-aaaa2", {}},
        {"0x1", {}},
        {"0,", {0}},
    };
    for (const auto& c : cases) EXPECT_EQ(devices_in(c.list, kMachine), c.found) << "'" << c.list << "'";
}

TEST(VisibleDevices, NumbersAreTheMachinesNotPositions) {
    const DeviceNames some[] = {{4, "GPU-aaaa0000-1111"}, {6, "GPU-aaaa2222-3333"}};
    EXPECT_EQ(devices_in("6,4", some), (Positions{1, 0}));
    EXPECT_EQ(devices_in("0", some), Positions{});
}

TEST(VisibleDevices, TheFirstThatIsUnknownIsNamed) {
    EXPECT_EQ(first_unknown_in("0, GPU-b", kMachine), "");
    EXPECT_EQ(first_unknown_in("0, 9", kMachine), "9");
    EXPECT_EQ(first_unknown_in("GPU-aaaa", kMachine), "GPU-aaaa");
}

}  // namespace
}  // namespace salus
