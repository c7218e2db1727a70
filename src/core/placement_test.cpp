#include "core/placement.h"

#include <array>

#include <gtest/gtest.h>

namespace salus {
namespace {

TEST(Placement, TakesTheDeviceWithTheFewestJobsThenTheMostRoomThenTheFirst) {
    std::array<DeviceFacts, 3> devices = {{{DeviceId{0}, gibibytes(8), gibibytes(1), 2},
                                           {DeviceId{1}, gibibytes(8), gibibytes(7), 1},
                                           {DeviceId{2}, gibibytes(8), gibibytes(1), 1}}};
    EXPECT_EQ(choose_device(devices), DeviceId{2});
    devices[0].jobs = 1;
    EXPECT_EQ(choose_device(devices), DeviceId{0}) << "as much room as the last";
    devices[1].jobs = 0;
    EXPECT_EQ(choose_device(devices), DeviceId{1}) << "room comes second";
}

}  // namespace
}  // namespace salus
