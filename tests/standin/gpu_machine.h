// A machine with the stand-in for a GPU: a service that shares it, and jobs on it.
#pragma once

#include "device/cuda/nvml.h"
#include "tests/processes_fixture.h"
#include "tests/standin/standin_fixture.h"

namespace salus::test {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// The stand-in in the place of a driver, for all that a machine starts.
inline void add_gpu(Machine& machine, const Environment& settings) {
    machine.also["LD_LIBRARY_PATH"] = SALUS_STANDIN_DIR;
    machine.also["SALUS_STANDIN_STATE"] = machine.path("gpu");
    for (const auto& [name, value] : settings) machine.also[name] = value;
}

/// A machine with a GPU, of which its management library tells.
class GpuMachine : public Machine {
public:
    explicit GpuMachine(const Words& options = {}, const Environment& settings = {})
        : Machine(Words{"--device", "cuda"} + options, /*start=*/false) {
        add_gpu(*this, settings);
        watcher_ = std::make_unique<Part>(also, [](const Line& line) {
            Standin::load();
            const auto nvml = device::cuda::Nvml::open("GPU-5a1d5a1d-0000-4000-8000-000000000000");
            for (int what = line.hear(); what != kEnd; what = line.hear()) {
                std::int64_t answer = 0;
                const auto by_process = *nvml.value().used_by_process();
                if (what == kAll) answer = nvml.value().used()->count;
                else if (what == kProcesses) answer = static_cast<std::int64_t>(by_process.size()) * kMiB;
                else if (by_process.contains(what)) answer = by_process.at(what).count;
                line.say(static_cast<int>(answer / kMiB));
            }
        });
        start_service();
    }
    ~GpuMachine() override { watcher_->line().say(kEnd); }

    int used_mib() const { return ask(kAll); }
    int used_mib(pid_t pid) const { return ask(pid); }
    /// With a context.
    int processes() const { return ask(kProcesses); }
    std::int64_t capacity_mib() const { return status()["service"].value("capacity_bytes", std::int64_t{0}) / kMiB; }
    std::int64_t lanes_mib() const {
        std::int64_t sum = 0;
        const nlohmann::json all = status();
        for (const nlohmann::json& lane : all["service"]["lanes"]) sum += lane.value("charge_bytes", std::int64_t{0}) / kMiB;
        return sum;
    }

private:
    static constexpr int kEnd = -1, kAll = -2, kProcesses = -3;
    int ask(int what) const {
        watcher_->line().say(what);
        return watcher_->line().hear();
    }
    std::unique_ptr<Part> watcher_;
};

}  // namespace salus::test
