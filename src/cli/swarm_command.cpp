// salus sim fuzz, salus sim replay: the swarm, and the replay of a recorded trace.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/progress.h"
#include "core/trace.h"
#include "os/file.h"
#include "policies/table.h"
#include "sim/swarm.h"
#include "sim/trace_recorder.h"

namespace salus::cli {
namespace {

struct SwarmArguments {
    std::string seeds;
    std::string canary;
    std::string record;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

const sim::Canary* choose_canary(const std::string& name) {
    if (name.empty()) return nullptr;
    std::vector<std::string_view> names;
    for (const sim::Canary& canary : sim::all_canaries()) {
        if (canary.name == name) return &canary;
        names.push_back(canary.name);
    }
    throw UsageError{fmt::format("unknown canary '{}'; there are {}", name, fmt::join(names, ", "))};
}

int run_swarm(const SwarmArguments& a) {
    const SeedRange seeds = parse_seed_range(a.seeds);
    const sim::Canary* canary = choose_canary(a.canary);
    set_check_handler(throw_check_failure);
    if (!a.record.empty()) {
        if (seeds.first != seeds.last) throw UsageError{"--record keeps one run: give one seed"};
        sim::TraceRecorder recorder;
        static_cast<void>(sim::run_seed(seeds.first, canary, &recorder));
        write_or_complain(a.record, recorder.text());
    }
    const unsigned long long count = seeds.last - seeds.first + 1;
    std::atomic<unsigned long long> next{seeds.first};
    std::atomic<unsigned long long> events{0};
    std::mutex mutex;  // guards the variables below
    std::map<unsigned long long, std::string> failures;
    ProgressBar bar;

    const auto work = [&] {
        for (;;) {
            const unsigned long long seed = next++;
            if (seed > seeds.last) return;
            const sim::SwarmResult result = sim::run_seed(seed, canary);
            events += result.run.events;
            const std::lock_guard lock(mutex);
            if (result.failure) failures.emplace(seed, *result.failure);
            bar.show("seeds", static_cast<double>(seed - seeds.first) / static_cast<double>(count));
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 1; i < a.threads; ++i) threads.emplace_back(work);
        work();
    }
    constexpr std::size_t kShown = 5;
    std::size_t shown = 0;
    for (const auto& [seed, failure] : failures) {
        if (shown++ == kShown) break;
        fmt::print("seed {}: {}\n  replay it: salus sim fuzz --seeds {}{}\n", seed, failure, seed,
                   canary ? fmt::format(" --canary {}", a.canary) : "");
    }
    if (failures.size() > kShown) fmt::print("... and {} more seeds\n", failures.size() - kShown);
    fmt::print("{} events\n{} passed, {} failed\n", events.load(), count - failures.size(), failures.size());
    return failures.empty() ? 0 : 1;
}

int run_replay(const std::string& path) {
    const Result<std::string> text = os::read_file(path);
    if (!text) throw UsageError{text.error()};
    set_check_handler(throw_check_failure);
    try {
        const Result<Replay> replay = replay_trace(text.value(), find_policy, fallback_policy());
        if (!replay) throw UsageError{fmt::format("{}: {}", path, replay.error())};
        if (!replay.value().difference.empty()) {
            fmt::print("{}: {}\n", path, replay.value().difference);
            return 1;
        }
        fmt::print("{} events replayed to the same {} actions\n", replay.value().events, replay.value().actions);
        return 0;
    } catch (const std::exception& failure) {  // the trace has events that no shell would send
        throw UsageError{fmt::format("{}: {}", path, failure.what())};
    }
}

}  // namespace

void add_swarm_command(CLI::App& sim, Action& action) {
    CLI::App* fuzz = sim.add_subcommand("fuzz", "Run the swarm: random systems and faults, checked after every event");
    auto a = std::make_shared<SwarmArguments>();
    fuzz->add_option("--seeds", a->seeds, "A seed, or a range A..B")->type_name("A..B")->required();
    fuzz->add_option("--canary", a->canary, "Run with this deliberate bug; the checkers must catch it")->type_name("NAME");
    fuzz->add_option("--record", a->record, "Write the events and actions of a single seed")->type_name("FILE");
    fuzz->add_option("--threads", a->threads, "Number of seeds to run at once")
        ->type_name("N")
        ->check(CLI::Range(1u, 256u))
        ->capture_default_str();
    fuzz->callback([a, &action] { action = [a] { return run_swarm(*a); }; });
}

void add_replay_command(CLI::App& sim, Action& action) {
    CLI::App* replay = sim.add_subcommand("replay", "Replay a recorded trace and compare the engine's decisions");
    auto path = std::make_shared<std::string>();
    replay->add_option("FILE", *path, "File written by --record")->required();
    replay->callback([path, &action] { action = [path] { return run_replay(*path); }; });
}

}  // namespace salus::cli
