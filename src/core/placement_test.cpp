#include "core/placement.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace salus {
namespace {

constexpr auto gib = [](std::int64_t count) { return gibibytes(count); };

DeviceFacts device(unsigned id, std::int64_t taken_gib, std::size_t batch, std::size_t interactive = 0,
                   std::size_t waiting = 0) {
    DeviceFacts facts;
    facts.id = DeviceId{id};
    facts.capacity = gib(8);
    facts.taken = gib(taken_gib);
    facts.batch = batch;
    facts.interactive = interactive;
    facts.waiting = waiting;
    return facts;
}

struct Case {
    const char* what;
    std::vector<DeviceFacts> devices;
    NewcomerFacts job;
    Packing packing;
    unsigned device;
    PlacementReason reason;
};

NewcomerFacts batch(std::int64_t persistent_gib = 1, std::int64_t ephemeral_gib = 1) {
    NewcomerFacts facts;
    facts.persistent = gib(persistent_gib);
    facts.ephemeral = gib(ephemeral_gib);
    return facts;
}
NewcomerFacts interactive() {
    NewcomerFacts facts = batch();
    facts.interactive = true;
    return facts;
}

TEST(Placement, Table) {
    constexpr Packing kSpread = Packing::kSpread, kPack = Packing::kPack;
    const Case cases[] = {
        {"one device", {device(0, 8, 9, 0, 4)}, batch(), kSpread, 0, PlacementReason::kOnly},
        {"an empty one", {device(0, 1, 1), device(1, 0, 0)}, batch(), kSpread, 1, PlacementReason::kEmpty},
        {"the first of equals", {device(0, 0, 0), device(1, 0, 0)}, batch(), kSpread, 0, PlacementReason::kEmpty},
        {"the fewest jobs",
         {device(0, 1, 3), device(1, 5, 2), device(2, 1, 4)},
         batch(),
         kSpread,
         1,
         PlacementReason::kLoad},
        {"then the most room", {device(0, 3, 2), device(1, 2, 2)}, batch(), kSpread, 1, PlacementReason::kLoad},
        {"room comes first",
         {device(0, 7, 1), device(1, 2, 5), device(2, 3, 6)},
         batch(),
         kSpread,
         1,
         PlacementReason::kLoad},
        {"only one has room", {device(0, 7, 1), device(1, 2, 5)}, batch(), kSpread, 1, PlacementReason::kRoom},
        {"nobody has room", {device(0, 8, 4, 0, 2), device(1, 7, 9, 0, 1)}, batch(), kSpread, 1, PlacementReason::kQueue},
        {"as many wait: fewer jobs",
         {device(0, 8, 4, 0, 1), device(1, 7, 3, 0, 1)},
         batch(),
         kSpread,
         1,
         PlacementReason::kQueue},
        {"packed: the least that suffices",
         {device(0, 0, 0), device(1, 3, 1), device(2, 6, 2), device(3, 7, 3)},
         batch(),
         kPack,
         2,
         PlacementReason::kPacked},
        {"packed: an empty one if need be",
         {device(0, 0, 0), device(1, 7, 3), device(2, 0, 0)},
         batch(),
         kPack,
         0,
         PlacementReason::kEmpty},
        {"packed: not beside interactive ones",
         {device(0, 0, 0), device(1, 5, 1, 1), device(2, 2, 1)},
         batch(),
         kPack,
         2,
         PlacementReason::kPacked},
        {"interactive ones are spread",
         {device(0, 1, 1, 1), device(1, 4, 5, 0)},
         interactive(),
         kPack,
         1,
         PlacementReason::kApart},
        {"... away from batch jobs, too",
         {device(0, 1, 2, 1), device(1, 4, 1, 1)},
         interactive(),
         kSpread,
         1,
         PlacementReason::kApart},
        {"... to an empty one", {device(0, 1, 1, 0), device(1, 0, 0)}, interactive(), kSpread, 1, PlacementReason::kEmpty},
    };
    for (const Case& c : cases) {
        const auto placed = choose_device(c.devices, c.job, c.packing);
        ASSERT_TRUE(placed) << c.what;
        EXPECT_EQ(index_of(placed->device), c.device) << c.what;
        EXPECT_EQ(name_of(placed->reason), name_of(c.reason)) << c.what;
    }
}

TEST(Placement, EphemeralMemoryFitsIntoALaneThatIsThere) {
    std::vector<DeviceFacts> devices = {device(0, 7, 1), device(1, 6, 3)};
    EXPECT_EQ(choose_device(devices, batch(1, 3), Packing::kSpread), (DeviceChoice{DeviceId{0}, PlacementReason::kQueue}));
    devices[1].largest_lane = gib(2);
    EXPECT_EQ(choose_device(devices, batch(1, 3), Packing::kSpread), (DeviceChoice{DeviceId{1}, PlacementReason::kRoom}));
}

TEST(Placement, TheContextCounts) {
    NewcomerFacts job = batch(1, 0);
    const std::vector<DeviceFacts> devices = {device(0, 7, 1), device(1, 6, 3)};
    EXPECT_EQ(choose_device(devices, job, Packing::kSpread)->device, DeviceId{0});
    job.context = gib(1);
    EXPECT_EQ(choose_device(devices, job, Packing::kSpread)->device, DeviceId{1});
}

TEST(Placement, AJobGoesWhereItCouldEverFit) {
    std::vector<DeviceFacts> devices = {device(0, 0, 0), device(1, 8, 4, 0, 3)};
    devices[0].capacity = gib(4);
    EXPECT_EQ(choose_device(devices, batch(5, 1), Packing::kSpread), (DeviceChoice{DeviceId{1}, PlacementReason::kQueue}));
    EXPECT_EQ(choose_device(devices, batch(50, 1), Packing::kSpread)->device, DeviceId{1})
        << "the largest tells it that it is refused";
}

TEST(Placement, OnlyDevicesThatAreOpenAndAllowed) {
    std::vector<DeviceFacts> devices = {device(0, 0, 0), device(1, 2, 2), device(2, 3, 3)};
    NewcomerFacts job = batch();
    const std::vector<DeviceId> allowed = {DeviceId{1}, DeviceId{2}};
    job.allowed = allowed;
    EXPECT_EQ(choose_device(devices, job, Packing::kSpread)->device, DeviceId{1});
    devices[1].is_closed = true;
    EXPECT_EQ(choose_device(devices, job, Packing::kSpread)->device, DeviceId{2});
    devices[2].is_closed = true;
    EXPECT_FALSE(choose_device(devices, job, Packing::kSpread));
}

TEST(Placement, SixteenJobsOnFourDevicesAreSpreadEvenlyOrPackedTightly) {
    for (const Packing packing : {Packing::kSpread, Packing::kPack}) {
        std::vector<DeviceFacts> devices;
        for (unsigned i = 0; i < 4; ++i) devices.push_back(device(i, 0, 0));
        for (int job = 0; job < 16; ++job) {
            DeviceFacts& chosen = devices[index_of(choose_device(devices, batch(1, 0), packing)->device)];
            ++chosen.batch;
            chosen.taken += gib(1);
            EXPECT_LE(chosen.taken, chosen.capacity);
        }
        for (const DeviceFacts& each : devices) {
            const std::size_t expected = packing == Packing::kSpread ? 4 : index_of(each.id) < 2 ? 8 : 0;
            EXPECT_EQ(each.batch, expected) << index_of(each.id);
        }
    }
}

TEST(Placement, EveryReasonHasANameThatReadsBack) {
    for (unsigned i = 1; i <= static_cast<unsigned>(PlacementReason::kQueue); ++i) {
        const auto reason = static_cast<PlacementReason>(i);
        EXPECT_FALSE(name_of(reason).empty() || text_of(reason).empty()) << i;
        EXPECT_EQ(placement_reason_from(name_of(reason)), reason);
    }
    EXPECT_EQ(placement_reason_from("of a later version"), PlacementReason::kNone);
}

}  // namespace
}  // namespace salus
