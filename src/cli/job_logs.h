// The logs of jobs in the background: NUMBER-NAME.log, and NUMBER-NAME.log.2 for the next one that is called so. Numbers
// begin anew with each service; what a job has written stays.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::cli {

std::string log_directory();

struct NewLog {
    std::string path;
    os::Descriptor file;
};
/// A file that was not there before.
Result<NewLog> make_log(const std::string& directory, std::uint32_t job, const std::string& name);

/// Of a job that runs or has ended, by number or name; the latest, if several have it.
Result<std::string> find_log(const std::string& directory, const std::string& which);

}  // namespace salus::cli
