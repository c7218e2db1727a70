// Which jobs use a GPU, in the form in which NVIDIA's DCGM exporter reads it (its option hpc-job-mapping-dir): a file with
// the GPU's number as its name, and in it a line for each job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace salus::service {

/// One line, if files cannot be kept in this directory; else empty. An empty path is fine.
std::string why_no_job_mapping_in(const std::string& directory);

class JobMapping {
public:
    explicit JobMapping(std::string directory = {}) : directory_(std::move(directory)) {}
    /// The files go away: nobody would keep them true.
    ~JobMapping() { clear(); }
    JobMapping(const JobMapping&) = delete;
    JobMapping& operator=(const JobMapping&) = delete;

    /// Writes or removes what has changed. A GPU without jobs has no file: the exporter would leave out the GPU.
    Result<bool> write(unsigned gpu, const std::vector<std::uint32_t>& jobs);
    /// From now on in this directory.
    void move_to(const std::string& directory);
    const std::string& directory() const { return directory_; }

private:
    void clear();
    std::string path_of(unsigned gpu) const;

    std::string directory_;
    std::map<unsigned, std::string> written_;  ///< the content of the file of a GPU; empty: there is none
};

}  // namespace salus::service
