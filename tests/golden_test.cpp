// Golden traces: recorded decisions that must not change unnoticed. When a change is meant, tests/golden/update makes them
// anew.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "core/trace.h"
#include "policies/table.h"

namespace salus {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

const fs::path kGolden = fs::path(SALUS_SOURCE_DIR) / "tests" / "golden";

TEST(GoldenTraces, ReplayToTheSameActions) {
    std::size_t traces = 0;
    for (const auto& entry : fs::directory_iterator(kGolden)) {
        if (entry.path().extension() != ".trace") continue;
        ++traces;
        const Result<Replay> replay = replay_trace(read_text(entry.path()), find_policy, fallback_policy());
        ASSERT_TRUE(replay.ok()) << entry.path() << ": " << replay.error();
        EXPECT_EQ(replay.value().difference, "") << entry.path();
        EXPECT_GT(replay.value().events, 20u) << entry.path();
    }
    EXPECT_GE(traces, all_policies().size()) << "one for each policy";
    for (const Policy* policy : all_policies()) {
        EXPECT_TRUE(fs::exists(kGolden / (std::string(policy->info.name) + ".trace"))) << policy->info.name;
    }
}

TEST(GoldenTraces, AChangedActionOrEventIsNoticed) {
    const std::string text = read_text(kGolden / "srtf.trace");
    struct Case {
        std::string from, to, says;
    };
    for (const Case& c :
         {Case{"  grant client=", "  grant client=7", "instead"}, Case{"\n  grant client=0", "\n  wait client=0", "instead"},
          Case{" want client=", " wnat client=", "unknown event 'wnat'"},
          Case{"client=0 user=0", "client=0 usr=0", "bad field 'user'"},
          Case{"salus-trace 1", "salus-trace 2", "not a salus trace"},
          Case{"policy=srtf", "policy=nope", "unknown policy 'nope'"}}) {
        std::string changed = text;
        const auto at = changed.find(c.from);
        ASSERT_NE(at, std::string::npos) << c.from;
        changed.replace(at, c.from.size(), c.to);
        const Result<Replay> replay = replay_trace(changed, find_policy, fallback_policy());
        const std::string said = replay.ok() ? replay.value().difference : replay.error();
        EXPECT_NE(said.find(c.says), std::string::npos) << c.from << " -> " << c.to << ": " << said;
    }
    EXPECT_FALSE(replay_trace("", find_policy, fallback_policy()).ok());
}

}  // namespace
}  // namespace salus
