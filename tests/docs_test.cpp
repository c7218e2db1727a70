// Documents that repeat what a table in the code says must say the same.
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/table.h"
#include "sim/workloads.h"

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

}  // namespace
}  // namespace salus
