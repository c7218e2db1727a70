// salus-concurrency: runs random threaded programs, each twice, without Salus and with it, and compares what they have read.
//
//   salus-concurrency [--device cuda] [--seconds S] [--limit S] [--break] [--no-reference] FIRST[..LAST]
//
// Each program is a process of its own, so that one that crashes or hangs is one line like any other. A line is a seed: "17
// ok DIGEST ..." or "17 FAILED why". The exit status is 1 if one failed. --break corrupts a byte in each: all have to fail.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "tests/concurrency/program.h"

namespace {

using salus::concurrency::Outcome;

struct Options {
    std::uint64_t first = 1, last = 1;
    double seconds = 1e9;  ///< no program is started after that
    double limit_s = 60;   ///< for one program: more is a hang
    bool on_gpu = false, is_broken = false, has_reference = true;
};

double now_s() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

[[noreturn]] void misused() {
    std::fprintf(stderr,
                 "usage: salus-concurrency [--device host|cuda] [--seconds S] [--limit S] [--break] [--no-reference] "
                 "FIRST[..LAST]\n");
    std::exit(2);
}

Options read_options(int argc, char** argv) {
    Options options;
    bool has_seeds = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool has_value = i + 1 < argc;
        if (word == "--device" && has_value) options.on_gpu = std::strcmp(argv[++i], "cuda") == 0;
        else if (word == "--seconds" && has_value) options.seconds = std::atof(argv[++i]);
        else if (word == "--limit" && has_value) options.limit_s = std::atof(argv[++i]);
        else if (word == "--break") options.is_broken = true;
        else if (word == "--no-reference") options.has_reference = false;
        else if (has_seeds || std::sscanf(word.c_str(), "%lu", &options.first) != 1) misused();
        else {
            has_seeds = true;
            const std::size_t dots = word.find("..");
            options.last = dots == std::string::npos ? options.first : std::strtoull(word.c_str() + dots + 2, nullptr, 10);
        }
    }
    if (!has_seeds) misused();
    return options;
}

struct Ended {
    std::optional<Outcome> outcome;
    std::string why;  ///< if there is none
};

std::string text_of(int status) {
    if (WIFSIGNALED(status)) return std::string("died of ") + ::strsignal(WTERMSIG(status));
    return "exit status " + std::to_string(WEXITSTATUS(status));
}

/// In a process of its own, which leads a group: so its children end with it.
Ended run(std::uint64_t seed, const Options& options, bool is_reference) {
    int pipe[2];
    if (::pipe(pipe) != 0) return {{}, "no pipe"};
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::setpgid(0, 0);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(pipe[0]);
        if (is_reference) ::setenv("SALUS_DISABLE", "1", 1);
        const Outcome outcome = salus::concurrency::run_program(seed, options.on_gpu, options.is_broken && !is_reference);
        ::_exit(::write(pipe[1], &outcome, sizeof outcome) == ssize_t{sizeof outcome} ? 0 : 3);
    }
    ::close(pipe[1]);
    if (pid < 0) return {{}, "no process"};
    // The end of the pipe is the end of the process, and of its children.
    pollfd ready{.fd = pipe[0], .events = POLLIN, .revents = 0};
    const bool in_time = ::poll(&ready, 1, static_cast<int>(1000 * options.limit_s)) == 1;
    Ended ended;
    Outcome outcome;
    if (in_time && ::read(pipe[0], &outcome, sizeof outcome) == ssize_t{sizeof outcome}) ended.outcome = outcome;
    if (!in_time) ::kill(-pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ::kill(-pid, SIGKILL);
    ::close(pipe[0]);
    if (!in_time) ended.why = "hangs";
    else if (status != 0 || !ended.outcome) ended = {{}, text_of(status)};
    return ended;
}

/// True if both runs have read the same.
bool run_both(std::uint64_t seed, const Options& options) {
    const Ended shared = run(seed, options, /*is_reference=*/false);
    const Ended reference = options.has_reference ? run(seed, options, /*is_reference=*/true) : shared;
    const auto number = static_cast<unsigned long>(seed);
    if (!shared.outcome) {
        std::printf("%lu FAILED %s\n", number, shared.why.c_str());
    } else if (!reference.outcome) {
        std::printf("%lu FAILED without Salus, too: %s\n", number, reference.why.c_str());
    } else if (shared.outcome->digest != reference.outcome->digest) {
        std::printf("%lu FAILED digest %016lx, without Salus %016lx\n", number, shared.outcome->digest,
                    reference.outcome->digest);
    } else {
        const Outcome& o = *shared.outcome;
        std::printf("%lu ok %016lx threads=%lu lane_mib=%lu evacuations=%lu turns=%lu page_outs=%lu denied=%lu\n", number,
                    o.digest, o.threads, o.lane_bytes >> 20, o.evacuations, o.turns, o.page_outs, o.denied);
    }
    std::fflush(stdout);
    return shared.outcome && reference.outcome && shared.outcome->digest == reference.outcome->digest;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = read_options(argc, argv);
    const double until = now_s() + options.seconds;
    int failed = 0;
    for (std::uint64_t seed = options.first; seed <= options.last && now_s() < until; ++seed) {
        if (!run_both(seed, options)) ++failed;
    }
    return failed == 0 ? 0 : 1;
}
