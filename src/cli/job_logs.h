// The logs of background jobs: NUMBER-NAME.log, and NUMBER-NAME.log.2 for the next job with the same number and name. Job
// numbers start again with each service, but existing logs are kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::cli {

std::string log_directory();

struct NewLog {
    std::string path;
    os::Descriptor file;
};
/// Creates a file that did not exist before.
Result<NewLog> make_log(const std::string& directory, std::uint32_t job, const std::string& name);

/// The log of a job that runs or has ended, by number or name; the latest if there are several.
Result<std::string> find_log(const std::string& directory, const std::string& which);

/// Reading goes on with the last lines. The last one need not have ended.
void skip_to_last_lines(std::FILE* file, std::uint64_t lines);

}  // namespace salus::cli
