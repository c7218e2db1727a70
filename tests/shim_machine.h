// A machine whose jobs are programs that know nothing of Salus (tests/shim/program.cpp), on the stand-in GPU under the shim.
#pragma once

#include <string>

#include "tests/standin/gpu_machine.h"

namespace salus::test {

class ShimMachine : public GpuMachine {
public:
    static constexpr int kCapacityMib = 3072;
    explicit ShimMachine(const Words& options = {})
        : GpuMachine(Words{"--capacity", std::to_string(kCapacityMib) + "MiB"} + options,
                     {{"SALUS_STANDIN_MEMORY", std::to_string(4096 * kMiB)}}) {
        also["SALUS_SHIM_REPORT"] = path("report");
    }
    Process run(const Words& options, const Words& program) {
        return salus(Words{"run"} + options + Words{"--", SALUS_SHIM_PROGRAM} + program);
    }
    /// Its line, when it has ended well.
    nlohmann::json result(Process& process) {
        EXPECT_EQ(process.wait(), 0) << process.output();
        return line_of(process);
    }
    static nlohmann::json line_of(const Process& process) {
        const std::string output = process.output();
        const std::size_t at = output.find('{');
        return nlohmann::json::parse(at == std::string::npos ? "{}" : output.substr(at), nullptr, false);
    }
    std::string report() const { return text_of(path("report")); }
};

}  // namespace salus::test
