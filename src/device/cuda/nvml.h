// What the driver's management library knows about a GPU and its processes. Loaded at run time; needs no context.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/visible_devices.h"

namespace salus::device::cuda {

class Nvml {
public:
    /// For the GPU with this UUID ("GPU-…"). The error is one line.
    static Result<Nvml> open(const std::string& uuid);

    /// All memory in use on the GPU, except the driver's own part.
    std::optional<Bytes> used() const;
    /// Memory of each process on the GPU; imported memory counts for its creator. Nothing if it cannot be determined.
    std::optional<std::map<int, Bytes>> used_by_process() const;
    /// Share of about the last second in which a kernel ran. Nothing: this GPU cannot tell (a MIG instance).
    std::optional<double> busy_share() const;
    /// The GPU's number on this machine, by which tools name it.
    std::optional<unsigned> index() const;
    std::string driver_version() const;
    /// The GPU is gone for good: it has fallen off the bus, was drained, or needs a reset.
    bool is_lost() const;

    /// All GPUs of this machine that this process may use, whatever CUDA_VISIBLE_DEVICES says, and their MIG instances.
    /// Empty: nobody can tell.
    static std::vector<DeviceNames> all();
    /// Whether all of these GPUs are of one model, as far as anybody can tell.
    static bool are_of_one_model();

private:
    struct Functions;
    const Functions* functions_ = nullptr;
    void* device_ = nullptr;
};

}  // namespace salus::device::cuda
