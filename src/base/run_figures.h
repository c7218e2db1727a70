#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace salus {

/// What a run showed of a job. Zeros: not known.
struct RunFigures {
    std::uint64_t iterations = 0;
    Duration iteration_time;
    Bytes persistent;
    Bytes ephemeral;

    bool operator==(const RunFigures&) const = default;
};

}  // namespace salus
