#include "service/hide_from.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salus::service {
namespace {

constexpr unsigned kAlice = 1001, kBob = 1002;

JobStatus job_of(unsigned uid, std::uint32_t number, const std::string& name) {
    JobStatus job;
    job.job = number;
    job.name = name;
    job.pid = 4242;
    job.user = UserId{uid};
    job.command = "python " + name + ".py --key secret";
    job.log = "/home/" + name + "/log";
    job.elapsed = seconds(7);
    job.activity.emplace();
    job.activity->persistent = mebibytes(5);
    return job;
}

/// Alice waits for Bob's job, and Bob for Alice's.
Status of_two() {
    Status status;
    status.jobs = {job_of(kAlice, 1, "amber"), job_of(kBob, 2, "beryl")};
    status.jobs[0].activity->wait = {WaitReason::kTurn, Wait::Behind{"beryl", 2}};
    status.jobs[1].activity->wait = {WaitReason::kTurn, Wait::Behind{"amber", 1}};
    status.ended = {job_of(kAlice, 3, "azure"), job_of(kBob, 4, "bronze")};
    status.service.lanes = {{LaneId{0}, {}, {}, UserId{kAlice}, {}}, {LaneId{1}, {}, {}, UserId{kBob}, {}}};
    return status;
}

std::string seen_by(unsigned uid, bool only_numbers) {
    Status status = of_two();
    hide_from(uid, status, only_numbers);
    return to_json(status).dump();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(HideFrom, RootSeesAll) {
    for (const bool only_numbers : {false, true}) EXPECT_EQ(seen_by(0, only_numbers), to_json(of_two()).dump());
}

TEST(HideFrom, CommandsAndLogsAreTheirUsers) {
    const std::string text = seen_by(kAlice, false);
    EXPECT_TRUE(has(text, "amber.py") && has(text, "azure.py") && has(text, "/home/amber/log"));
    EXPECT_FALSE(has(text, "beryl.py") || has(text, "bronze.py") || has(text, "/home/beryl"));
    EXPECT_TRUE(has(text, "\"beryl\"") && has(text, "1002")) << "names and users are everybody's";
}

TEST(HideFrom, WithNumbersOnlyNothingTellsWhoseAJobIs) {
    const std::string text = seen_by(kAlice, true);
    for (const char* hidden : {"beryl", "bronze", "1002"}) EXPECT_FALSE(has(text, hidden)) << hidden << ": " << text;
    Status status = of_two();
    status.jobs[1].activity->wait.user_memory_max = gibibytes(3);
    hide_from(kAlice, status, true);
    EXPECT_EQ(status.jobs[1].activity->wait.user_memory_max, Bytes{});
    EXPECT_EQ(to_json(status)["jobs"][0], to_json(status.jobs[0]));
    EXPECT_EQ(status.jobs[0].name, "amber");
    EXPECT_EQ(status.jobs[0].activity->wait.behind->job, 2u);
    const nlohmann::json others = to_json(status)["jobs"][1];
    EXPECT_EQ(others["job"], 2);
    EXPECT_EQ(others["persistent_bytes"], mebibytes(5).count);
    EXPECT_EQ(others["elapsed_s"], 7);
    EXPECT_EQ(others["behind"], "amber") << "that name is her own";
    EXPECT_EQ(others["pid"], 0);
    EXPECT_FALSE(others.contains("uid"));
    EXPECT_EQ(status_from(to_json(status)).jobs[1].user, kNoUser);
}

}  // namespace
}  // namespace salus::service
