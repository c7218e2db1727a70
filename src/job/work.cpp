#include "job/work.h"

#include <numeric>
#include <vector>

#include "job/report.h"
#include "os/clock.h"

namespace salus::job {
namespace {

constexpr int kPasses = 3;
constexpr int kRuns = 25;
constexpr std::uint64_t kUnitsOfARun = 5'000;

/// Tends to 1: never large, never denormal, so that every unit takes the same time.
float step(float x) { return x * 0.75f + 0.25f; }

}  // namespace

Work::Work() { std::iota(values_.begin(), values_.end(), 1.0f); }

// Not inlined: it must be the same code that is calibrated and that is run.
[[gnu::noinline]] void Work::run(std::uint64_t units) {
    for (std::uint64_t unit = 0; unit < units; ++unit) {
        for (int pass = 0; pass < kPasses; ++pass) {
            // Several steps for each load: it is arithmetic that counts, not how the loop happens to be laid out.
            for (float& value : values_) value = step(step(step(step(value))));
        }
    }
}

float Work::result() const { return std::accumulate(values_.begin(), values_.end(), 0.0f); }

double units_per_millisecond() {
    Work work;
    std::vector<double> rates;
    for (int run = 0; run < kRuns; ++run) {
        const Instant start = os::now();
        work.run(kUnitsOfARun);
        rates.push_back(static_cast<double>(kUnitsOfARun) / ((os::now() - start).seconds() * 1e3));
    }
    [[maybe_unused]] volatile float kept = work.result();
    return percentile(rates, 50);
}

}  // namespace salus::job
