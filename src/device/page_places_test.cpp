#include "device/page_places.h"

#include <unistd.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace salus::device {
namespace {

constexpr std::uint64_t kOneMiB = std::uint64_t{1} << 20;

std::uint64_t plenty() { return 1024 * kOneMiB; }
std::uint64_t little() { return 6 * kOneMiB; }
std::uint64_t nothing() { return 0; }

void expect_usable(const std::optional<PagePlaces::Place>& place, PagePlace kind) {
    ASSERT_TRUE(place);
    EXPECT_EQ(place->kind, kind);
    std::memset(place->memory, 7, place->size);
    EXPECT_EQ(place->memory[place->size - 1], std::byte{7});
}

TEST(PagePlaces, HalfOfTheSpareMemoryIsTakenAndThenAFile) {
    PagePlaces places("/tmp", little);
    places.look();
    const auto first = places.take(2 * kOneMiB);
    expect_usable(first, PagePlace::kMemory);
    const auto second = places.take(2 * kOneMiB);
    expect_usable(second, PagePlace::kFile);
    const auto third = places.take(1 * kOneMiB);
    expect_usable(third, PagePlace::kMemory);
    const auto fourth = places.take(3 * kOneMiB);
    expect_usable(fourth, PagePlace::kFile);
    EXPECT_EQ(places.taken(), (std::array<std::uint64_t, kPagePlaces>{0, 3 * kOneMiB, 5 * kOneMiB}));
    EXPECT_EQ(second->memory[0], std::byte{7});
    for (const auto& place : {first, second, third, fourth}) places.give_back(*place);
    EXPECT_EQ(places.taken(), (std::array<std::uint64_t, kPagePlaces>{}));
    places.look();
    expect_usable(places.take(2 * kOneMiB), PagePlace::kMemory);
}

std::uint64_t spare_now = 0;

TEST(PagePlaces, WhatOthersTakeMeanwhileIsNotTakenAgain) {
    PagePlaces places("/tmp", [] { return spare_now; });
    spare_now = 8 * kOneMiB;
    places.look();
    expect_usable(places.take(2 * kOneMiB), PagePlace::kMemory);
    spare_now = 5 * kOneMiB;  // another process that looked at the same time has taken some, too
    expect_usable(places.take(2 * kOneMiB), PagePlace::kFile);
    expect_usable(places.take(1 * kOneMiB), PagePlace::kMemory);
}

TEST(PagePlaces, APlaceInALostFileIsNotOneInTheNext) {
    PagePlaces places("/tmp", nothing);
    places.look();
    const auto lost = places.take(1 * kOneMiB);
    ::closefrom(3);
    const auto kept = places.take(1 * kOneMiB);
    expect_usable(kept, PagePlace::kFile);
    places.give_back(*lost);
    EXPECT_EQ(kept->memory[0], std::byte{7}) << "it is at the same position of the next file";
}

TEST(PagePlaces, WithoutADirectoryThereIsMemoryAlone) {
    PagePlaces places("/nowhere/at/all", little);
    places.look();
    EXPECT_TRUE(places.take(3 * kOneMiB));
    EXPECT_FALSE(places.take(1 * kOneMiB));
}

TEST(PagePlaces, AFileThatIsClosedKeepsWhatIsInIt) {
    PagePlaces places("/tmp", nothing);
    places.look();
    const auto before = places.take(1 * kOneMiB);
    expect_usable(before, PagePlace::kFile);
    ::closefrom(3);
    EXPECT_EQ(before->memory[kOneMiB - 1], std::byte{7});
    expect_usable(places.take(1 * kOneMiB), PagePlace::kFile);
    EXPECT_EQ(before->memory[kOneMiB - 1], std::byte{7});
}

TEST(PagePlaces, WhatIsTakenIsNotInheritedByAChild) {
    PagePlaces places("/tmp", plenty);
    places.look();
    const auto place = places.take(2 * kOneMiB);
    expect_usable(place, PagePlace::kMemory);
    EXPECT_EXIT(std::_Exit(static_cast<int>(place->memory[0]) == 7 ? 0 : 1), ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace salus::device
