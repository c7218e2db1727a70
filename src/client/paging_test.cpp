#include "client/paging.h"

#include <gtest/gtest.h>

namespace salus::client {
namespace {

struct RecordingPager : device::Pager {
    bool page_out(const std::vector<device::Part>&) override { return true; }
    bool page_in() override { return true; }
    void forget(const std::byte* start) override { forgotten.push_back(start); }

    std::vector<const std::byte*> forgotten;
};

TEST(Paging, WhatWasFreedSinceItBeganToGoOutNeedNotComeBack) {
    RecordingPager pager;
    Paging paging(&pager);
    std::byte blocks[3];
    paging.freed(&blocks[0]);
    paging.goes_out();
    EXPECT_FALSE(paging.is_in());
    EXPECT_FALSE(paging.is_out());
    paging.freed(&blocks[1]);
    EXPECT_TRUE(paging.move_out({}));
    paging.went_out(true);
    EXPECT_TRUE(paging.is_out());
    paging.freed(&blocks[2]);
    EXPECT_TRUE(paging.move_in(paging.take_freed()));
    paging.came_in();
    EXPECT_TRUE(paging.is_in());
    EXPECT_EQ(pager.forgotten, (std::vector<const std::byte*>{&blocks[1], &blocks[2]}));
}

TEST(Paging, WhatDidNotGoOutIsIn) {
    RecordingPager pager;
    Paging paging(&pager);
    std::byte block;
    paging.goes_out();
    paging.freed(&block);
    paging.went_out(false);
    EXPECT_TRUE(paging.is_in());
    EXPECT_TRUE(paging.take_freed().empty());
}

TEST(Paging, ADeviceMayHaveNoPager) {
    Paging paging(nullptr);
    EXPECT_FALSE(paging.can_page());
    paging.forget(nullptr);
}

}  // namespace
}  // namespace salus::client
