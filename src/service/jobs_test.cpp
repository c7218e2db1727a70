#include "service/jobs.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace salus::service {
namespace {

constexpr unsigned kUser = 1000, kOther = 1001;

os::Peer peer_of(unsigned uid) {
    os::Peer peer;
    peer.uid = uid;
    return peer;
}
wire::JobReference number(std::uint32_t id) { return {id, {}}; }
wire::JobReference name(std::string_view text) { return {0, wire::Text<64>(text)}; }

TEST(Jobs, AreNumberedFromOne) {
    Jobs jobs;
    EXPECT_EQ(jobs.add(0, "a", kUser, Instant{5}).id, 1u);
    EXPECT_EQ(jobs.add(0, "b", kUser, Instant{6}).id, 2u);
    EXPECT_EQ(jobs.at(1).name, "a");
    EXPECT_EQ(jobs.at(1).started, Instant{5});
}

TEST(Jobs, KeepTheNumberOfTheLastService) {
    Jobs jobs;
    EXPECT_EQ(jobs.add(7, "a", kUser, {}).id, 7u);
    EXPECT_EQ(&jobs.add(7, "client", kUser, {}), jobs.find(7)) << "it is the same job";
    EXPECT_EQ(jobs.at(7).name, "a");
    EXPECT_EQ(jobs.add(7, "b", kOther, {}).id, 8u) << "which is another user's";
    EXPECT_EQ(jobs.add(4'000'000'000, "c", kUser, {}).id, 9u) << "no service gave that number";
    EXPECT_EQ(jobs.size(), 3u);
}

TEST(Jobs, OfTheNextServiceHaveOtherNumbers) {
    const std::string numbers = ::testing::TempDir() + "salus-numbers-" + std::to_string(::getpid());
    std::filesystem::remove(numbers);
    EXPECT_EQ(Jobs(numbers).add(0, "runs on while the service restarts", kUser, {}).id, 1u);
    Jobs next(numbers);
    EXPECT_EQ(next.add(0, "new", kUser, {}).id, 2u);
    EXPECT_EQ(next.add(1, "comes back", kUser, {}).name, "comes back");
    EXPECT_EQ(next.size(), 2u);
    next.service_ends();
    Jobs third(numbers);
    EXPECT_EQ(third.add(0, "new", kUser, {}).id, 3u) << "the others may come back";
    third.drop_ended([](const Job&) { return false; }, {}, 0);
    third.service_ends();
    EXPECT_EQ(Jobs(numbers).add(0, "new", kUser, {}).id, 1u) << "nobody can come back";
    for (const char* nonsense : {"", "x", "-1", "0", "900000", "99999999999"}) {
        std::ofstream(numbers) << nonsense;
        EXPECT_EQ(Jobs(numbers).add(0, "a", kUser, {}).id, 1u) << nonsense;
    }
    std::filesystem::remove(numbers);
}

TEST(Jobs, AreFoundByNumberOrByTheirOnlyName) {
    Jobs jobs;
    jobs.add(0, "a", kUser, {});
    jobs.add(0, "a", kUser, {});
    jobs.add(0, "2", kUser, {});
    const auto found = [&](const wire::JobReference& which, unsigned uid = kUser) {
        const Result<Job*> job = jobs.named(peer_of(uid), which);
        return job ? "job " + std::to_string(job.value()->id) : job.error();
    };
    EXPECT_EQ(found(number(2)), "job 2");
    EXPECT_EQ(found(name("2")), "job 3");
    EXPECT_EQ(found(name("a")), "there are 2 jobs named 'a'; give a number");
    EXPECT_EQ(found(number(4)), "there is no job '4'");
    EXPECT_EQ(found(name("b c")), "there is no job 'b c'");
    EXPECT_EQ(found(name("")), "there is no job ''");
    EXPECT_EQ(found(number(2), kOther), "job 2 is another user's");
    EXPECT_EQ(found(number(2), 0), "job 2");
    jobs.add(0, "resnet", kUser, {});
    EXPECT_EQ(found(name("resnte")), "there is no job 'resnte'; did you mean 'resnet'?");
    EXPECT_EQ(found(name("resnte"), kOther), "there is no job 'resnte'") << "it is not theirs";
}

TEST(Jobs, ANameMeansTheUsersOwnJob) {
    for (const bool hides_others : {false, true}) {
        Jobs jobs({}, hides_others);
        jobs.add(0, "train", kUser, {});
        jobs.add(0, "train", kOther, {});
        jobs.add(0, "secret", kOther, {});
        const auto found = [&](const wire::JobReference& which, unsigned uid) {
            const Result<Job*> job = jobs.named(peer_of(uid), which);
            return job ? "job " + std::to_string(job.value()->id) : job.error();
        };
        EXPECT_EQ(found(name("train"), kUser), "job 1");
        EXPECT_EQ(found(name("train"), kOther), "job 2");
        EXPECT_EQ(found(name("train"), 0), "there are 2 jobs named 'train'; give a number");
        EXPECT_EQ(found(name("secret"), kUser), hides_others ? "there is no job 'secret'" : "job 3 is another user's");
        EXPECT_EQ(found(number(3), kUser), "job 3 is another user's");
        EXPECT_EQ(found(name("secret"), 0), "job 3");
    }
}

TEST(Jobs, GoWhenTheyHaveNeitherRunnerNorClients) {
    Jobs jobs;
    for (int i = 0; i < 3; ++i) jobs.add(0, "a", kUser, {});
    jobs.at(1).runner_pid = 42;
    jobs.drop_ended([](const Job& job) { return job.id == 2; }, {}, 0);
    EXPECT_TRUE(jobs.find(1) && jobs.find(2));
    EXPECT_FALSE(jobs.find(3));
    EXPECT_EQ(jobs.add(0, "a", kUser, {}).id, 4u) << "numbers are not given again";
}

TEST(Jobs, ThatHaveEndedAreRememberedForAWhile) {
    Jobs jobs;
    const auto nobody = [](const Job&) { return false; };
    jobs.add(0, "turned away", kUser, {});
    jobs.drop_ended(nobody, {}, 0);
    EXPECT_TRUE(jobs.ended().empty());
    for (int i = 0; i < 60; ++i) {
        Job& job = jobs.add(0, "a", i < 30 ? kUser : kOther, Instant{i});
        job.took_part = true;
        job.exit_status = i;
        jobs.drop_ended(nobody, Instant{i + 5}, 1000 + i);
    }
    EXPECT_EQ(jobs.ended().size(), Jobs::kEndedMax);
    EXPECT_EQ(jobs.find_ended(11), nullptr) << "the tenth of sixty is forgotten";
    ASSERT_TRUE(jobs.find_ended(12));
    EXPECT_EQ(jobs.find_ended(12)->at_unix_s, 1010);
    ASSERT_TRUE(jobs.ended_named(peer_of(kUser), name("a")));
    EXPECT_EQ(jobs.ended_named(peer_of(kUser), name("a"))->job.exit_status, 29) << "the latest of the user";
    EXPECT_EQ(jobs.ended_named(peer_of(0), name("a"))->job.exit_status, 59);
    EXPECT_EQ(jobs.ended_named(peer_of(kUser), number(61)), nullptr) << "another user's";
    EXPECT_EQ(jobs.ended_named(peer_of(kUser), name("b")), nullptr);
    jobs.add(0, "a", kUser, {});
    EXPECT_EQ(jobs.ended_named(peer_of(kUser), name("a")), nullptr) << "one runs";
}

}  // namespace
}  // namespace salus::service
