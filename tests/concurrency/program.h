// A random program of 1 to 8 threads that share one client of Salus; a seed says all of it.
#pragma once

#include <cstdint>

#include "salus/salus.h"

namespace salus::concurrency {

struct Outcome {
    std::uint64_t digest = 0;  ///< of all that was read; it does not depend on how the threads ran
    std::uint64_t threads = 0;
    std::uint64_t lane_bytes = 0;
    std::uint64_t evacuations = 0;
    std::uint64_t turns = 0;
    std::uint64_t page_outs = 0;
    std::uint64_t denied = 0;  ///< blocks that the device had no room for
};

/// Runs it in this process, which was forked for it. A wrong byte ends the process.
/// `broken`: one byte is changed behind the program's back, which it has to notice.
Outcome run_program(std::uint64_t seed, bool on_gpu, bool broken);

}  // namespace salus::concurrency
