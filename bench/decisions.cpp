// How fast the engine decides, and how fast the simulator runs. `make bench` runs this; figures are medians of repetitions.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/placement.h"
#include "policies/table.h"
#include "sim/simulation.h"

namespace salus {
namespace {

/// An engine with `count` clients in one lane, all wanting to run, one iteration a turn.
class Contended {
public:
    Contended(const Policy& policy, std::size_t count) : engine_(options(), policy, fallback_policy()) {
        for (std::size_t i = 0; i < count; ++i) {
            event::Attach attach;
            attach.client = ClientId(i);
            attach.profiled = true;
            attach.iterations_total = 1'000'000'000 + i;
            attach.iteration_time = milliseconds(100);
            attach.persistent = mebibytes(16);
            attach.ephemeral = mebibytes(1024);
            handle(attach);
            handle(event::Want{attach.client});
        }
    }

    /// The holder reaches its boundary; the engine decides who runs next.
    void decide() {
        now_ = now_ + milliseconds(100);
        handle(event::Boundary{holder_, 1});
    }

private:
    static EngineOptions options() {
        EngineOptions options;
        options.capacity = gibibytes(64);
        options.lanes_max = 1;
        options.min_turn = Duration{};
        return options;
    }

    void handle(const Event& event) {
        std::vector<Event> answers;
        for (const Action& action : engine_.handle(event, now_)) {
            if (const auto* grant = std::get_if<action::Grant>(&action)) holder_ = grant->client;
            if (const auto* assign = std::get_if<action::AssignLane>(&action)) {
                answers.push_back(event::Acknowledge{assign->client, assign->lane, assign->version});
            }
        }
        for (const Event& answer : answers) handle(answer);
    }

    Engine engine_;
    Instant now_{};
    ClientId holder_ = kNoClient;
};

void decision(benchmark::State& state, const Policy* policy) {
    Contended contended(*policy, static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) contended.decide();
}

/// One engine a device, as in a service: `clients` in all, spread over them. The devices decide by turns.
void decision_on_devices(benchmark::State& state, const Policy* policy) {
    const auto devices = static_cast<std::size_t>(state.range(0)), clients = static_cast<std::size_t>(state.range(1));
    std::vector<std::unique_ptr<Contended>> all;
    for (std::size_t i = 0; i < devices; ++i)
        all.push_back(std::make_unique<Contended>(*policy, clients / devices + (i < clients % devices ? 1 : 0)));
    std::size_t next = 0;
    for (auto _ : state) all[next = (next + 1) % devices]->decide();
}

/// Where a newcomer goes: once for each job.
void placement(benchmark::State& state) {
    std::vector<DeviceFacts> devices;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
        DeviceFacts device;
        device.id = DeviceId{static_cast<std::uint32_t>(i)};
        device.capacity = gibibytes(64);
        device.taken = gibibytes(i % 50);
        device.batch = static_cast<std::size_t>(i % 16);
        device.interactive = static_cast<std::size_t>(i % 3);
        devices.push_back(device);
    }
    const NewcomerFacts job{.persistent = gibibytes(2), .ephemeral = gibibytes(8), .context = mebibytes(600)};
    for (auto _ : state) benchmark::DoNotOptimize(choose_device(devices, job, Packing::kSpread));
}

/// 50 clients, one lane, one iteration a turn: every iteration is an event and a decision of its own.
void simulated_iterations(benchmark::State& state, const Policy* policy) {
    std::vector<sim::SimulatedJob> jobs(50);
    for (sim::SimulatedJob& job : jobs) {
        job.iterations = 4000;
        job.iteration_time = milliseconds(50);
        job.persistent = mebibytes(64);
        job.ephemeral = mebibytes(1024);
    }
    sim::SimulationOptions options;
    options.engine.capacity = gibibytes(16);
    options.engine.lanes_max = 1;
    options.engine.min_turn = Duration{};
    options.profiles_known = true;
    std::uint64_t iterations = 0;
    for (auto _ : state) {
        sim::Simulation simulation(options, jobs, *policy, fallback_policy());
        const sim::SimulationResult result = simulation.run();
        iterations += result.iterations;
        if (result.events < result.iterations) state.SkipWithError("iterations were skipped");
    }
    state.counters["iterations/s"] = benchmark::Counter(static_cast<double>(iterations), benchmark::Counter::kIsRate);
}

const bool registered = [] {
    for (const Policy* policy : all_policies()) {
        const std::string name(policy->info.name);
        const PolicyInfo& info = policy->info;
        if (info.shares_lanes && !info.exclusive) {  // else there is one candidate, and nothing to decide
            benchmark::RegisterBenchmark(("decision/" + name).c_str(), decision, policy)
                ->Arg(50)
                ->Arg(1000)
                ->Unit(benchmark::kMicrosecond);
        }
        if (info.shares_lanes && !info.exclusive) {
            benchmark::RegisterBenchmark(("devices/" + name).c_str(), decision_on_devices, policy)
                ->ArgNames({"devices", "clients"})
                ->ArgsProduct({{1, 4, 16, 64}, {1000}})
                ->Args({64, 4000})
                ->Unit(benchmark::kMicrosecond);
        }
        if (info.time_sliced) {  // else nobody yields after one iteration
            benchmark::RegisterBenchmark(("simulation/" + name).c_str(), simulated_iterations, policy)
                ->Unit(benchmark::kMillisecond);
        }
    }
    benchmark::RegisterBenchmark("placement", placement)
        ->ArgName("devices")
        ->Arg(1)
        ->Arg(4)
        ->Arg(16)
        ->Arg(64)
        ->Unit(benchmark::kMicrosecond);
    return true;
}();

}  // namespace
}  // namespace salus
