// What a machine must have for Salus, and whether it has it: the checks of `salus doctor` that take no time.
#pragma once

#include <string>
#include <vector>

namespace salus::cli {

struct Finding {
    std::string what;
    bool ok = true;
    std::string detail;
};

/// The kernel, and the limits of this user.
std::vector<Finding> check_machine();
/// Programs, files and the service of Salus.
std::vector<Finding> check_salus();
/// What Slurm and Ray need on this node, as far as they are here.
std::vector<Finding> check_cluster();

}  // namespace salus::cli
