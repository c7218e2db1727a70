// The job continues whatever happens to its client, at any stage of an iteration: the service goes away, the process forks,
// the descriptors are closed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/gate_fixture.h"
#include "client/memory_fixture.h"
#include "client/service_fixture.h"
#include "os/descriptor_fixture.h"

namespace salus::client::test {
namespace {

using control::State;

enum class Stage {
    kOutside,
    kWaiting,
    kInside,
    kAsking,         ///< inside, asks for private memory
    kAskingForLane,  ///< inside, asks for a larger lane
};

/// A job of one thread runs to the given stage. There something happens to it. It ends that iteration and runs one more.
class ClientStagesTest : public ClientTest, public ::testing::WithParamInterface<Stage> {
protected:
    ~ClientStagesTest() override {
        at_stage_.open();
        before_the_last_.open();
    }

    void reach_the_stage() {
        wire::Attach attach;
        attach.iterations_total = 100;
        this->attach(attach);
        learn_the_lane(kLane);
        kept_ = client_->allocate(kBlock, Kind::kPersistent);
        fill(kept_, kBlock, 1);
        job_ = elsewhere([this] { return run(); });
        learned_.wait_until_reached();
        learned_.open();
        if (GetParam() == Stage::kOutside) return at_stage_.wait_until_reached();
        ASSERT_TRUE(GetParam() == Stage::kWaiting ? session_->waits() : session_->grant());
        if (GetParam() == Stage::kWaiting) return;
        if (GetParam() == Stage::kInside) return at_stage_.wait_until_reached();
        need_ = session_->hear<wire::Need>().number;
    }
    bool asks() const { return GetParam() == Stage::kAsking || GetParam() == Stage::kAskingForLane; }
    bool has_begun() const { return GetParam() == Stage::kInside || asks(); }

    /// The job runs to its end, and all went well.
    void expect_that_the_job_ends_well() {
        before_the_last_.open();
        ASSERT_TRUE(ends(job_));
        EXPECT_TRUE(job_.get());
        EXPECT_TRUE(holds(kept_, kBlock, 1));
    }

    static constexpr std::size_t kLane = 2 * kBlock;

    Gate at_stage_;         ///< for stages at which the job does not wait by itself
    Gate before_the_last_;  ///< before the last iteration
    std::uint64_t need_ = 0;
    void* kept_ = nullptr;
    std::future<bool> job_;

private:
    /// The job's thread. It runs two iterations first, so that the client has learned what it needs.
    bool run() {
        begin(/*room=*/0);
        bool ok = client_->end() == SALUS_OK && client_->begin() == SALUS_OK;
        end_turn();
        session_->page().wanted_ephemeral = kLane;
        learned_.pass();
        if (GetParam() == Stage::kOutside) at_stage_.pass();
        ok = iterate(/*at_the_stage=*/true) && ok;
        before_the_last_.pass();
        return iterate(/*at_the_stage=*/false) && ok;
    }
    bool iterate(bool at_the_stage) {
        if (client_->begin() != SALUS_OK) return false;
        void* block = client_->allocate(kBlock, Kind::kEphemeral);
        fill(block, kBlock, 2);
        void* more = nullptr;
        if (at_the_stage) {
            if (GetParam() == Stage::kInside) at_stage_.pass();
            if (GetParam() == Stage::kAsking) more = client_->allocate(2 * kLane, Kind::kPersistent);
            if (GetParam() == Stage::kAskingForLane) more = client_->allocate(2 * kLane, Kind::kEphemeral);
            if (asks() && !more) return false;
            if (more) fill(more, 2 * kLane, 3);
        }
        const bool ok = holds(block, kBlock, 2) && (!more || holds(more, 2 * kLane, 3));
        client_->free(block);
        client_->free(more);
        return client_->end() == SALUS_OK && ok;
    }

    Gate learned_;
};

std::string name_of(const ::testing::TestParamInfo<Stage>& stage) {
    static constexpr const char* kNames[] = {"Outside", "Waiting", "Inside", "Asking", "AskingForLane"};
    return kNames[static_cast<int>(stage.param)];
}
INSTANTIATE_TEST_SUITE_P(All, ClientStagesTest,
                         ::testing::Values(Stage::kOutside, Stage::kWaiting, Stage::kInside, Stage::kAsking,
                                           Stage::kAskingForLane),
                         name_of);

TEST_P(ClientStagesTest, TheServiceGoesAndTheNextOneIsAttachedTo) {
    reach_the_stage();
    service_.stop();
    session_->hang_up();
    EXPECT_TRUE(eventually([&] { return client_->memory()->mapped() == 0 || has_begun(); }));
    at_stage_.open();
    // An iteration in progress is finished; then the client leaves the lane.
    EXPECT_TRUE(eventually([&] { return session_->word().state == State::kFree; }));
    EXPECT_TRUE(eventually([&] { return client_->memory()->mapped() == 0; }));
    const std::uint64_t done = session_->page().iterations;
    EXPECT_EQ(done, has_begun() ? 3u : 2u);

    service_.start();
    session_.emplace(service_.admit());
    EXPECT_EQ(session_->attach.iterations_total, 100 - done);
    EXPECT_TRUE(session_->attach.flags & wire::Attach::kProfiled);
    EXPECT_TRUE(session_->attach.flags & wire::Attach::kResident);
    EXPECT_GE(session_->attach.persistent, kBlock);
    before_the_last_.open();
    ASSERT_TRUE(session_->grant(kPlentyOfRoom));
    expect_that_the_job_ends_well();
    EXPECT_TRUE(eventually([&] { return counters().attachments == 2; }));
    EXPECT_EQ(counters().shared, 1);
    EXPECT_EQ(counters().iterations, 4u);
}

TEST_P(ClientStagesTest, TheServiceGoesForGoodAndTheJobRunsOnAlone) {
    const Setting no_wait("SALUS_ORPHAN_WAIT", "0");
    ::testing::internal::CaptureStderr();
    reach_the_stage();
    service_.stop();
    session_->hang_up();
    at_stage_.open();
    EXPECT_TRUE(eventually([&] { return counters().shared == 0; }));
    expect_that_the_job_ends_well();
    EXPECT_EQ(counters().attachments, 1u);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "salus: the service is gone (no service runs at " +
                                                            service_.socket() + "); this job continues without sharing\n");
}

TEST_P(ClientStagesTest, AChildIsNoClientAndTheParentDoesNotNotice) {
    reach_the_stage();
    const std::uint64_t word = session_->page().word;
    EXPECT_TRUE(in_a_child(*client_, [&] {
        if (counters().shared != 0 || !holds(kept_, kBlock, 1)) return false;
        if (client_->begin() != SALUS_OK) return false;
        void* block = client_->allocate(kBlock, Kind::kEphemeral);
        if (!block || client_->in_lane(block)) return false;
        fill(block, kBlock, 7);
        client_->free(block);
        client_->free(kept_);  // the parent's
        if (client_->end() != SALUS_OK || client_->give_back() != 0 || !client_->detach()) return false;
        client_.reset();
        return true;
    }));
    EXPECT_EQ(session_->page().word, word);
    EXPECT_FALSE(session_->anything_to_hear());

    at_stage_.open();
    if (!has_begun()) {
        ASSERT_TRUE(session_->grant());
    }
    if (asks()) {
        ASSERT_TRUE(session_->say(wire::NeedAnswer{need_, 1, kPlentyOfRoom}));
    }
    if (GetParam() == Stage::kAskingForLane) service_.map_lane(*session_, 0, 2, 4 * kLane);
    expect_that_the_job_ends_well();
    EXPECT_EQ(counters().shared, 1);
    session_->catch_up();
}

// The job closes our descriptors, as os.closerange does, and reuses their numbers for its own files: here for a socket,
// which would show whatever we sent to it.
TEST_P(ClientStagesTest, DescriptorsAreTheJobsOnceItHasClosedOurs) {
    ::testing::internal::CaptureStderr();
    reach_the_stage();
    auto foreign = os::make_socket_pair();
    ASSERT_TRUE(foreign.has_value());
    constexpr int kOutOfReach = 256;  // our descriptors begin here
    std::vector<int> numbers = os::open_descriptors();
    std::erase_if(numbers, [](int number) { return number < kOutOfReach; });
    ASSERT_GE(numbers.size(), 6u);
    for (const int number : numbers) ASSERT_EQ(::dup2(foreign->first.get(), number), number);

    if (GetParam() == Stage::kWaiting) {
        ASSERT_TRUE(session_->grant());
    }
    take_back(session_->page());
    at_stage_.open();
    before_the_last_.open();  // the client may notice only at its next begin
    EXPECT_TRUE(eventually([&] { return session_->page().left == 1; })) << "nothing of the lane is mapped any more";
    EXPECT_EQ(client_->memory()->mapped(), 0u);
    EXPECT_EQ(counters().shared, 0);
    session_->page().gates.close();
    EXPECT_TRUE(session_->page().gates.is_open()) << "nobody would open it";
    expect_that_the_job_ends_well();
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "salus: this job closed the descriptors of Salus; it continues without sharing\n");

    EXPECT_TRUE(client_->must_stay()) << "the helper cannot be told to end";
    // The end of the connection wakes the helper, which then looks at the descriptor numbers. So leave a packet that it
    // could read by mistake.
    const std::byte packet[1] = {};
    ASSERT_TRUE(os::send_packet(foreign->second.get(), packet));
    session_->hang_up();
    client_.reset();
    EXPECT_TRUE(os::readable_within(foreign->first.get(), Duration{})) << "somebody read from a file of the job's";
    EXPECT_FALSE(os::readable_within(foreign->second.get(), Duration{})) << "somebody wrote to a file of the job's";
    for (const int number : numbers) {
        EXPECT_GE(::fcntl(number, F_GETFD), 0) << "somebody closed a file of the job's";
        ::close(number);
    }
}

}  // namespace
}  // namespace salus::client::test
