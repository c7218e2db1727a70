// What a cluster's engine may hand out on the GPUs of this node: persistent memory, beside the lane that is set aside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/bytes.h"

namespace salus::cli {

/// The unit in which Slurm counts.
inline constexpr Bytes kShard = mebibytes(1);

struct Shares {
    struct Device {
        unsigned number = 0;
        Bytes capacity;
    };
    bool on_gpu = false;
    Bytes capacity;  ///< of the smallest device
    Bytes lane;      ///< set aside on each
    std::vector<Device> devices;

    std::int64_t shards_of(const Device& device) const { return (device.capacity - lane).count / kShard.count; }
};

/// Of the running service. `lane` is as typed; empty: a quarter of the memory. Throws if there is no service, or a wrong
/// lane.
Shares shares_of_service(const std::string& lane);
void add_lane_option(CLI::App& command, std::string& lane);

}  // namespace salus::cli
