// PyTorch scripts as jobs, for tests: with each Python that scripts/setup-torch found.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/processes_fixture.h"

namespace salus::test {

struct Python {
    std::string version;  ///< of its torch
    std::string path;
};

inline std::vector<Python> pythons() {
    std::ifstream list(SALUS_SOURCE_DIR "/build/pythons");
    std::vector<Python> found;
    for (Python python; list >> python.version >> python.path;) found.push_back(python);
    // A library with a sanitizer in it does not load into a Python without.
    return kSanitized ? std::vector<Python>{} : found;
}

/// Each test is there for the first and the second of them; where there is none it says so. The tests are listed when they
/// are built, and PyTorch may come later.
inline std::string name_of(const ::testing::TestParamInfo<std::size_t>& info) {
    return info.param == 0 ? "first_torch" : "second_torch";
}

/// `make check`: each test with both versions, and under every policy. Otherwise each runs once.
inline bool everything() { return std::getenv("SALUS_TEST_ALL") != nullptr; }

class TorchTest : public ::testing::TestWithParam<std::size_t> {
protected:
    /// `usual`: the version of `make test`, if both are here.
    explicit TorchTest(std::size_t usual) : usual_(usual) {}
    void SetUp() override {
        const std::vector<Python> all = pythons();
        if (!everything() && all.size() > 1 && GetParam() != usual_)
            GTEST_SKIP() << "with this version in `make check` only";
        if (GetParam() >= all.size()) {
            GTEST_SKIP() << "SKIPPED: "
                         << (kSanitized ? "not with sanitizers" : "no such PyTorch here (scripts/setup-torch)");
        }
        python_ = all[GetParam()];
    }
    const std::string& python() const { return python_.path; }
    const std::string& version() const { return python_.version; }
    bool is_torch_1() const { return version().starts_with("1."); }

private:
    const std::size_t usual_;
    Python python_;
};

/// One thread each: so that results do not depend on how many there are.
inline std::map<std::string, std::string> torch_environment() {
    return {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}, {"PYTHONDONTWRITEBYTECODE", "1"}};
}

/// What the service's log says of a client when it is gone.
struct Account {
    std::uint64_t iterations = 0;
    double in_lane = 0;  ///< share of its ephemeral bytes
    std::uint64_t evacuations = 0;
    std::uint64_t page_outs = 0;
};

inline std::vector<Account> accounts_in(const std::string& log, const std::string& name) {
    static const std::regex line(
        R"(client \d+ \((.+), pid \d+\) (?:is gone|left) after (\d+) iterations(?:, (\d+) % of its ephemeral bytes in the lane)?, (\d+) evacuations, (\d+) page-outs)");
    std::vector<Account> found;
    for (auto it = std::sregex_iterator(log.begin(), log.end(), line); it != std::sregex_iterator(); ++it) {
        const std::smatch& m = *it;
        if (m[1] == name)
            found.push_back(
                {std::stoull(m[2]), m[3].matched ? std::stod(m[3]) / 100 : 0, std::stoull(m[4]), std::stoull(m[5])});
    }
    return found;
}

}  // namespace salus::test
