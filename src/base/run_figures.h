#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace salus {

/// What a run has shown about a job. Zero: unknown.
struct RunFigures {
    std::uint64_t iterations = 0;
    Duration iteration_time;
    Bytes persistent;
    Bytes ephemeral;
    bool interactive = false;  ///< its class at the end

    bool operator==(const RunFigures&) const = default;
};

/// What a run has taken of the device: the sum over the processes of its job.
struct RunUse {
    double device_s = 0;           ///< inside iterations
    double memory_time_gib_s = 0;  ///< P while on the device, T while running

    RunUse& operator+=(const RunUse& other) {
        device_s += other.device_s;
        memory_time_gib_s += other.memory_time_gib_s;
        return *this;
    }
};

}  // namespace salus
