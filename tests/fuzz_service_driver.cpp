// Runs the fuzz target without libFuzzer: over random inputs, named by seeds ("1..2000"), or over files that libFuzzer left.
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

std::uint64_t passed = 0;
char current[256] = "";

/// The input that failed, on the last line.
void report_failure() {
    char line[400];
    const int size = std::snprintf(line, sizeof line, "%llu inputs passed, 1 failed: %s\n",
                                   static_cast<unsigned long long>(passed), current);
    static_cast<void>(!::write(STDOUT_FILENO, line, static_cast<std::size_t>(size)));
}

void on_signal(int signal) {
    report_failure();
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

std::vector<std::uint8_t> random_input(std::uint64_t seed) {
    salus::Random random(seed);
    std::vector<std::uint8_t> bytes(random.below(random.chance(0.2) ? 2000 : 400));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    return bytes;
}

void run(const std::string& name, const std::vector<std::uint8_t>& bytes) {
    std::snprintf(current, sizeof current, "%s", name.c_str());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++passed;
}

/// "A..B", or nothing.
bool run_seeds(const std::string& range) {
    const std::size_t dots = range.find("..");
    if (dots == std::string::npos) return false;
    const auto first = salus::parse_integer(range.substr(0, dots));
    const auto last = salus::parse_integer(range.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first) return false;
    for (std::int64_t seed = *first; seed <= *last; ++seed) {
        run("seed " + std::to_string(seed), random_input(static_cast<std::uint64_t>(seed)));
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty()) arguments.emplace_back("1..2000");
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(report_failure);
    } else {
        for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) ::signal(signal, on_signal);
    }
    for (const std::string& argument : arguments) {
        if (run_seeds(argument)) continue;
        std::ifstream file(argument, std::ios::binary);
        if (!file) {
            std::fprintf(stderr, "fuzz_service_driver: '%s' is no range of seeds, such as 1..2000, and no file\n",
                         argument.c_str());
            return 2;
        }
        run(argument, {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    }
    std::printf("%llu inputs passed, 0 failed\n", static_cast<unsigned long long>(passed));
    return 0;
}
