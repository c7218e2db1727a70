// What a job's threads do with a client, against a scripted service.
#include "client/process_client.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/memory_fixture.h"
#include "client/service_fixture.h"

namespace salus::client::test {
namespace {

using control::State;

// ----------------------------------------------------------------------------------------------------------- attaching

class AttachTest : public ClientTest {
protected:
    /// Attaches to a service that calls `answer` with the connection. Returns why attaching failed.
    std::string failure(const std::function<void(os::Descriptor)>& answer) {
        client_ = std::make_unique<ProcessClient>(Identity{service_.socket(), {}});
        std::thread service([&] { answer(service_.accept()); });
        const Result<bool> attached = client_->attach();
        service.join();
        EXPECT_FALSE(attached.ok());
        return attached.ok() ? "" : attached.error();
    }
    /// The client iterates and allocates without a service.
    void works_alone() {
        EXPECT_EQ(counters().shared, 0);
        EXPECT_EQ(client_->begin(), SALUS_OK);
        void* block = client_->allocate(kBlock, Kind::kEphemeral);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, kBlock);
        EXPECT_FALSE(client_->in_lane(block));
        client_->free(block);
        EXPECT_EQ(client_->end(), SALUS_OK);
        EXPECT_TRUE(client_->detach());
    }
};

TEST_F(AttachTest, SaysWhoItIsAndIsShared) {
    wire::Attach attach;
    attach.name = wire::Text<64>("a job");
    attach.priority = 7;
    attach.iterations_total = 100;
    this->attach(attach);
    EXPECT_EQ(session_->attach.name.view(), "a job");
    EXPECT_EQ(session_->attach.priority, 7);
    EXPECT_EQ(session_->attach.iterations_total, 100u);
    EXPECT_EQ(session_->attach.flags, 0u) << "it holds nothing, and may be paged out";
    EXPECT_EQ(counters().shared, 1);
    EXPECT_EQ(counters().attachments, 1u);
    EXPECT_EQ(client_->device(), "host");
    session_->catch_up();  // the helper runs
}

TEST_F(AttachTest, WithoutAServiceItIsOnItsOwn) {
    service_.stop();
    client_ = std::make_unique<ProcessClient>(Identity{service_.socket(), {}});
    EXPECT_EQ(client_->attach().error(), "no service runs at " + service_.socket());
    works_alone();
}

TEST_F(AttachTest, OneThatIsRefusedHearsWhy) {
    const std::string why = failure([](os::Descriptor socket) {
        const Session session(std::move(socket));
        wire::Sorry sorry;
        sorry.why = wire::Text<256>("too many jobs");
        wire::send(session.socket(), sorry);
    });
    EXPECT_EQ(why, "too many jobs");
    works_alone();
}

TEST_F(AttachTest, AServiceThatHangsUpOrTalksNonsenseIsNone) {
    EXPECT_EQ(failure([](os::Descriptor) {}), "the service does not answer");
    works_alone();
    const auto nonsense = [](os::Descriptor socket) {
        const std::byte garbage[3] = {};
        os::send_packet(socket.get(), garbage);
    };
    EXPECT_EQ(failure(nonsense), "the service does not answer");
    EXPECT_EQ(failure([](os::Descriptor socket) { wire::send(socket.get(), wire::PageOut{}); }),
              "the service does not answer");
    works_alone();
}

TEST_F(AttachTest, AServiceOfAnotherVersionIsNamed) {
    const std::string why = failure([](os::Descriptor socket) {
        wire::Packet packet = wire::encode(wire::Welcome{});
        packet[4] = std::byte{wire::kVersion + 1};
        os::send_packet(socket.get(), packet);
    });
    EXPECT_TRUE(why.starts_with("the service speaks protocol version")) << why;
    works_alone();
}

TEST_F(AttachTest, ADeviceThatIsNotKnownHereIsAFailure) {
    const std::string why = failure([](os::Descriptor socket) {
        Session session(std::move(socket));
        wire::Welcome welcome;
        welcome.device = wire::Text<16>("abacus");
        session.say(welcome);
    });
    EXPECT_EQ(why, "this version of Salus knows no device \"abacus\"");
    works_alone();
}

// ---------------------------------------------------------------------------------------------------------- iterations

TEST_F(ClientTest, BeginWaitsForItsTurnAndWorksInTheLane) {
    attach();
    learn_the_lane(4 * kBlock);
    begin(/*room=*/0);
    EXPECT_TRUE(session_->is_notified());
    void* block = client_->allocate(kBlock, Kind::kEphemeral);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(client_->in_lane(block));
    client_->free(block);
    end_turn();
    EXPECT_TRUE(session_->is_notified()) << "the grant is back";
    EXPECT_EQ(counters().turns, 1u);
    EXPECT_EQ(counters().iterations, 1u);
    EXPECT_EQ(counters().lane_bytes, kBlock);
}

std::atomic<int> system_calls_trapped{0};

/// From now on, the kernel lets this thread read the clock (on most machines no system call anyway) and end. It counts all
/// other system calls instead of making them. This cannot be undone.
bool trap_system_calls() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++system_calls_trapped; };
    ::sigaction(SIGSYS, &action, nullptr);
    constexpr unsigned kAllowed[] = {SYS_clock_gettime, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_munmap,
                                     SYS_madvise,       SYS_exit,         SYS_exit_group};
    std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const unsigned call : kAllowed) {
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
        filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(ClientTest, WithTheGrantNeitherBeginNorEndMakesASystemCall) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer makes system calls of its own, and does not survive their being trapped";
#endif
    attach();
    bool trapped = false;
    int calls = -1;
    int control = -1;
    std::thread job([&] {
        begin();
        client_->end();
        if (!(trapped = trap_system_calls())) return;
        system_calls_trapped = 0;
        for (int i = 0; i < 100; ++i) {
            client_->begin();
            client_->end();
        }
        calls = system_calls_trapped;
        ::syscall(SYS_getppid);
        control = system_calls_trapped;
    });
    job.join();
    ::signal(SIGSYS, SIG_DFL);
    if (!trapped) GTEST_SKIP() << "this process may not install a system call filter";
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(control, calls + 1) << "the filter counts";
    EXPECT_EQ(counters().iterations, 101u);
}

TEST_F(ClientTest, WhatIsAliveAtTheBoundaryLeavesTheLaneBeforeTheGrantDoes) {
    attach();
    learn_the_lane(4 * kBlock);
    begin(/*room=*/0);
    void* block = client_->allocate(kBlock, Kind::kEphemeral);
    ASSERT_TRUE(client_->in_lane(block));
    fill(block, kBlock, 5);
    end_turn();
    EXPECT_FALSE(client_->in_lane(block));
    EXPECT_TRUE(holds(block, kBlock, 5));
    EXPECT_EQ(counters().evacuations, 1u);
    client_->free(block);
}

TEST_F(ClientTest, BeginsNestAndAnEndTooManyIsMisuse) {
    attach();
    EXPECT_EQ(client_->end(), SALUS_MISUSE);
    begin();
    EXPECT_EQ(client_->begin(), SALUS_OK);
    EXPECT_EQ(client_->begin_once(0, 0), SALUS_OK) << "this one does not nest";
    EXPECT_EQ(client_->end(), SALUS_OK);
    EXPECT_EQ(session_->word().state, State::kRunning);
    EXPECT_FALSE(client_->detach()) << "it is inside";
    EXPECT_EQ(client_->end(), SALUS_OK);
    EXPECT_EQ(session_->word().state, State::kIdle);
    EXPECT_EQ(client_->end(), SALUS_MISUSE);
    EXPECT_EQ(counters().iterations, 1u);
}

TEST_F(ClientTest, AThreadThatEndsInsideLeaves) {
    attach();
    std::thread job([&] { begin(); });
    job.join();
    EXPECT_EQ(session_->word().state, State::kIdle);
    EXPECT_EQ(counters().iterations, 0u) << "it did not finish";
}

TEST_F(ClientTest, TheChildOfAThreadThatIsInsideIsNot) {
    attach();
    learn_the_lane(4 * kBlock);
    begin(/*room=*/0);
    void* block = client_->allocate(kBlock, Kind::kEphemeral);
    fill(block, kBlock, 8);
    EXPECT_TRUE(in_a_child(*client_, [&] {
        // The child may end this iteration and begin others, as if it were a client.
        return holds(block, kBlock, 8) && client_->end() == SALUS_OK && client_->begin() == SALUS_OK;
    }));
    EXPECT_TRUE(client_->in_lane(block));
    EXPECT_EQ(session_->word().state, State::kRunning);
    client_->free(block);
    end_turn();
}

TEST_F(ClientTest, ASecondThreadMakesItUnpageableForGood) {
    attach();
    learn_the_lane(4 * kBlock);
    begin(/*room=*/0);
    EXPECT_FALSE(session_->anything_to_hear());
    std::thread second([&] {
        EXPECT_EQ(client_->begin(), SALUS_OK);
        void* block = client_->allocate(kBlock, Kind::kPersistent);
        EXPECT_FALSE(client_->in_lane(block));
        client_->free(block);
        EXPECT_EQ(client_->end(), SALUS_OK);
    });
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 1u);
    // It needs more than what the page said.
    const wire::Need need = session_->hear<wire::Need>();
    EXPECT_TRUE(session_->say(wire::NeedAnswer{need.number, 1, kPlentyOfRoom}));
    second.join();
    EXPECT_EQ(client_->end(), SALUS_OK);
    ASSERT_TRUE(session_->say(wire::PageOut{}));
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 1u);
}

TEST_F(ClientTest, OneThatIsWaitedForJoinsAtOnceAlthoughTheGrantIsWantedBack) {
    attach();
    begin();
    take_back(session_->page());
    std::thread pool([&] {
        EXPECT_EQ(client_->begin_once(0, 0), SALUS_WAITING);
        EXPECT_EQ(client_->begin_once(Turns::kForEver, 0, /*join=*/true), SALUS_OK);
        EXPECT_EQ(client_->end(), SALUS_OK);
    });
    pool.join();
    EXPECT_EQ(client_->end(), SALUS_OK);
    EXPECT_EQ(session_->word().state, State::kFree);
}

// The request to run remains, so the service will grant it: somebody has to take that grant and give it back.
TEST_F(ClientTest, AGrantForOneWhoNoLongerWaitsIsTakenInItsStead) {
    attach();
    client_->forgo();  // nothing to forgo
    EXPECT_EQ(client_->begin(1'000'000), SALUS_WAITING);
    EXPECT_TRUE(session_->word().want);
    client_->forgo();
    EXPECT_EQ(session_->hear<wire::Unpageable>().for_good, 1u);
    ASSERT_TRUE(session_->grant());
    EXPECT_TRUE(eventually([&] { return session_->word().state == State::kIdle; }));
    EXPECT_EQ(counters().iterations, 0u);
    EXPECT_EQ(client_->end(), SALUS_MISUSE) << "this thread is not inside";
}

TEST_F(ClientTest, WhoForgoesATurnThatHasComeLeaves) {
    attach();
    begin();
    client_->forgo();
    EXPECT_EQ(session_->word().state, State::kIdle);
    EXPECT_EQ(counters().iterations, 0u);
}

TEST_F(ClientTest, WhoLeavesTheServiceSaysSo) {
    attach();
    begin();
    end_turn();
    EXPECT_TRUE(client_->detach());
    session_->hear<wire::Leave>();
    client_.reset();
    EXPECT_TRUE(session_->hears_the_end());
}

// The service gives the lane's memory to others when it hears of it.
TEST_F(ClientTest, WhoLeavesHasGivenItsLaneBackBefore) {
    attach();
    learn_the_lane(4 * kBlock);
    begin(/*room=*/0);
    void* block = client_->allocate(kBlock, Kind::kEphemeral);
    ASSERT_TRUE(client_->in_lane(block));
    fill(block, kBlock, 1);
    client_->free(block);
    end_turn();
    EXPECT_TRUE(readable(block));
    EXPECT_TRUE(client_->detach());
    session_->hear<wire::Leave>();
    EXPECT_FALSE(readable(block));
}

TEST_F(ClientTest, WhoStopsSharingGoesAtItsBoundary) {
    attach();
    begin();
    client_->stop_sharing();
    os::sleep_for(salus::milliseconds(50));  // the helper knows by now
    EXPECT_EQ(session_->word().state, State::kRunning) << "the iteration goes on";
    EXPECT_EQ(counters().shared, 1);
    EXPECT_EQ(client_->end(), SALUS_OK);
    session_->hear<wire::Leave>();
    EXPECT_TRUE(eventually([&] { return counters().shared == 0; }));
    EXPECT_EQ(client_->begin(), SALUS_OK) << "without asking";
    EXPECT_EQ(client_->end(), SALUS_OK);
}

TEST_F(ClientTest, WhoIsSentAwayOrDetachesKeepsItsGateOpen) {
    ::testing::internal::CaptureStderr();
    for (const bool sent_away : {true, false}) {
        attach();
        ControlPage& page = session_->page();
        page.gates.close();
        if (sent_away) {
            EXPECT_TRUE(session_->say(wire::Sorry{wire::Text<256>("no")}));
            EXPECT_TRUE(eventually([&] { return counters().shared == 0; }));
        } else {
            EXPECT_TRUE(client_->detach());
        }
        page.gates.close();
        EXPECT_TRUE(page.gates.is_open()) << "the service may not know yet, and die";
        client_.reset();
    }
    ::testing::internal::GetCapturedStderr();
}

TEST_F(ClientTest, BeforeItExitsItSaysThatNothingIsInFlight) {
    attach();
    begin();
    client_->exits();
    EXPECT_EQ(session_->page().quiet, 0u) << "a thread is inside";
    end_turn();
    client_->exits();
    EXPECT_EQ(session_->page().quiet, 1u);
}

}  // namespace
}  // namespace salus::client::test
