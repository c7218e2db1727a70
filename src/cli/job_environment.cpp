#include "cli/job_environment.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "cli/service_link.h"

namespace salus::cli {

Result<Adaptor> find_adaptor() {
    const std::filesystem::path installed = std::filesystem::path(own_directory()).parent_path() / "lib";
    const Adaptor adaptor{(installed / "salus" / "python" / "inject").string(), (installed / "libsalus.so.1").string()};
    for (const std::string& path : {adaptor.inject, adaptor.library}) {
        std::error_code error;
        if (!std::filesystem::exists(path, error)) return Error{path + " is missing"};
    }
    return adaptor;
}

std::vector<std::pair<std::string, std::string>> framework_settings() {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const auto& [name, value] :
         {std::pair{"XLA_PYTHON_CLIENT_PREALLOCATE", "false"}, std::pair{"TF_FORCE_GPU_ALLOW_GROWTH", "true"}}) {
        if (!std::getenv(name)) settings.emplace_back(name, value);
    }
    return settings;
}

std::vector<std::pair<std::string, std::string>> job_environment(const JobIdentity& job) {
    std::vector<std::pair<std::string, std::string>> variables = {
        {"SALUS_SOCKET", job.socket},
        {"SALUS_NAME", job.name},
        {"SALUS_PRIORITY", std::to_string(job.priority)},
        {"SALUS_WEIGHT", fmt::format("{}", job.weight)},
        {"SALUS_OCCUPANCY", fmt::format("{}", job.occupancy)},
    };
    variables.emplace_back("SALUS_JOB", std::to_string(job.job));  // also 0: its processes are not to join by themselves
    if (!job.client_class.empty()) variables.emplace_back("SALUS_CLASS", job.client_class);
    if (job.iterations > 0) variables.emplace_back("SALUS_ITERATIONS", std::to_string(job.iterations));
    if (job.iteration_time.ns > 0) variables.emplace_back("SALUS_ITERATION_NS", std::to_string(job.iteration_time.ns));
    if (job.memory_hint) {
        variables.emplace_back("SALUS_PERSISTENT_HINT", std::to_string(job.memory_hint->first.count));
        variables.emplace_back("SALUS_EPHEMERAL_HINT", std::to_string(job.memory_hint->second.count));
    }
    if (!job.place.device.empty()) variables.emplace_back("SALUS_DEVICE", job.place.device);
    if (job.place.device == "cuda" && !job.place.gpu.empty() && !job.place.stays_assigned)
        variables.emplace_back("CUDA_VISIBLE_DEVICES", job.place.gpu);
    if (!job.place.mps_directory.empty()) {
        variables.emplace_back("CUDA_MPS_PIPE_DIRECTORY", job.place.mps_directory);
        variables.emplace_back("CUDA_MPS_LOG_DIRECTORY", job.place.mps_directory);
    }
    if (job.memory_limit > Bytes{}) variables.emplace_back("SALUS_MEMORY", std::to_string(job.memory_limit.count));
    if (!job.preload.empty()) {
        variables.emplace_back("LD_PRELOAD", job.preload);
        // A program built with the address sanitizer refuses to start if another library comes before the sanitizer's.
        const char* options = std::getenv("ASAN_OPTIONS");
        const std::string order = "verify_asan_link_order=0";
        variables.emplace_back("ASAN_OPTIONS", options && *options ? std::string(options) + ":" + order : order);
    }
    if (job.place.device == "cuda") {
        for (const auto& setting : framework_settings()) variables.push_back(setting);
    }
    if (const Result<Adaptor> adaptor = find_adaptor()) {
        const char* path = std::getenv("PYTHONPATH");
        variables.emplace_back("SALUS_LIBRARY", adaptor.value().library);
        variables.emplace_back("PYTHONPATH", path && *path ? adaptor.value().inject + ":" + path : adaptor.value().inject);
    }
    return variables;
}

}  // namespace salus::cli
