// The dependency rule of ARCHITECTURE.md: what each folder of src/ may include, and that pure folders stay pure.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = fs::path(SALUS_SOURCE_DIR) / "src";

/// folder -> folders it may include from, besides itself
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"core", {"base"}},
    {"policies", {"base", "core"}},
    {"attachment", {"base", "wire"}},
    {"shell", {"base", "core", "wire"}},
    {"sim", {"base", "core", "policies", "shell", "status", "attachment", "wire"}},
    {"status", {"base", "core"}},
    {"os", {"base"}},
    {"wire", {"base", "os"}},
    {"device", {"base", "os", "wire"}},
    {"history", {"base", "os"}},
    {"client", {"attachment", "base", "os", "wire", "device", "salus"}},
    {"interpose", {"base", "os", "client"}},
    {"library", {"base", "os", "wire", "device", "client", "interpose", "shim", "salus"}},
    {"shim", {}},
    {"usage", {"base"}},
    {"service", {"shell", "base", "os", "core", "policies", "wire", "device", "history", "status", "usage"}},
    {"web", {"base", "os"}},
    {"job", {"base", "os", "usage", "salus"}},  // salus: the public header
    {"cli", {"base", "os", "core", "policies", "sim", "wire", "device", "history", "status", "usage", "web"}},
};
const std::set<std::string> kPure = {"base", "core", "policies", "attachment", "shell", "sim", "status", "usage"};

/// What pure code has no business with: clocks, threads, files, sockets, processes, devices, the environment.
const std::regex kImpure(
    R"(^(chrono|ctime|time\.h|thread|mutex|shared_mutex|condition_variable|future|atomic|stop_token|semaphore|latch|barrier|random|)"
    R"(fstream|filesystem|iostream|csignal|signal\.h|unistd\.h|fcntl\.h|poll\.h|pthread\.h|sched\.h|dlfcn\.h|sys/.*|linux/.*|)"
    R"(netinet/.*|arpa/.*|cuda.*|nvml.*)$)");

/// What src/os wraps. Only it may reach past itself, and device/, which maps memory and watches it being written.
const std::regex kWrapped(R"(^(time\.h|ctime|sys/time\.h|fcntl\.h|poll\.h|sys/poll\.h|spawn\.h|dirent\.h|linux/.*|)"
                          R"((netinet|arpa)/.*|sys/(file|socket|un|wait|syscall|sendfile|uio)\.h)$)");
const std::set<std::string> kMayReachPastOs = {"os", "device"};

struct Include {
    std::string file;  // that is included
    bool quoted;
};

std::vector<Include> includes_of(const fs::path& file) {
    static const std::regex directive(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
    std::ifstream in(file);
    std::vector<Include> found;
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
        if (std::regex_search(line, match, directive)) found.push_back({match[2], match[1] == "\""});
    }
    return found;
}

std::vector<fs::path> sources() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
        const std::string extension = entry.path().extension();
        if (extension == ".cpp" || extension == ".h") files.push_back(entry.path());
    }
    return files;
}

std::string folder_of(const fs::path& file) { return fs::relative(file, kSource).begin()->string(); }
bool is_test(const fs::path& file) {
    return file.stem().string().ends_with("_test") || file.stem().string().ends_with("_fixture");
}

TEST(DependencyRule, FoldersIncludeOnlyWhatTheyMay) {
    ASSERT_GT(sources().size(), 30u);
    for (const fs::path& file : sources()) {
        const std::string folder = folder_of(file);
        ASSERT_TRUE(kMayInclude.contains(folder)) << file << ": the rule does not know this folder";
        if (is_test(file)) continue;
        for (const Include& include : includes_of(file)) {
            if (!include.quoted) continue;
            const std::string from = fs::path(include.file).begin()->string();
            EXPECT_TRUE(from == folder || kMayInclude.at(folder).contains(from)) << file << " includes " << include.file;
        }
    }
}

TEST(DependencyRule, PureFoldersReachNoClockThreadFileSocketOrDevice) {
    for (const fs::path& file : sources()) {
        if (!kPure.contains(folder_of(file)) || is_test(file)) continue;
        for (const Include& include : includes_of(file)) {
            EXPECT_FALSE(std::regex_match(include.file, kImpure)) << file << " includes <" << include.file << ">";
        }
    }
}

TEST(DependencyRule, TheOperatingSystemIsReachedThroughOs) {
    for (const fs::path& file : sources()) {
        if (kMayReachPastOs.contains(folder_of(file)) || is_test(file)) continue;
        for (const Include& include : includes_of(file)) {
            EXPECT_FALSE(std::regex_match(include.file, kWrapped)) << file << " includes <" << include.file << ">";
        }
    }
}

TEST(DependencyRule, TheCheckItselfKnowsAnImpureHeader) {
    for (const char* header : {"chrono", "thread", "sys/socket.h", "cuda.h", "cuda_runtime.h", "unistd.h", "ctime"}) {
        EXPECT_TRUE(std::regex_match(header, kImpure)) << header;
    }
    for (const char* header : {"algorithm", "vector", "cmath", "fmt/format.h"})
        EXPECT_FALSE(std::regex_match(header, kImpure)) << header;
    for (const char* header : {"time.h", "poll.h", "sys/wait.h", "linux/futex.h"})
        EXPECT_TRUE(std::regex_match(header, kWrapped)) << header;
}

}  // namespace
