// The environment of a job: its identity, the place of the service, and how Python finds the adaptor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace salus::cli {

/// The files that a job loads, installed beside this program.
struct Adaptor {
    std::string inject;   ///< the directory that goes first on PYTHONPATH
    std::string library;  ///< libsalus.so
};
/// An error names the missing file.
Result<Adaptor> find_adaptor();

/// The device that the service shares.
struct Place {
    std::string device;           ///< "host", "cuda"; empty: not known
    std::string gpu;              ///< its UUID
    std::string mps_directory;    ///< empty: no MPS
    bool stays_assigned = false;  ///< CUDA_VISIBLE_DEVICES stays as it is: it names several GPUs, or only CUDA knows which
};

struct JobIdentity {
    std::string socket;
    std::string name;
    std::uint32_t job = 0;  ///< 0: no service gave it a number
    int priority = 0;
    double weight = 1;
    double occupancy = 1;
    std::uint64_t iterations = 0;  ///< 0: not known
    Duration iteration_time{};     ///< 0: not known
    std::optional<std::pair<Bytes, Bytes>> memory_hint{};
    Bytes memory_limit{};  ///< of GPU memory; 0: none
    Place place{};
    std::string client_class{};  ///< "batch", "interactive"; empty: to be found
    std::string preload{};       ///< for LD_PRELOAD: with the shim; empty: as it is
};

/// For frameworks that would take most of the GPU at once: they are told to grow, unless the user has decided.
std::vector<std::pair<std::string, std::string>> framework_settings();

/// Names and values; existing variables may be extended.
std::vector<std::pair<std::string, std::string>> job_environment(const JobIdentity& job);

}  // namespace salus::cli
