// A job as the simulator and the job files know it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"

namespace salus::sim {

/// From iteration `from` on (counted from 0) the job needs this much.
struct Growth {
    std::uint64_t from = 0;
    Bytes persistent;
    Bytes ephemeral;
    bool asks = true;  ///< persistent memory: it asks first (Need), or is found out (Observe)
};

struct SimulatedJob {
    std::string name;
    Duration arrival;
    std::uint64_t iterations = 1;
    Duration iteration_time = milliseconds(100);  ///< alone on the device
    Bytes persistent;
    Bytes ephemeral;
    int priority = 0;
    double weight = 1.0;
    UserId user{};
    Duration think;             ///< host time between iterations
    Duration startup;           ///< host time before the first iteration
    double occupancy = 1.0;     ///< share of the device it can use alone
    std::string command;        ///< what `salus bench` runs; empty: a stand-in. The simulator needs none
    bool random_think = false;  ///< exponentially distributed with mean `think`: requests at random times

    // What the swarm adds.
    bool pageable = true;
    double stated_share = 1.0;   ///< of its true P and T, where it states them
    bool states_length = true;   ///< whether iterations is told
    std::vector<Growth> growth;  ///< in order of `from`
    Bytes context;               ///< what its process has on the device beside the memory that it manages

    Duration service() const { return iteration_time * static_cast<std::int64_t>(iterations); }
};

}  // namespace salus::sim
