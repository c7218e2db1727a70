// What the web page shows of a service, as JSON: jobs with their clients put together, the device's memory, and how jobs
// fared while somebody looked. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/status_view.h"
#include "status/status.h"

namespace salus::cli {

/// Who looks, and may do what.
struct Viewer {
    UserId user = kNoUser;
    bool read_only = false;

    /// As the service decides.
    bool may_change(const JobStatus& job) const { return !read_only && (user == kRoot || job.user == user); }
    bool may_read(const JobStatus& job) const { return user == kRoot || job.user == user; }
};

class WebModel {
public:
    explicit WebModel(Viewer viewer) : viewer_(viewer) {}

    static constexpr Duration kSampleEvery = seconds(1);
    /// Over less, the rates of jobs that take turns with forty others would jump.
    static constexpr Duration kRateOver = seconds(3);
    static constexpr std::size_t kSamplesMax = 600;

    /// REQUIRES: user names are filled in.
    void update(const Status& status, Instant now);
    /// The service does not answer.
    void lost(const std::string& why);

    /// The page's overview.
    nlohmann::json overview() const;
    /// What a job has done since it was first seen here; nothing: there is no such job.
    std::optional<nlohmann::json> job(std::uint32_t number) const;
    const Status& status() const { return status_; }
    /// The newest row of the job, which may have ended; nullptr: there is none.
    const JobStatus* row_of(std::uint32_t number) const;

private:
    struct Sample {
        double ago_base_s = 0;  ///< on the clock of `now`
        double per_s = 0, share = 0;
        std::int64_t persistent = 0, ephemeral = 0;
        JobState state = JobState::kUnknown;
    };
    struct Past {
        std::deque<Sample> samples;
        std::map<std::string, double> waited_s;  ///< by reason
        Instant first, last;
    };

    void remember(Instant now);
    nlohmann::json job_json(const std::vector<const JobStatus*>& rows, double weights) const;
    nlohmann::json devices_json() const;
    nlohmann::json jobs_json() const;
    nlohmann::json ended_json() const;
    nlohmann::json service_json() const;

    Viewer viewer_;
    Status status_;
    Rates rates_;
    std::optional<Instant> rated_;
    std::string problem_ = "the service was not asked yet";
    Instant now_{};
    int restarts_ = 0;
    std::map<std::uint32_t, Past> past_;
};

}  // namespace salus::cli
