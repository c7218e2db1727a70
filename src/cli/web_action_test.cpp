#include "cli/web_action.h"

#include <gtest/gtest.h>

#include <string>

namespace salus::cli {
namespace {

TEST(WebAction, BecomesTheMessageOfTheCommand) {
    const auto pause = web_action_in(R"({"job": 3, "action": "pause"})");
    ASSERT_TRUE(pause);
    EXPECT_EQ(std::get<wire::PauseJob>(pause.value().command).job.number, 3u);
    const auto resume = web_action_in(R"({"job": 4, "action": "resume"})");
    ASSERT_TRUE(resume);
    EXPECT_EQ(std::get<wire::ResumeJob>(resume.value().command).job.number, 4u);
    for (const auto& [action, at_once] : {std::pair{"kill", 0u}, {"kill now", 1u}}) {
        const auto kill = web_action_in(std::string(R"({"job": 5, "action": ")") + action + "\"}");
        ASSERT_TRUE(kill);
        EXPECT_EQ(std::get<wire::KillJob>(kill.value().command).job.number, 5u);
        EXPECT_EQ(std::get<wire::KillJob>(kill.value().command).at_once, at_once);
    }
    const auto set = web_action_in(R"({"job": 6, "action": "priority", "value": -2})");
    ASSERT_TRUE(set);
    const auto& message = std::get<wire::SetJob>(set.value().command);
    EXPECT_EQ(message.job.number, 6u);
    EXPECT_EQ(message.priority, -2);
    EXPECT_EQ(message.fields, static_cast<std::uint32_t>(wire::SetJob::kPriority));
    EXPECT_EQ(set.value().done, "has priority=-2 now");
}

TEST(WebAction, RefusesWhatItDoesNotKnow) {
    for (const char* body :
         {"", "[]", "{", "null", R"({"job": 3})", R"({"action": "pause"})", R"({"job": "3", "action": "pause"})",
          R"({"job": 0, "action": "pause"})", R"({"job": -1, "action": "pause"})",
          R"({"job": 4294967296, "action": "pause"})", R"({"job": 3, "action": "stop"})",
          R"({"job": 3, "action": ["pause"]})", R"({"job": 3, "action": "priority"})",
          R"({"job": 3, "action": "priority", "value": "5"})", R"({"job": 3, "action": "priority", "value": 1.5})",
          R"({"job": 3, "action": "priority", "value": 99999999})"})
        EXPECT_FALSE(web_action_in(body)) << body;
}

}  // namespace
}  // namespace salus::cli
