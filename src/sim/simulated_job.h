// A job of the simulator and of job files.
#pragma once

#include <cstdint>
#include <optional>
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
    bool asks = true;  ///< for persistent memory first (Need); else it takes the memory and tells (Observe)
};

/// From iteration `from` on (counted from 0) an iteration needs this much time of the host and of a device that works in
/// slices.
struct Pace {
    std::uint64_t from = 0;
    Duration host_time;
    Duration device_time;
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
    double occupancy = 1.0;     ///< share of the device that it can use alone
    std::string command;        ///< what `salus bench` runs; empty: a stand-in. The simulator does not use it
    bool interactive = false;   ///< its class, which it says when it attaches
    bool random_think = false;  ///< exponentially distributed with mean `think`: requests at random times
    double requests_per_s = 0;  ///< come at random times, whether or not the last one was answered; 0: `think` decides

    // Where the device works in slices (Note [Time slices] in sliced_device.h):
    std::optional<Duration> device_time;  ///< of an iteration; else all of it
    std::optional<Duration> host_time;    ///< in which its work is launched; else all of it
    /// The time of an iteration alone at evenly spaced quantiles, from the least to the most. Each iteration draws its own,
    /// and is launched in this time. Empty: always iteration_time.
    std::vector<Duration> quantiles;
    std::vector<Pace> paces;  ///< in order of `from`; until the first, as above

    // What the swarm adds.
    bool pageable = true;
    bool pages_idle = false;     ///< it can also be paged out while it wants nothing
    Bytes fixed;                 ///< the part of P that stays when it is paged out
    double stated_share = 1.0;   ///< if it states P and T: this share of the true values
    bool states_length = true;   ///< it states the number of its iterations
    bool runs_on = false;        ///< the simulation ends without it, when no other jobs are left
    std::vector<Growth> growth;  ///< in order of `from`
    std::uint32_t crew = 0;      ///< it takes turns with the others of this crew; 0: none. It has no T
    std::uint64_t launches = 0;  ///< of an iteration, and all that it shows of one; 0: it shows its iterations. It has no T
    bool joins_late = false;     ///< ... once a disturbance says so
    Bytes context;               ///< device memory of its process beside the memory that it manages

    Duration service() const { return iteration_time * static_cast<std::int64_t>(iterations); }
    /// It attaches through the shim, and has nothing in a lane.
    bool has_no_adaptor() const { return crew != 0 || launches > 0; }
    /// It waits for somebody who asks, and somebody waits for its answers.
    bool answers() const { return interactive && (think.ns > 0 || requests_per_s > 0); }
};

}  // namespace salus::sim
