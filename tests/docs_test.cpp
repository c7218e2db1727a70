// What documents say of the code must be so: tables that they repeat, functions and files that they name. tests/docs/walk
// types the command lines that they show.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "policies/table.h"
#include "sim/workloads.h"
#include "status/prometheus.h"
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

std::set<std::string> all_matches(const std::string& text, const std::regex& pattern) {
    std::set<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) found.insert((*at)[1].str());
    return found;
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

TEST(Docs, EveryKeyOfAJobIsExplainedAndNoOther) {
    const std::string text = document("docs/service.md");
    JobStatus job;
    job.state = JobState::kWaiting;
    job.client = ClientId{1};
    job.end = {1, 0};
    job.user = kRoot;
    job.start_wait.emplace();
    job.past.emplace();
    job.gpu_number = 0;
    job.placement = PlacementReason::kLoad;
    Activity& activity = job.activity.emplace();
    activity.wait.behind = Wait::Behind{"a", 1};
    activity.wait.user_jobs_max = 1;
    activity.wait.user_memory_max = Bytes{1};
    activity.lane = LaneId{1};
    activity.length.emplace();
    activity.left.emplace();
    activity.company.emplace();
    activity.iteration_memory.most = {Bytes{1}};
    const nlohmann::json row = to_json(job);
    for (const auto& [key, value] : row.items()) EXPECT_NE(text.find(fmt::format("`{}`", key)), std::string::npos) << key;
    std::istringstream table(text.substr(text.find("| keys of a job |")));
    std::string line;
    for (std::getline(table, line); std::getline(table, line) && line.starts_with("|");) {
        for (const std::string& key : all_matches(line.substr(0, line.find(" | ")), std::regex("`([a-z_]+)`")))
            EXPECT_TRUE(row.contains(key)) << key;
    }
}

/// The lines of the document that begin with `start`, between the columns of a table or in code.
std::vector<std::string> lines_with(const std::string& text, const std::string& start) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(start)) found.push_back(line);
    }
    return found;
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

/// The adaptor's.
std::string python_sources() {
    std::string all;
    const std::string root = std::string(SALUS_SOURCE_DIR) + "/python/salus";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
        if (entry.path().extension() == ".py") all += document(entry.path().lexically_relative(SALUS_SOURCE_DIR).string());
    }
    return all;
}

TEST(Docs, TheReferenceNamesEveryVariable) {
    std::set<std::string> read = all_matches(sources() + python_sources(), std::regex("\"(SALUS_[A-Z_]+)\""));
    std::erase_if(read, [](const std::string& name) { return name.starts_with("SALUS_STANDIN_"); });  // in a test's header
    const std::set<std::string> named = all_matches(document("docs/reference.md"), std::regex("\\n\\| `(SALUS_[A-Z_]+)`"));
    EXPECT_EQ(named, read);
}

TEST(Docs, TheReferenceHasEveryOptionOfTheServiceWithItsDefault) {
    // The file that is installed is itself compared with the code: ServiceOptionsTest.
    std::set<std::string> rows;
    for (const std::string& line : lines_with(document("packaging/salusd.toml"), "#")) {
        std::smatch option;
        if (std::regex_match(line, option, std::regex("#([a-z-]+) = \"?([^\"]*)\"?")))
            rows.insert(option[1].str() + " = " + option[2].str());
    }
    ASSERT_GT(rows.size(), 10u);
    std::set<std::string> named;
    for (const std::string& line : lines_with(document("docs/reference.md"), "| `")) {
        std::smatch option;
        if (std::regex_search(line, option, std::regex("^\\| `([a-z-]+)` \\| *`?([^`|]*[^`| ])?`? *\\|")))
            named.insert(option[1].str() + " = " + option[2].str());
    }
    EXPECT_EQ(named, rows);
}

TEST(Docs, EverySeriesIsExplainedAndNoOther) {
    Status status;
    status.jobs.emplace_back().activity.emplace().interactive = true;
    const std::string page = to_prometheus(status, std::vector<JobTotals>(1));
    const std::set<std::string> written = all_matches(page, std::regex("# TYPE (salus_[a-z_]+) "));
    EXPECT_EQ(all_matches(document("docs/metrics.md"), std::regex("\n\\| `(salus_[a-z_]+)` \\|")), written);
    std::set<std::string> states;
    for (const std::string& state : all_matches(page, std::regex("salus_jobs\\{state=\"([a-z ]+)\""))) states.insert(state);
    const std::string row = lines_with(document("docs/metrics.md"), "| `salus_jobs` ").at(0);
    for (const std::string& state : states) EXPECT_NE(row.find(state), std::string::npos) << state;
}

/// What stands for something else in a message: "..." in the documents; a format's {} or %s, or the end of a literal, in the
/// code.
TEST(Docs, EveryMessageOfTheTroubleshootingPageIsPrinted) {
    const std::string code = sources() + python_sources() + document("src/service/main.cpp") + document("src/cli/main.cpp");
    std::size_t messages = 0;
    for (const std::string& line : lines_with(document("docs/troubleshooting.md"), "| `")) {
        const std::string message = line.substr(3, line.find('`', 3) - 3);
        ++messages;
        for (std::size_t at = 0; at != std::string::npos;) {
            const std::size_t end = message.find("...", at);
            const std::string part = message.substr(at, end == std::string::npos ? end : end - at);
            EXPECT_NE(code.find(part), std::string::npos) << "nobody prints '" << part << "' of: " << message;
            at = end == std::string::npos ? end : end + 3;
        }
    }
    EXPECT_GT(messages, 25u);
}

TEST(Docs, TheTroubleshootingPageHasWhatAJobIsToldOfSharing) {
    const std::string page = document("docs/troubleshooting.md");
    std::string code = sources();
    for (const auto& [text, pattern] :
         {std::pair{python_sources(), std::regex("_(?:say|unshared)\\(\\s*\"([a-z][^\"%(]{8,})")},
          {code, std::regex("warn\\(\"([^\"]{8,})")}}) {
        const std::set<std::string> messages = all_matches(text, pattern);
        EXPECT_GE(messages.size(), 2u);
        for (const std::string& message : messages)
            EXPECT_NE(page.find(std::string(trim(message))), std::string::npos) << message;
    }
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
