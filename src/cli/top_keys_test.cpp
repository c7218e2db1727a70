#include "cli/top_keys.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

namespace salus::cli {
namespace {

Status four_jobs() {
    Status status;
    for (const std::uint32_t number : {1u, 2u, 2u, 3u, 4u}) {  // job 2 has two clients
        JobStatus& row = status.jobs.emplace_back();
        row.job = number;
        row.name = "job" + std::to_string(number);
        row.state = number == 3 ? JobState::kPaused : JobState::kRunning;
        row.activity.emplace().priority = static_cast<int>(number);
    }
    status.jobs.back().activity.reset();
    return status;
}

class TopKeys : public testing::Test {
protected:
    Pressed type(int key) { return press(key, status_, rates_, options_); }

    Status status_ = four_jobs();
    Rates rates_;
    TopOptions options_;
};

TEST_F(TopKeys, ArrowsChooseAJob) {
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 1u);
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 2u);
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 3u) << "both rows of job 2 are behind";
    type(kKeyUp);
    EXPECT_EQ(options_.chosen, 2u);
    type(kKeyPageDown);
    EXPECT_EQ(options_.chosen, 4u);
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 4u);
    type(kKeyHome);
    EXPECT_EQ(options_.chosen, 1u);
    type(kKeyEnd);
    EXPECT_EQ(options_.chosen, 4u);
    type(kKeyEscape);
    EXPECT_EQ(options_.chosen, 0u);
    status_.jobs.clear();
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 0u);
}

TEST_F(TopKeys, AJobIsPausedOrResumed) {
    EXPECT_FALSE(type('p').command);
    EXPECT_EQ(options_.said, "choose a job first: up, down");
    options_.chosen = 1;
    Pressed pressed = type('p');
    EXPECT_EQ(options_.said, "");
    ASSERT_TRUE(pressed.command && std::holds_alternative<wire::PauseJob>(*pressed.command));
    EXPECT_EQ(std::get<wire::PauseJob>(*pressed.command).job.number, 1u);
    EXPECT_EQ(pressed.done, "job 1 pauses after its current iteration");
    options_.chosen = 3;
    pressed = type('p');
    ASSERT_TRUE(pressed.command && std::holds_alternative<wire::ResumeJob>(*pressed.command));
    EXPECT_EQ(std::get<wire::ResumeJob>(*pressed.command).job.number, 3u);
}

TEST_F(TopKeys, AJobIsKilledOnlyAfterAYes) {
    options_.chosen = 2;
    EXPECT_FALSE(type('k').command);
    EXPECT_EQ(options_.mode, TopMode::kConfirmKill);
    EXPECT_FALSE(type('n').command);
    EXPECT_EQ(options_.mode, TopMode::kJobs);
    type('k');
    EXPECT_FALSE(type('q').quits) << "it only means no";
    type('k');
    const Pressed pressed = type('y');
    ASSERT_TRUE(pressed.command && std::holds_alternative<wire::KillJob>(*pressed.command));
    EXPECT_EQ(std::get<wire::KillJob>(*pressed.command).job.number, 2u);
    EXPECT_EQ(std::get<wire::KillJob>(*pressed.command).at_once, 0u);
    EXPECT_FALSE(type('y').command);
}

TEST_F(TopKeys, PriorityIsRaisedAndLowered) {
    options_.chosen = 2;
    const auto set = [&](int key) {
        const Pressed pressed = type(key);
        return pressed.command ? std::get<wire::SetJob>(*pressed.command) : wire::SetJob{};
    };
    EXPECT_EQ(set('+').priority, 3);
    EXPECT_EQ(set('-').priority, 1);
    EXPECT_EQ(set('-').fields, wire::SetJob::kPriority);
    EXPECT_EQ(set('-').job.number, 2u);
    options_.chosen = 4;
    EXPECT_FALSE(type('+').command);
    EXPECT_EQ(options_.said, "job 4 has not attached yet");
}

TEST_F(TopKeys, AFilterIsTyped) {
    for (const char key : std::string("/jobq\b2")) type(key);
    EXPECT_EQ(options_.mode, TopMode::kFilter);
    EXPECT_EQ(options_.filter, "job2");
    type(kKeyUp);
    EXPECT_EQ(options_.filter, "job2");
    type(kKeyEnter);
    EXPECT_EQ(options_.mode, TopMode::kJobs);
    type(kKeyDown);
    EXPECT_EQ(options_.chosen, 2u) << "the first that is shown";
    type('/');
    type(kKeyBackspace);
    type(kKeyEscape);
    EXPECT_EQ(options_.filter, "");
    for (int i = 0; i < 1000; ++i) type(i == 0 ? '/' : 'x');
    EXPECT_LT(options_.filter.size(), 50u);
}

TEST_F(TopKeys, SortsHelpsAndQuits) {
    options_.first = 3;
    type('w');
    EXPECT_EQ(options_.sort, SortKey::kWaiting);
    EXPECT_EQ(options_.first, 0);
    type('h');
    EXPECT_EQ(options_.mode, TopMode::kHelp);
    EXPECT_FALSE(type('x').quits);
    EXPECT_EQ(options_.mode, TopMode::kJobs);
    EXPECT_TRUE(type('q').quits);
}

}  // namespace
}  // namespace salus::cli
