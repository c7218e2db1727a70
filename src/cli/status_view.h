// The service's status as text, for `salus ps`, `status`, `top` and `run`. Pure: structs in, text out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "status/status.h"

namespace salus::cli {

/// "resnet50 (job 3)". Job 0 is not known.
std::string job_text(const std::string& name, std::uint32_t job);
/// The same for the holder of a lane; empty: nobody.
std::string holder_text(const Status& status, const LaneStatus& lane);
/// For how much of the last second the device worked; empty: not known.
std::string busy_text(const DeviceStatus& device);
/// How often gates were closed, and for how much of the last second; empty: never.
std::string gates_text(const ServiceStatus& service);

/// "8.5 s", "12m 05s", "3h 07m", "2d 4h".
std::string format_seconds(double seconds);
/// Three digits or so: "0.042", "4.20", "42.0", "420".
std::string format_rate(double per_s);

// -------------------------------------------------------------------------------------------------------------- jobs

/// The speed of a job; nothing: unknown (yet).
struct Rate {
    std::optional<double> iterations_per_s;
    std::optional<double> share;  ///< share of time inside its iterations: 0 to 1
    /// Share of its speed alone: of the time in which it did not wait. How clients that run beside each other slow each
    /// other down is not in it.
    std::optional<double> of_alone;
};

/// Since it was attached.
Rate average_rate(const JobStatus& job);

/// Rates between the last two snapshots.
class Rates {
public:
    void update(const Status& status);

    /// Of a job in the last snapshot.
    Rate of(const JobStatus& job) const;
    std::optional<double> turns_per_s() const { return turns_.per_s; }
    std::optional<double> switches_per_s() const { return switches_.per_s; }

private:
    /// A count that only grows, and how fast it grew when it last did.
    struct Gauge {
        double at_s = 0;
        double value = 0;
        std::optional<double> per_s;

        void read(double now_s, double now_value, bool late = false);
    };
    struct Gauges {
        Gauge iterations;
        Gauge busy;
        Gauge waited;
    };
    using Key = std::array<std::int64_t, 3>;
    static Key key_of(const JobStatus& job);

    std::optional<double> last_s_;
    Gauge turns_;
    Gauge switches_;
    std::map<Key, Gauges> jobs_;
};

/// Why it does not run, as text that follows its name: "waits for its turn, after resnet50 (job 3)". Empty: it runs, or does
/// not want to run.
std::string wait_text(JobState state, const Wait& wait);
/// Why a job that has no client yet does not start.
std::string start_wait_text(const StartWait& wait);

/// Whether the job could have been placed elsewhere: then people want to know where it is, and why.
bool was_placed(const JobStatus& job);

/// A job's line in ps and top. "-" means unknown.
struct JobCells {
    std::string gpu, placed;  ///< the number of its device, and why it is there if it could be elsewhere
    std::string job, name, user, client_class, priority, weight, state, lane, rate, of_alone, left, share, persistent,
        ephemeral;
    std::string elapsed, waited, pid, command;
    std::string iterations;  ///< "12/100"; "12/~100" if 100 comes from an earlier run
    std::string why;         ///< wait_text(), and for how long if that is long; its requests; why it has its class
};
JobCells cells_of(const JobStatus& job, const Rate& rate);

// ------------------------------------------------------------------------------------------------------------- texts

struct PsOptions {
    std::optional<std::int64_t> ended_before_unix_s;  ///< now; show jobs that have ended lately, too
    std::optional<UserId> viewer;                     ///< if all jobs are the viewer's, no user is shown
};
/// One line for each job, or "no jobs".
std::string format_ps(const Status& status, const PsOptions& options = {});
/// The part of the status that `salus ps --json` prints.
nlohmann::json ps_json(const Status& status, bool with_ended);
/// A few lines about the service.
std::string format_status(const Status& status);

}  // namespace salus::cli
