#include "core/starts.h"

#include <array>

#include "core/engine_fixture.h"
#include "core/trace.h"

namespace salus {
namespace {

/// Processes take 600 MiB before they attach. A job of which nothing is known needs 728 MiB to start, and 1024 MiB are for
/// the first iterations.
constexpr std::int64_t kContextMib = 600;
constexpr std::int64_t kNeedMib = kContextMib + 128;
constexpr std::int64_t kToLearnMib = 1024;

EngineOptions device_of(std::int64_t capacity_mib) {
    EngineOptions options = small_device();
    options.capacity = mebibytes(capacity_mib);
    options.context = mebibytes(kContextMib);
    return options;
}

struct StartRig : Rig {
    explicit StartRig(std::int64_t capacity_mib) : Rig("rr", device_of(capacity_mib)) {}

    /// As a process does that was told to start: it is new, and was seen to use so much.
    ClientId attach_job(std::uint32_t job, std::int64_t observed_mib = kContextMib) {
        Newcomer newcomer;
        newcomer.profiled = false;
        newcomer.job = job;
        const ClientId client = attach(newcomer);
        observe(client, observed_mib);
        return client;
    }
    bool waits(std::uint32_t job) const { return engine.starts().waits(JobId{job}); }
    /// Those that start at the next review.
    std::string starts_at_review() {
        pass(engine.options().review_every);
        return starts();
    }
};

TEST(Starts, WhereContextsTakeNothingEverybodyStartsAtOnce) {
    Rig rig("rr");  // 1000 MiB
    for (std::uint32_t job = 1; job <= 5; ++job) {
        rig.announce(job, /*past_mib=*/900);
        EXPECT_EQ(rig.starts(), "start " + std::to_string(job));
    }
    EXPECT_EQ(rig.engine.deadline(), kNever);
}

TEST(Starts, TheFirstOneNeverWaits) {
    StartRig rig(100);
    rig.announce(1, /*past_mib=*/5000);
    EXPECT_EQ(rig.starts(), "start 1");
    rig.announce(2);
    EXPECT_EQ(rig.starts(), "");
    EXPECT_TRUE(rig.waits(2));
}

TEST(Starts, AClientThatShowsNoIterationsIsNotNewForEver) {
    StartRig rig(3072);
    const auto program = [&](std::uint32_t job) {
        rig.announce(job);
        EXPECT_EQ(rig.starts(), "start " + std::to_string(job));
        return rig.enter({.persistent_mib = 64, .ephemeral_mib = 0, .job = job});
    };
    const std::array clients{program(1), program(2)};
    rig.announce(3);
    EXPECT_TRUE(rig.waits(3)) << "the others may still allocate";
    for (int turn = 0; turn < 50; ++turn) {
        rig.pass(milliseconds(100));
        for (const ClientId client : clients) {
            if (!rig.runs(client)) continue;
            rig.boundary(client, /*iterations=*/0);
            rig.want(client);
            break;
        }
    }
    EXPECT_FALSE(rig.waits(3)) << "they have run for seconds";
}

TEST(Starts, OneStartsWhenThereIsRoomForItsContextItsWeightsAndToLearn) {
    for (const std::int64_t short_of_mib : {0, 1}) {
        StartRig rig(2 * kNeedMib + kToLearnMib - short_of_mib);
        rig.announce(1);
        rig.announce(2);
        EXPECT_EQ(rig.starts(), short_of_mib == 0 ? "start 2" : "");
    }
}

TEST(Starts, WhatAnEarlierRunKeptCountsInsteadOfTheGuess) {
    for (const std::int64_t past_mib : {1000, 1001}) {
        StartRig rig(kNeedMib + kContextMib + 1000 + kToLearnMib);
        rig.announce(1);
        rig.announce(2, past_mib);
        EXPECT_EQ(rig.starts(), past_mib == 1000 ? "start 2" : "");
    }
}

TEST(Starts, JobsStartInTheOrderOfTheirNumbers) {
    StartRig rig(2 * kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.announce(3, /*past_mib=*/2000);
    rig.announce(4, /*past_mib=*/1);
    EXPECT_EQ(rig.starts(), "") << "it would fit, but another came first";
    rig.announce(2, /*past_mib=*/2000);  // a number from before a restart
    rig.withdraw(1);
    EXPECT_EQ(rig.starts_at_review(), "start 2");
    rig.withdraw(2);
    EXPECT_EQ(rig.starts_at_review(), "start 3");
    rig.withdraw(3);
    EXPECT_EQ(rig.starts_at_review(), "start 4");
}

TEST(Starts, OneThatIsWithdrawnIsNotStartedAndIsInNobodysWay) {
    StartRig rig(2 * kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.announce(2, /*past_mib=*/2000);
    rig.announce(3);
    rig.withdraw(2);
    EXPECT_EQ(rig.starts_at_review(), "start 3");
    rig.withdraw(7);  // nobody knows it
    EXPECT_EQ(rig.engine.deadline(), kNever);
}

TEST(Starts, RoomIsKeptForOneThatHasNotAttachedForAMinute) {
    StartRig rig(kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.announce(2);
    rig.pass(seconds(59));
    EXPECT_EQ(rig.starts(), "");
    rig.pass(seconds(1));
    EXPECT_EQ(rig.starts(), "start 2");
}

TEST(Starts, ANewClientCountsWithWhatItHasNotTakenYet) {
    StartRig rig(2 * kNeedMib + kToLearnMib - 1);
    rig.announce(1);
    const ClientId a = rig.attach_job(1);
    rig.announce(2);
    rig.pass(minutes(2));
    EXPECT_EQ(rig.starts(), "") << "its weights are to come";
    rig.want(a);
    for (int i = 0; i < 2; ++i) {
        rig.demand(a, kContextMib + 10, 0);
        rig.boundary(a);
    }
    EXPECT_EQ(rig.starts_at_review(), "") << "it has run two iterations";
    rig.boundary(a);
    EXPECT_EQ(rig.starts_at_review(), "start 2") << "it keeps 118 MiB less than was thought";
}

TEST(Starts, IterationsUnderAnEarlierServiceCount) {
    for (const std::uint64_t before : {2u, 3u}) {
        StartRig rig(kNeedMib + kToLearnMib);
        rig.send(event::Announce{JobId{1}, {}, /*runs=*/true});
        EXPECT_EQ(rig.starts(), "") << "it runs";
        Newcomer newcomer;
        newcomer.job = 1;
        newcomer.persistent_mib = newcomer.ephemeral_mib = 0;
        newcomer.iterations_before = before;
        rig.attach(newcomer);
        rig.announce(2);
        EXPECT_EQ(rig.starts(), before == 3 ? "start 2" : "");
    }
}

TEST(Starts, LanesCountAsRoomToLearnIn) {
    for (const std::int64_t ephemeral_mib : {100, 500}) {
        StartRig rig(kNeedMib + kToLearnMib + kContextMib + 100);
        Newcomer trained;
        trained.persistent_mib = kContextMib;
        trained.ephemeral_mib = ephemeral_mib;
        rig.enter(trained);  // without a runner
        rig.announce(1);
        EXPECT_EQ(rig.starts(), "start 1") << ephemeral_mib;
    }
}

TEST(Starts, RoomThatOthersLeaveIsSeenAtTheNextReview) {
    StartRig rig(2 * kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.set_capacity(2 * kNeedMib + kToLearnMib - 1);
    rig.announce(2);
    EXPECT_EQ(rig.starts(), "");
    rig.set_capacity(2 * kNeedMib + kToLearnMib);
    EXPECT_EQ(rig.starts(), "") << "who has left may still have its context";
    EXPECT_EQ(rig.starts_at_review(), "start 2");
}

TEST(Starts, TheFirstOneWaitsForWhatClientsOfAnEarlierServiceHold) {
    for (const bool attach_again : {true, false}) {
        StartRig rig(kNeedMib + kToLearnMib);
        rig.send(event::SetCapacity{mebibytes(kNeedMib), /*orphans=*/true});
        rig.announce(1);
        rig.pass(minutes(5));
        EXPECT_TRUE(rig.waits(1)) << "it would take memory that is in use";
        rig.send(event::SetCapacity{mebibytes(attach_again ? kNeedMib + kToLearnMib : kNeedMib)});
        EXPECT_EQ(rig.starts_at_review(), "start 1") << "what others still have, it could not get anyway";
    }
}

TEST(Starts, WhatClientsOweCountsAsUsed) {
    StartRig rig(4000);
    const auto attach = [&](std::int64_t observed_mib) {
        rig.observe(
            rig.attach({.pageable = false, .persistent_mib = 0, .ephemeral_mib = 0, .job = 9, .iterations_before = 3}),
            observed_mib);
    };
    attach(1000);
    attach(3001);
    ASSERT_EQ(rig.reserved_mib(), 1000);
    rig.announce(1);
    rig.pass(minutes(5));
    EXPECT_TRUE(rig.waits(1));
}

TEST(Starts, LargerContextsAreReckonedWith) {
    StartRig rig(2 * kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.send(event::SetContext{mebibytes(kContextMib + 1)});
    rig.announce(2);
    EXPECT_EQ(rig.starts(), "");
    rig.send(event::SetContext{mebibytes(kContextMib)});
    EXPECT_EQ(rig.starts_at_review(), "start 2");
}

TEST(Starts, ANewRunnerOfAJobThatWasToldToStartIsToldAgain) {
    StartRig rig(kNeedMib + kToLearnMib);
    rig.announce(1);
    rig.announce(2);
    rig.announce(1);
    EXPECT_EQ(rig.starts(), "start 1");
    rig.announce(2);
    EXPECT_EQ(rig.starts(), "") << "it still waits";
}

TEST(Starts, AfterARestartThoseThatRanComeBackFirst) {
    StartRig rig(kNeedMib + kToLearnMib);
    rig.send(event::Announce{JobId{2}, {}, /*runs=*/false, /*waited=*/true});
    EXPECT_EQ(rig.starts(), "");
    rig.attach_job(1);
    rig.pass(seconds(10));
    EXPECT_EQ(rig.starts(), "");
    rig.send(event::Announce{JobId{1}, {}, /*runs=*/true});
    rig.die(ClientId{0});
    rig.withdraw(1);
    EXPECT_EQ(rig.starts_at_review(), "start 2");
}

TEST(Starts, AreInTheTrace) {
    EngineOptions options = device_of(2 * kNeedMib + kToLearnMib - 1);
    Engine engine(options, *find_policy("rr"), fallback_policy());
    std::string text = format_header(options, "rr") + "\n";
    const auto tell = [&](const Event& event, Instant at) {
        text += format_event(event, at) + "\n";
        for (const Action& action : engine.handle(event, at)) text += format_action(action) + "\n";
    };
    tell(event::Announce{JobId{1}, mebibytes(128)}, Instant{0});
    tell(event::SetUserLimits{UserId{7}, 2, mebibytes(1)}, Instant{1});
    tell(event::Announce{JobId{2}, {}, false, true}, Instant{1});
    event::Attach attach;
    attach.client = ClientId{0};
    attach.job = JobId{1};
    attach.iterations_before = 7;
    tell(attach, Instant{2});
    tell(event::SetContext{mebibytes(500)}, Instant{3});
    tell(event::Timer{}, engine.deadline());
    tell(event::Withdraw{JobId{1}}, engine.deadline());
    EXPECT_NE(text.find("announce job=1 persistent=134217728 runs=0 waited=0\n  start job=1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("job=1 iterations_before=7\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("start job=2"), text.rfind("start job=2")) << text;
    const Result<Replay> replay = replay_trace(text, find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
    EXPECT_NE(text.find("set-user-limits user=7 jobs_max=2 memory_max=1048576\n"), std::string::npos) << text;
    EXPECT_EQ(replay.value().events, 7u);
}

EngineOptions with_limits(unsigned jobs, std::int64_t memory_mib, std::int64_t context_mib) {
    EngineOptions options = small_device();
    options.capacity = mebibytes(10'000);
    options.context = mebibytes(context_mib);
    options.user_jobs_max = jobs;
    options.user_memory_max = mebibytes(memory_mib);
    return options;
}

TEST(Starts, JobsBeyondAUsersLimitWaitAndThoseOfOthersDoNot) {
    for (const std::int64_t context_mib : {0, 600}) {
        Rig rig("rr", with_limits(2, 0, context_mib));
        const auto announce = [&](std::uint32_t job, std::uint32_t user, bool runs = false) {
            rig.send(event::Announce{JobId{job}, {}, runs, false, UserId{user}});
            return rig.starts();
        };
        EXPECT_EQ(announce(1, 7), "start 1");
        EXPECT_EQ(announce(2, 7), "start 2");
        EXPECT_EQ(announce(3, 7), "");
        EXPECT_EQ(rig.engine.why_waits_to_start(JobId{3}), WaitReason::kUserJobs);
        EXPECT_EQ(announce(4, 8), "start 4");
        EXPECT_EQ(announce(5, 7, /*runs=*/true), "") << "it runs already, and counts";
        for (std::uint32_t job = 6; job < 10; ++job) EXPECT_EQ(announce(job, 0), "start " + std::to_string(job)) << "root";
        rig.withdraw(1);
        rig.pass(rig.engine.options().review_every);
        EXPECT_EQ(rig.starts(), "") << "two still run";
        rig.withdraw(5);
        rig.pass(rig.engine.options().review_every);
        EXPECT_EQ(rig.starts(), "start 3");
        EXPECT_EQ(rig.engine.why_waits_to_start(JobId{3}), WaitReason::kNothing);
    }
}

TEST(Starts, AUserMayHaveAnotherNumberOfJobsThanTheOthers) {
    Rig rig("rr", with_limits(1, 0, 0));
    const auto announce = [&](std::uint32_t job, std::uint32_t user) {
        rig.send(event::Announce{JobId{job}, {}, false, false, UserId{user}});
        return rig.starts();
    };
    rig.send(event::SetUserLimits{UserId{7}, 2, {}});
    rig.send(event::SetUserLimits{UserId{8}, 0, {}});
    EXPECT_EQ(announce(1, 7), "start 1");
    EXPECT_EQ(announce(2, 7), "start 2");
    EXPECT_EQ(announce(3, 7), "");
    EXPECT_EQ(announce(4, 8), "start 4");
    EXPECT_EQ(announce(5, 8), "start 5") << "any number";
    EXPECT_EQ(announce(6, 9), "start 6");
    EXPECT_EQ(announce(7, 9), "") << "as the others";
    rig.send(event::SetUserLimits{UserId{7}, 3, {}});
    rig.pass(rig.engine.options().review_every);
    EXPECT_EQ(rig.starts(), "start 3");
    rig.send(event::SetUserLimits{UserId{7}, 1, {}});
    rig.withdraw(1);
    rig.withdraw(2);
    EXPECT_EQ(announce(8, 7), "") << "job 3 runs on";
    EXPECT_EQ(rig.engine.why_waits_to_start(JobId{8}), WaitReason::kUserJobs);
}

TEST(Starts, AClientWhoseJobNobodyAnnouncedCountsAsAJob) {
    Rig rig("rr", with_limits(2, 0, 0));
    const auto attach = [&](std::uint32_t client, std::uint32_t job) {
        event::Attach newcomer;
        newcomer.client = ClientId{client};
        newcomer.user = UserId{7};
        newcomer.job = JobId{job};
        rig.send(newcomer);
    };
    const auto announce = [&](std::uint32_t job) {
        rig.send(event::Announce{JobId{job}, {}, false, false, UserId{7}});
        return rig.starts();
    };
    EXPECT_EQ(announce(1), "start 1");
    attach(0, 1);
    attach(1, 1);
    EXPECT_EQ(announce(2), "start 2") << "a job may have many clients";
    rig.withdraw(2);
    attach(2, 99);
    EXPECT_EQ(announce(3), "");
    EXPECT_EQ(rig.engine.why_waits_to_start(JobId{3}), WaitReason::kUserJobs);
    rig.die(ClientId{2});
    rig.pass(rig.engine.options().review_every);
    EXPECT_EQ(rig.starts(), "start 3");
}

TEST(Starts, AJobWaitsUntilItsUserHasRoomForIt) {
    Rig rig("rr", with_limits(0, 1500, 600));
    const auto announce = [&](std::uint32_t job, std::uint32_t user) {
        rig.send(event::Announce{JobId{job}, {}, false, false, UserId{user}});
        return rig.starts();
    };
    EXPECT_EQ(announce(1, 7), "start 1");
    EXPECT_EQ(announce(2, 7), "start 2") << "twice 728 MiB are set aside";
    EXPECT_EQ(announce(3, 7), "");
    EXPECT_EQ(rig.engine.why_waits_to_start(JobId{3}), WaitReason::kUserMemory);
    EXPECT_EQ(announce(4, 8), "start 4");
    rig.withdraw(1);
    rig.pass(rig.engine.options().review_every);
    EXPECT_EQ(rig.starts(), "start 3");
}

}  // namespace
}  // namespace salus
