// What the driver's management library knows of a GPU and of the processes on it. Loaded at run time, needs no context.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace salus::device::cuda {

class Nvml {
public:
    /// For the GPU with this UUID ("GPU-…"). The error is one line.
    static Result<Nvml> open(const std::string& uuid);

    /// All memory in use on it, the driver's own part aside.
    std::optional<Bytes> used() const;
    /// What each process uses there; memory that was imported is its maker's. Nothing if it cannot be told.
    std::optional<std::map<int, Bytes>> used_by_process() const;
    std::string driver_version() const;

private:
    struct Functions;
    const Functions* functions_ = nullptr;
    void* device_ = nullptr;
};

}  // namespace salus::device::cuda
