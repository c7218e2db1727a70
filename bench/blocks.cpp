// What blocks cost, each with its end and its part of the boundary, in the iterations of a training whose lane is mapped.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/memory.h"
#include "device/host/host_client_device.h"
#include "device/host/host_lane_memory.h"

namespace {

using namespace salus;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr device::Stream kStream = 1;

class NobodyToAsk : public client::Provider {
public:
    bool ask(client::Needs) override { return false; }
    bool wait_for_device(unsigned) override { return false; }
    void observe(std::uint64_t) override {}
};

/// Layers whose activations live from the forward pass to the backward pass, and weights whose gradients live until the
/// next iteration.
class Training {
public:
    Training(client::Memory& memory, std::size_t layers) : memory_(memory), gradients_(layers) {}

    std::size_t blocks() const { return gradients_.size() * (kActivations + kWorkspaces + 1); }

    bool iterate() {
        memory_.turn_begins();
        std::vector<void*> activations;
        for (std::size_t layer = 0; layer < gradients_.size(); ++layer) {
            for (std::uint64_t i = 0; i < kActivations; ++i)
                activations.push_back(allocate((1 + (layer + i) % 3 * 4) * kMiB));
            memory_.free(allocate(3 * kMiB));
        }
        for (void*& gradient : gradients_) memory_.free(std::exchange(gradient, nullptr));
        for (std::size_t layer = gradients_.size(); layer-- > 0;) {
            void* workspace = allocate(3 * kMiB);
            gradients_[layer] = allocate((1 + layer % 3) * kMiB);
            for (std::uint64_t i = 0; i < kActivations; ++i) {
                memory_.free(activations.back());
                activations.pop_back();
            }
            memory_.free(workspace);
        }
        return memory_.boundary();
    }

private:
    static constexpr std::uint64_t kActivations = 4;  // of a layer
    static constexpr std::uint64_t kWorkspaces = 2;   // one in each pass

    void* allocate(std::uint64_t size) { return memory_.allocate_on(kStream, size, /*inside=*/true).value(); }

    client::Memory& memory_;
    std::vector<void*> gradients_;
};

void blocks_of_an_iteration(benchmark::State& state) {
    ControlPage page;
    NobodyToAsk provider;
    const auto lanes = device::make_host_lane_memory();
    const Bytes lane{static_cast<std::int64_t>(4096 * kMiB)};
    if (!lanes->provide(LaneId{0}, lane).ok()) return state.SkipWithError("no lane");
    auto device = device::make_host_client_device({4 * lane.count});
    client::Memory memory(page, *device.value(), provider);
    memory.set_alone(false);
    memory.add_lane_memory(0, lanes->pass_on(LaneId{0}, 0, 1).value());
    memory.map_lane(static_cast<std::uint64_t>(lane.count));
    page.wanted_persistent = page.wanted_ephemeral = page.allowed_private = static_cast<std::uint64_t>(lane.count);
    memory.set_room(static_cast<std::uint64_t>(lane.count));
    Training training(memory, static_cast<std::size_t>(state.range(0)));
    for (int i = 0; i < 10; ++i) training.iterate();
    for (auto _ : state) benchmark::DoNotOptimize(training.iterate());
    state.counters["each"] = benchmark::Counter(static_cast<double>(training.blocks()),
                                                benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(blocks_of_an_iteration)->Arg(1)->Arg(10)->Arg(100);

}  // namespace
