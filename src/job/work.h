// A fixed amount of work; only the time that it takes depends on the machine.
#pragma once

#include <array>
#include <cstdint>

namespace salus::job {

/// One thread's. A unit is the same arithmetic on a few KiB, and takes about a microsecond.
class Work {
public:
    Work();
    void run(std::uint64_t units);
    /// Depends on every unit, so that none can be left out.
    float result() const;

private:
    alignas(64) std::array<float, 1024> values_;
};

/// Units in a millisecond: the median of several short runs.
double units_per_millisecond();

}  // namespace salus::job
