#include "attachment/request_marks.h"

#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace salus::attachment {
namespace {

TEST(RequestMarks, AMarkIsInFlightUntilItsNumberIsStored) {
    GatePage page;
    RequestMarks marks(page);
    const auto mark = marks.begin();
    ASSERT_TRUE(mark);
    EXPECT_TRUE(page.marks[mark->place].in_flight());
    marks.give_back(*mark);  // the device is to store the number
    const auto next = marks.begin();
    EXPECT_NE(next->place, mark->place) << "the first is still the device's";
    marks.done_word(*mark).store(mark->number);
    EXPECT_FALSE(page.marks[mark->place].in_flight());
    EXPECT_EQ(marks.begin()->place, mark->place);
}

TEST(RequestMarks, BeyondTheLastMarkRequestsAreNotMarked) {
    GatePage page;
    RequestMarks marks(page);
    std::vector<RequestMarks::Mark> all;
    while (const auto mark = marks.begin()) all.push_back(*mark);
    EXPECT_EQ(all.size(), GatePage::kMarks);
    marks.end(all[7]);
    EXPECT_EQ(marks.begin()->place, 7u);
}

TEST(RequestMarks, ThreadsNeverShareAMark) {
    GatePage page;
    RequestMarks marks(page);
    std::array<std::atomic<int>, GatePage::kMarks> holders{};
    std::atomic<bool> shared{false};
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (int i = 0; i < 20'000; ++i) {
                const auto mark = marks.begin();
                if (!mark) continue;
                if (holders[mark->place].fetch_add(1) != 0) shared = true;
                holders[mark->place].fetch_sub(1);
                marks.end(*mark);
            }
        });
    }
    threads.clear();
    EXPECT_FALSE(shared);
    for (const RequestMark& mark : page.marks) EXPECT_FALSE(mark.in_flight());
}

TEST(GatePage, StaysOpenWhileItsClientWaitsForTheDevice) {
    GatePage page;
    page.close();
    EXPECT_FALSE(page.is_open());
    {
        const KeepGateOpen open(&page);
        EXPECT_TRUE(page.is_open());
        page.close();
        EXPECT_TRUE(page.is_open());
    }
    EXPECT_TRUE(page.is_open()) << "until the service looks again";
    page.close();
    EXPECT_FALSE(page.is_open());
    page.open();
    EXPECT_TRUE(page.is_open());
}

/// The service may be killed at any instant of close().
TEST(GatePage, IsNeverClosedWhileItIsKeptOpen) {
    GatePage page;
    std::atomic<bool> ends{false};
    std::jthread service([&] {
        while (!ends) page.close();
    });
    int closed = 0;
    for (int i = 0; i < 20'000; ++i) {
        const KeepGateOpen open(&page);
        for (int look = 0; look < 10; ++look) closed += page.is_open() ? 0 : 1;
    }
    ends = true;
    EXPECT_EQ(closed, 0);
}

TEST(GatePage, CountsItsClosingsApartFromItsKeepers) {
    GatePage page;
    page.gate = ~std::uint32_t{0} - GatePage::kKeepers;  // as many as can be counted
    page.close();
    EXPECT_EQ(page.gate.load(), 0u);
    const KeepGateOpen one(&page), other(&page);
    EXPECT_EQ(page.gate.load(), GatePage::kOpen + 2 * GatePage::kOneKeeper);
}

}  // namespace
}  // namespace salus::attachment
