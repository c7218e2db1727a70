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

}  // namespace salus
