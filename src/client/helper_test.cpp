// The helper's answers while the job's own threads do something else.
#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/memory_fixture.h"
#include "client/service_fixture.h"

namespace salus::client::test {
namespace {

using control::State;

class HelperTest : public ClientTest {
protected:
    void* persistent(std::size_t size) { return client_->allocate(size, Kind::kPersistent); }
};

// --------------------------------------------------------------------------------------------------------------- lanes

TEST_F(HelperTest, MapsALaneAtTheSizesThatItIsTold) {
    attach();
    learn_the_lane(2 * kBlock);
    EXPECT_EQ(client_->memory()->mapped(), 2 * kBlock);
    service_.map_lane(*session_, 0, 2, 4 * kBlock);
    EXPECT_EQ(client_->memory()->mapped(), 4 * kBlock);
    ASSERT_TRUE(session_->say(wire::UnmapLane{1, 3}));
    EXPECT_EQ(session_->hear<wire::Acknowledge>().lane, 1u) << "of a lane that it has not: done already";
    EXPECT_EQ(client_->memory()->mapped(), 4 * kBlock);
    ASSERT_TRUE(session_->say(wire::UnmapLane{0, 4}));
    EXPECT_EQ(session_->hear<wire::Acknowledge>().version, 4u);
    EXPECT_EQ(client_->memory()->mapped(), 0u);
}

TEST_F(HelperTest, ALaneWithoutMemoryEndsSharingAndNotTheJob) {
    attach();
    ::testing::internal::CaptureStderr();
    ASSERT_TRUE(session_->say(wire::MapLane{0, 1, kBlock}));
    session_->hear<wire::Leave>();
    EXPECT_TRUE(eventually([&] { return counters().shared == 0; }));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "salus: internal error: the service names a lane but has not sent its memory; this job continues without "
              "sharing\n");
    EXPECT_EQ(client_->begin(), SALUS_OK);
    EXPECT_EQ(client_->end(), SALUS_OK);
}

// ---------------------------------------------------------------------------------------------------------- revocation

TEST_F(HelperTest, GivesAnIdleGrantBackOnceTheDeviceIsDone) {
    const Setting asynchronous("SALUS_HOST_ASYNCHRONOUS", "1");
    attach();
    begin();
    ASSERT_EQ(client_->end(), SALUS_OK);
    ASSERT_EQ(take_back(session_->page()), control::TakeBack::Outcome::kHelperDrains);
    session_->is_notified(Duration{});
    ASSERT_TRUE(session_->say(wire::Revoke{}));
    EXPECT_TRUE(session_->is_notified());
    EXPECT_EQ(session_->word().state, State::kFree);
}

TEST_F(HelperTest, ALateRevokeTakesNothingFromTheNextTurn) {
    const Setting asynchronous("SALUS_HOST_ASYNCHRONOUS", "1");
    attach();
    begin();
    const std::uint64_t word = session_->page().word;
    session_->is_notified(Duration{});
    ASSERT_TRUE(session_->say(wire::Revoke{}));
    session_->catch_up();
    EXPECT_EQ(session_->page().word, word);
    EXPECT_FALSE(session_->is_notified(Duration{}));
    ASSERT_EQ(client_->end(), SALUS_OK);
    EXPECT_EQ(session_->word().state, State::kIdle) << "nobody wants it back";
}

// -------------------------------------------------------------------------------------------------------------- paging

TEST_F(HelperTest, RefusesToPageOutWhileItRuns) {
    attach();
    begin();
    ASSERT_TRUE(session_->say(wire::PageOut{}));
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 0u);
    end_turn();
    client_->set_threaded(true);
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 1u) << "said unasked";
    ASSERT_TRUE(session_->say(wire::PageOut{}));
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 1u);
}

// Here the service is another process. If the kernel does not let us hold up threads that write, a process is paged out only
// if it has no threads beside the waiting one and the helper.
TEST_F(HelperTest, PagesOutWhileItWaitsAndInBeforeItRuns) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer has a thread of its own, which might write to the memory";
#endif
    const Setting place("SALUS_PAGE_DIR", service_.directory());
    attach();
    void* block = persistent(kBlock);
    fill(block, kBlock, 3);
    for (const bool asked_in : {true, false}) {
        SCOPED_TRACE(asked_in ? "the service asks for it" : "the grant comes at once");
        const pid_t service = ::fork();
        if (service == 0) {
            ::alarm(30);
            const bool asked = session_->waits() && session_->say(wire::PageOut{});
            session_->hear<wire::PagedOut>();
            if (asked_in && session_->say(wire::PageIn{})) session_->hear<wire::PagedIn>();
            ::_exit(asked && session_->grant() && !HasFailure() ? 0 : 1);
        }
        ASSERT_EQ(client_->begin(), SALUS_OK);
        EXPECT_TRUE(succeeds(service));
        EXPECT_FALSE(client_->memory()->paged());
        EXPECT_TRUE(holds(block, kBlock, 3));
        end_turn();
    }
    EXPECT_EQ(counters().page_outs, 2u);
    client_->free(block);
}

TEST_F(HelperTest, PageInOfWhatIsNotOutIsDoneAlready) {
    attach();
    ASSERT_TRUE(session_->say(wire::PageIn{}));
    session_->hear<wire::PagedIn>();
}

// --------------------------------------------------------------------------------------------------------------- needs

TEST_F(HelperTest, ANeedIsGivenByItsNumber) {
    attach();
    begin(/*room=*/kBlock);
    const auto service = elsewhere([&] {
        const wire::Need need = session_->hear<wire::Need>();
        EXPECT_GE(need.persistent, 2 * kBlock);
        EXPECT_EQ(need.ephemeral, 0u) << "it has no lane";
        EXPECT_TRUE(session_->say(wire::NeedAnswer{need.number, 1, 8 * kBlock}));
    });
    void* block = persistent(2 * kBlock);
    EXPECT_NE(block, nullptr);
    ASSERT_TRUE(ends(service));
    void* another = persistent(4 * kBlock);
    EXPECT_NE(another, nullptr) << "there is room for it";
    EXPECT_FALSE(session_->anything_to_hear());
    client_->free(block);
    client_->free(another);
    end_turn();
}

TEST_F(HelperTest, ALateAnswerToAnOlderNeedChangesNothing) {
    attach();
    begin(/*room=*/kBlock);
    auto service = elsewhere([&] {
        const std::uint64_t first = session_->hear<wire::Need>().number;
        EXPECT_TRUE(session_->say(wire::NeedAnswer{first, 0, 0}));
        const std::uint64_t second = session_->hear<wire::Need>().number;
        EXPECT_TRUE(session_->say(wire::NeedAnswer{first, 1, kPlentyOfRoom}));
        session_->catch_up();
        EXPECT_FALSE(session_->anything_to_hear()) << "it still waits for the answer to the second";
        EXPECT_TRUE(session_->say(wire::NeedAnswer{second, 0, 0}));
        EXPECT_TRUE(session_->say(wire::NeedAnswer{first, 1, kPlentyOfRoom}));
        session_->catch_up();
    });
    EXPECT_EQ(persistent(2 * kBlock), nullptr);
    EXPECT_EQ(persistent(2 * kBlock), nullptr);
    ASSERT_TRUE(ends(service));
    service = elsewhere([&] {
        const std::uint64_t third = session_->hear<wire::Need>().number;
        EXPECT_TRUE(session_->say(wire::NeedAnswer{third, 0, 0}));
    });
    EXPECT_EQ(persistent(2 * kBlock), nullptr) << "the late answer made no room";
    ASSERT_TRUE(ends(service));
    end_turn();
}

TEST_F(HelperTest, ANeedOfTheLaneIsMetWhenTheLaneHasGrown) {
    attach();
    learn_the_lane(kBlock);
    begin(/*room=*/0);
    const auto service = elsewhere([&] {
        const wire::Need need = session_->hear<wire::Need>();
        EXPECT_EQ(need.ephemeral, 2 * kBlock);
        EXPECT_TRUE(session_->say(wire::NeedAnswer{need.number, 1, need.persistent}));
        session_->catch_up();
        service_.map_lane(*session_, 0, 2, need.ephemeral);
    });
    void* block = client_->allocate(2 * kBlock, Kind::kEphemeral);
    EXPECT_TRUE(client_->in_lane(block));
    ASSERT_TRUE(ends(service));
    client_->free(block);
    end_turn();
}

TEST_F(HelperTest, AJobThatCanNeverFitIsToldSoInBegin) {
    attach();
    ::testing::internal::CaptureStderr();
    const auto service = elsewhere([&] {
        EXPECT_TRUE(session_->waits());
        EXPECT_TRUE(session_->say(wire::Refuse{std::uint64_t{2} << 30, std::uint64_t{1} << 30}));
    });
    EXPECT_EQ(client_->begin(), SALUS_TOO_LARGE);
    ASSERT_TRUE(ends(service));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "salus: this job needs 2.0 GiB and the device has 1.0 GiB\n");
    EXPECT_EQ(client_->begin(), SALUS_TOO_LARGE) << "from now on";
    EXPECT_EQ(client_->end(), SALUS_MISUSE) << "it is not inside";
}

// -------------------------------------------------------------------------------------------------------- the connection

TEST_F(HelperTest, OneThatIsSentAwayRunsOnAlone) {
    attach();
    ::testing::internal::CaptureStderr();
    const auto service = elsewhere([&] {
        EXPECT_TRUE(session_->waits());
        wire::Sorry sorry;
        sorry.why = wire::Text<256>("a breach of protocol");
        EXPECT_TRUE(session_->say(sorry));
    });
    EXPECT_EQ(client_->begin(), SALUS_OK);
    ASSERT_TRUE(ends(service));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "salus: the service says: a breach of protocol\n");
    EXPECT_EQ(counters().shared, 0);
    EXPECT_EQ(client_->end(), SALUS_OK);
}

TEST_F(HelperTest, AnswersWaitForAServiceThatDoesNotRead) {
    attach();
    std::uint32_t asked = 0;
    while (asked < 100'000 && session_->say(wire::UnmapLane{7, asked})) ++asked;
    ASSERT_LT(asked, 100'000u) << "the sockets are full in both directions by now";
    for (std::uint32_t version = 0; version < asked; ++version)
        ASSERT_EQ(session_->hear<wire::Acknowledge>().version, version);
}

TEST_F(HelperTest, AServiceThatTalksNonsenseIsLeftForTheNext) {
    attach();
    const std::byte garbage[3] = {};
    ASSERT_TRUE(os::send_packet(session_->socket(), garbage));
    session_.emplace(service_.admit());
    EXPECT_TRUE(eventually([&] { return counters().attachments == 2; }));
    begin();
    end_turn();
}

}  // namespace
}  // namespace salus::client::test
