// salus doctor: what this machine supports and what is missing, one line each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/job_environment.h"
#include "cli/json_text.h"
#include "cli/shim_preload.h"
#include "device/cuda/gpu.h"
#include "device/cuda/nvml.h"
#include "os/program.h"

namespace salus::cli {
namespace {

std::string output_of(const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    char part[512];
    while (pipe && std::fgets(part, sizeof part, pipe)) output += part;
    if (pipe) ::pclose(pipe);
    return output.substr(0, output.find('\n'));
}

/// The first Python in PATH, and whether the tensors of its torch will be in lanes.
void examine_python(std::vector<Finding>& findings, bool on_gpu) {
    const std::string python = os::find_program("python3");
    if (python.empty()) {
        findings.push_back({"Python", true, "there is no python3 in PATH; other programs share without it"});
        return;
    }
    const Result<Adaptor> adaptor = find_adaptor();
    const std::string inject = adaptor ? "PYTHONPATH='" + adaptor.value().inject + "' " : "";
    const auto answer_to = [&](const std::string& code) {
        return output_of(inject + "'" + python + "' -c '" + code + "' 2>/dev/null");
    };
    const std::string version =
        answer_to("import sys; print(\"%d.%d.%d\" % sys.version_info[:3], int(sys.version_info >= (3, 8)))");
    const bool new_enough = version.ends_with(" 1");
    findings.push_back(
        {"Python", new_enough,
         fmt::format("{}, {}{}", python, version.empty() ? "does not run" : version.substr(0, version.find(' ')),
                     new_enough || version.empty() ? "" : ": 3.8 or newer is needed")});
    if (!adaptor || !new_enough) return;
    const std::string answer = answer_to(on_gpu ? "import _salus.cuda; print(_salus.cuda.outlook())"
                                                : "import _salus.adaptor; print(_salus.adaptor.outlook())");
    const bool ok = answer.empty() || answer.find("no lanes") == std::string::npos;
    findings.push_back({"PyTorch", ok, answer.empty() ? python + " has no torch" : answer});
}

/// What a GPU needs for lanes. Without a GPU, jobs share the host, which is not an error. False: there is none.
bool examine_gpu(std::vector<Finding>& findings) {
    const bool expected = std::filesystem::exists("/dev/nvidiactl");
    ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);  // as the service counts
    std::vector<std::string> left_out;
    const auto gpus = device::cuda::open_gpus([&](const std::string& why) { left_out.push_back(why); });
    if (!gpus) {
        findings.push_back({"GPU", !expected, gpus.error() + "; jobs share host memory and processors"});
        return false;
    }
    int version = 0;
    for (const device::cuda::Gpu& gpu : gpus.value()) {
        const auto nvml = device::cuda::Nvml::open(gpu.uuid);
        const auto number = nvml ? nvml.value().index() : std::nullopt;
        const bool several = gpus.value().size() + left_out.size() > 1;
        findings.push_back({several && number ? fmt::format("GPU {}", *number) : "GPU", true,
                            fmt::format("{}, {}, {}", gpu.name, format_bytes(gpu.memory), gpu.uuid)});
    }
    for (const std::string& why : left_out) findings.push_back({"GPU", false, why + "; jobs do not share it"});
    const device::cuda::Gpu& first = gpus.value().front();
    const auto nvml = device::cuda::Nvml::open(first.uuid);
    first.driver->driver_version(&version);
    findings.push_back({"driver", true,
                        fmt::format("{}, CUDA {}.{}", nvml ? nvml.value().driver_version() : "version unknown",
                                    version / 1000, version % 1000 / 10)});
    findings.push_back({"GPU memory", true, "can be shared (virtual memory management, passed to jobs as descriptors)"});
    findings.push_back({"GPU processes", nvml.ok(), nvml ? "their memory use is visible (libnvidia-ml)" : nvml.error()});
    const std::string mps = os::find_program("nvidia-cuda-mps-control");
    findings.push_back({"MPS", true,
                        mps.empty() ? "nvidia-cuda-mps-control is missing: lanes take turns"
                                    : mps + ": used only if the service starts it; then one job's fault on "
                                            "the GPU ends all that use it"});
    const Result<std::string> preload = preload_with_shim();
    findings.push_back({"shim", preload.ok(),
                        preload ? "every CUDA program shares (LD_PRELOAD=" + preload.value() + ")"
                                : preload.error() + ": only PyTorch scripts share"});
    return true;
}

int examine(bool as_json, bool for_cluster) {
    std::vector<Finding> findings = check_machine();
    examine_python(findings, examine_gpu(findings));
    for (Finding& finding : check_salus()) findings.push_back(std::move(finding));
    if (for_cluster) std::ranges::move(check_cluster(), std::back_inserter(findings));
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
    struct Arguments {
        bool json = false, cluster = false;
    };
    auto a = std::make_shared<Arguments>();
    doctor->add_flag("--json", a->json, "Print JSON");
    doctor->add_flag("--cluster", a->cluster, "Also check what Slurm and Ray need on this node");
    doctor->callback([a, &action] { action = [a] { return examine(a->json, a->cluster); }; });
}

}  // namespace salus::cli
