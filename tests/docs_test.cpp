// What documents say of the code must be so: tables that they repeat, functions and files that they name.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policies/table.h"
#include "sim/workloads.h"
#include "status/status.h"

namespace salus {
namespace {

std::string document(const std::string& path) {
    std::ifstream in(std::string(SALUS_SOURCE_DIR) + "/" + path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

std::size_t rows_of(const std::string& text, const std::string& start) {
    std::size_t rows = 0;
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) ++rows;
    return rows;
}

TEST(Docs, PoliciesTableIsThatOfTheCode) {
    const std::string text = document("docs/policies.md");
    for (const Policy* policy : all_policies()) {
        const PolicyInfo& info = policy->info;
        const auto yes = [](bool value) { return value ? "yes" : "no"; };
        const std::string row = fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", info.name, info.good_for, info.bad_at,
                                            info.time_sliced ? "each minimum turn" : "on events", yes(info.pages_by_rank),
                                            yes(info.starvation_free));
        EXPECT_NE(text.find(row), std::string::npos) << "docs/policies.md lacks this row:\n" << row;
    }
    EXPECT_EQ(rows_of(text, "\n| `"), all_policies().size()) << "docs/policies.md has a row for a policy that is not there";
}

TEST(Docs, SimulatorNamesEveryWorkload) {
    const std::string text = document("docs/simulator.md");
    for (const sim::WorkloadInfo& workload : sim::all_workloads()) {
        EXPECT_NE(text.find(fmt::format("`{}`", workload.name)), std::string::npos) << workload.name;
    }
}

TEST(Docs, EveryKeyOfAJobIsExplained) {
    const std::string text = document("docs/service.md");
    JobStatus job;
    job.state = JobState::kWaiting;
    job.client = ClientId{1};
    job.end = {1, 0};
    job.user = kRoot;
    job.start_wait.emplace();
    Activity& activity = job.activity.emplace();
    activity.wait.behind = Wait::Behind{"a", 1};
    activity.lane = LaneId{1};
    activity.length.emplace();
    activity.left.emplace();
    const nlohmann::json row = to_json(job);
    for (const auto& [key, value] : row.items()) EXPECT_NE(text.find(fmt::format("`{}`", key)), std::string::npos) << key;
}

/// All sources of the service, the client and the simulator in one text.
std::string sources() {
    std::string all;
    const std::string root = std::string(SALUS_SOURCE_DIR) + "/src";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
        const std::string path = entry.path().lexically_relative(SALUS_SOURCE_DIR).string();
        if (path.ends_with(".h") || (path.ends_with(".cpp") && !path.ends_with("_test.cpp"))) all += document(path);
    }
    return all + document("python/salus/cuda/allocator.cpp");
}

TEST(Docs, TheArchitectureNamesFunctionsAndFilesThatAreThere) {
    const std::string text = document("ARCHITECTURE.md");
    const std::string code = sources();
    std::size_t functions = 0;
    const std::regex function("`[A-Z][A-Za-z]*::([a-z_]+)`");
    for (std::sregex_iterator at(text.begin(), text.end(), function), end; at != end; ++at, ++functions) {
        EXPECT_NE(code.find((*at)[1].str() + "("), std::string::npos) << "there is no " << at->str();
    }
    EXPECT_GT(functions, 30u);
    const std::regex link(R"(\]\(([a-z][^)#:]*)\))");
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
        EXPECT_TRUE(std::filesystem::exists(std::string(SALUS_SOURCE_DIR) + "/" + (*at)[1].str())) << at->str();
    }
}

}  // namespace
}  // namespace salus
