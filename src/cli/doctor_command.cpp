// salus doctor: what this machine supports and what is missing, one line each.
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/job_environment.h"
#include "cli/json_text.h"
#include "cli/service_link.h"
#include "cli/shim_preload.h"
#include "device/cuda/gpu.h"
#include "device/cuda/nvml.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/places.h"
#include "os/process.h"
#include "os/program.h"

namespace salus::cli {
namespace {

struct Finding {
    std::string what;
    bool ok = true;
    std::string detail;
};

Finding kernel() {
    utsname name{};
    ::uname(&name);
    int major = 0;
    int minor = 0;
    std::sscanf(name.release, "%d.%d", &major, &minor);
    const bool ok = major > 5 || (major == 5 && minor >= 11);
    return {"kernel", ok, fmt::format("{}{}", name.release, ok ? "" : ": 5.11 or newer is needed")};
}

Finding memory_files() {
    const os::Descriptor file = os::make_memory_file("salus-doctor");
    return {"memory files", static_cast<bool>(file), file ? "memfd with seals" : "memfd_create fails"};
}

Finding process_descriptors() {
    const os::Descriptor self = os::open_pidfd(::getpid());
    return {"process descriptors", static_cast<bool>(self), self ? "pidfd" : "pidfd_open fails"};
}

Finding memory() {
    struct sysinfo info {};
    ::sysinfo(&info);
    const Bytes total{static_cast<std::int64_t>(info.totalram * info.mem_unit)};
    return {"host memory", true, format_bytes(total) + "; jobs may use 80 % of it (change with --capacity)"};
}

Finding descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const bool ok = limit.rlim_cur >= 1024;
    return {"open files", ok, fmt::format("limit {}{}", limit.rlim_cur, ok ? "" : ": each job needs four")};
}

/// Where a job on the host device puts paged-out memory.
Finding paging() {
    const char* named = std::getenv("SALUS_PAGE_DIR");
    const std::string place = named && *named ? named : "/var/tmp";
    std::error_code error;
    const auto space = std::filesystem::space(place, error);
    if (error) return {"paging", false, place + " cannot be used: " + error.message()};
    if (::access(place.c_str(), W_OK) != 0) return {"paging", false, place + " cannot be written to"};
    return {"paging", true, format_bytes({static_cast<std::int64_t>(space.available)}) + " free in " + place};
}

std::string output_of(const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    char part[512];
    while (pipe && std::fgets(part, sizeof part, pipe)) output += part;
    if (pipe) ::pclose(pipe);
    return output.substr(0, output.find('\n'));
}

/// Whether tensors of the first Python in PATH will be in lanes.
void examine_torch(std::vector<Finding>& findings) {
    const std::string python = os::find_program("python3");
    const Result<Adaptor> adaptor = find_adaptor();
    if (python.empty() || !adaptor) return;
    const std::string code = "import _salus.cuda; print(_salus.cuda.outlook())";
    const std::string answer =
        output_of("PYTHONPATH='" + adaptor.value().inject + "' '" + python + "' -c '" + code + "' 2>/dev/null");
    const bool ok = answer.empty() || answer.find("no lanes") == std::string::npos;
    findings.push_back({"PyTorch", ok, answer.empty() ? python + " has no torch" : answer});
}

/// What a GPU needs for lanes. Without a GPU, jobs share the host, which is not an error.
void examine_gpu(std::vector<Finding>& findings) {
    const bool expected = std::filesystem::exists("/dev/nvidiactl");
    const Result<device::cuda::Gpu> gpu = device::cuda::open_gpu();
    if (!gpu) {
        findings.push_back({"GPU", !expected, gpu.error() + "; jobs share host memory and processors"});
        return;
    }
    const auto nvml = device::cuda::Nvml::open(gpu.value().uuid);
    int version = 0;
    gpu.value().driver->driver_version(&version);
    findings.push_back(
        {"GPU", true, fmt::format("{}, {}, {}", gpu.value().name, format_bytes(gpu.value().memory), gpu.value().uuid)});
    findings.push_back({"driver", true,
                        fmt::format("{}, CUDA {}.{}", nvml ? nvml.value().driver_version() : "version unknown",
                                    version / 1000, version % 1000 / 10)});
    findings.push_back({"GPU memory", true, "can be shared (virtual memory management, passed to jobs as descriptors)"});
    findings.push_back({"GPU processes", nvml.ok(), nvml ? "their memory use is visible (libnvidia-ml)" : nvml.error()});
    const std::string mps = os::find_program("nvidia-cuda-mps-control");
    findings.push_back({"MPS", true, mps.empty() ? "nvidia-cuda-mps-control is missing: lanes take turns" : mps});
    const Result<std::string> preload = preload_with_shim();
    findings.push_back({"shim", preload.ok(),
                        preload ? "every CUDA program shares (LD_PRELOAD=" + preload.value() + ")"
                                : preload.error() + ": only PyTorch scripts share"});
    examine_torch(findings);
}

Finding program(const char* name) {
    const std::string path = own_directory() + "/" + name;
    const bool ok = ::access(path.c_str(), X_OK) == 0;
    return {name, ok, ok ? path : path + " is missing"};
}

Finding library() {
    const std::string path = std::filesystem::path(own_directory()).parent_path().string() + "/lib/libsalus.so.1";
    const bool ok = ::access(path.c_str(), R_OK) == 0;
    return {"client library", ok, ok ? path : path + " is missing"};
}

/// Without it, Python jobs run but do not share.
Finding adaptor() {
    const Result<Adaptor> found = find_adaptor();
    return {"Python adaptor", found.ok(), found ? found.value().inject : found.error()};
}

Finding service() {
    const os::Service found = os::find_service();
    const bool is_own = found.whose == os::Whose::kOwn;
    if (!found.connection && is_own) return {"service", true, found.connection.error() + "; `salus run` starts one"};
    const Result<Status> answer = ask_status();
    if (!answer) return {"service", false, answer.error() + "; jobs wait for it, and only its administrator starts it"};
    const Status& status = answer.value();
    return {"service", true,
            fmt::format("runs at {}, policy {}, {} jobs", status.service.socket, status.service.policy, status.jobs.size())};
}

int examine(bool as_json) {
    std::vector<Finding> findings = {kernel(), memory_files(), process_descriptors(), memory(), descriptors(), paging()};
    examine_gpu(findings);
    for (const Finding& finding : {program("salusd"), program("salus-job"), library(), adaptor(), service()})
        findings.push_back(finding);
    bool ok = true;
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
        ok = ok && finding.ok;
        out.push_back({{"what", finding.what}, {"ok", finding.ok}, {"detail", finding.detail}});
        if (!as_json) fmt::print("{:<4} {:<20} {}\n", finding.ok ? "ok" : "NO", finding.what, finding.detail);
    }
    if (as_json) fmt::print("{}", json_text(out));
    return ok ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
    CLI::App* doctor = program.add_subcommand("doctor", "Check what this machine supports and what is missing");
    auto as_json = std::make_shared<bool>(false);
    doctor->add_flag("--json", *as_json, "Print JSON");
    doctor->callback([as_json, &action] { action = [as_json] { return examine(*as_json); }; });
}

}  // namespace salus::cli
